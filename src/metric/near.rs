//! Names that may have been meant.

/// At most five of `names`, nearest first: those that contain `wanted`, are
/// contained in it, or differ from it in few letters.
pub(super) fn near<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted_lower = wanted.to_lowercase();
    let most = (wanted.len() / 3).clamp(1, 6);
    let mut ranked: Vec<(usize, usize, &str)> = names
        .into_iter()
        .filter(|name| !name.is_empty())
        .filter_map(|name| {
            if name == wanted {
                return Some((0, 0, name));
            }
            let lower = name.to_lowercase();
            let unlike = name.len().abs_diff(wanted.len());
            if lower.contains(&wanted_lower) || (lower.len() >= 4 && wanted_lower.contains(&lower))
            {
                return Some((1, unlike, name));
            }
            if unlike > most {
                return None;
            }
            let edits = strsim::osa_distance(&wanted_lower, &lower);
            (edits <= most).then_some((usize::from(edits > 2) * 2, edits, name))
        })
        .collect();
    ranked.sort_unstable();
    ranked.dedup();
    ranked.truncate(5);
    ranked.into_iter().map(|(_, _, name)| name).collect()
}

/// `; near names: a, b`, or `otherwise` when nothing is near.
pub(super) fn hint<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
    otherwise: &str,
) -> String {
    let found = near(wanted, names);
    match found.is_empty() {
        true => otherwise.to_string(),
        false => format!("; near names: {}", found.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first_and_few() {
        let names = ["malloc", "mallopt", "realloc", "calloc", "free", "__malloc"];
        assert_eq!(near("maloc", names)[0], "malloc");
        assert_eq!(near("malloc", names)[..2], ["malloc", "calloc"]);
        let many: Vec<String> = (0..50).map(|n| format!("name{n}")).collect();
        assert_eq!(near("name", many.iter().map(String::as_str)).len(), 5);
        assert!(near("nothing_like_it", names).is_empty());
        assert_eq!(hint("zzzzzz", names, "; none"), "; none");
    }
}
