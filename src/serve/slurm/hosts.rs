//! Slurm's lists of hosts: `n[1-3,07],login`.

/// A longer list is not believed.
const MOST: usize = 65_536;

/// The names in `list`; `None` where it is malformed or too long.
pub fn expand(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for part in split(list)? {
        match part.split_once('[') {
            None => names.push(part.to_string()),
            Some((prefix, rest)) => {
                let (ranges, suffix) = rest.split_once(']')?;
                // More than one dimension is rare, and left alone.
                if suffix.contains('[') {
                    return None;
                }
                for range in ranges.split(',') {
                    let (first, last) = range.split_once('-').unwrap_or((range, range));
                    let (from, to): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
                    if from > to || to - from >= MOST || names.len() + to - from >= MOST {
                        return None;
                    }
                    let width = first.len();
                    names.extend((from..=to).map(|it| format!("{prefix}{it:0width$}{suffix}")));
                }
            }
        }
        if names.len() > MOST {
            return None;
        }
    }
    Some(names)
}

/// Splits at commas that are not within brackets.
fn split(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (index, byte) in list.bytes().enumerate() {
        match byte {
            b'[' if inside => return None,
            b'[' => inside = true,
            b']' => inside = false,
            b',' if !inside => {
                parts.push(&list[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts.retain(|part| !part.is_empty());
    (!inside).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        expand(list).expect(list)
    }

    #[test]
    fn lists_are_expanded() {
        assert_eq!(
            names("n[1-3,07],login,gpu-a"),
            ["n1", "n2", "n3", "n07", "login", "gpu-a"]
        );
        assert_eq!(names("r[08-11]x"), ["r08x", "r09x", "r10x", "r11x"]);
        assert_eq!(names(""), Vec::<String>::new());
        for bad in [
            "n[1-",
            "n[a]",
            "n[3-1]",
            "n[1-99999999]",
            "n[1][2]",
            "n[[1]]",
        ] {
            assert_eq!(expand(bad), None, "{bad}");
        }
    }
}
