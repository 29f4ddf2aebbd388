//! Names that may have been meant instead of one that does not exist.

/// At most five of `names`, nearest first: those that contain `wanted`, are
/// contained in it, or differ from it in few letters. Of a path its last part
/// is compared too.
fn near(wanted: &str, names: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    let wanted_lower = wanted.trim_matches('/').to_lowercase();
    if wanted_lower.is_empty() {
        return Vec::new();
    }
    let most = (wanted.len() / 3).clamp(1, 6);
    let mut ranked: Vec<(usize, usize, String)> = names
        .into_iter()
        .filter_map(|name| {
            let name = name.as_ref();
            let lower = name.trim_matches('/').to_lowercase();
            let last = lower.rsplit('/').next().unwrap_or_default();
            let contained = lower.len() >= 4 && wanted_lower.contains(&lower);
            let edits = |other| strsim::osa_distance(&wanted_lower, other);
            let (class, distance) = match () {
                () if name == wanted => (0, 0),
                () if lower.is_empty() => return None,
                () if contained || lower.contains(&wanted_lower) => {
                    (1, lower.len().abs_diff(wanted_lower.len()))
                }
                () if [last, &lower]
                    .iter()
                    .all(|other| other.len().abs_diff(wanted_lower.len()) > most) =>
                {
                    return None;
                }
                () => match edits(&lower).min(edits(last)) {
                    few @ ..=2 => (0, few),
                    some => (2, some),
                },
            };
            (class == 1 || distance <= most).then(|| (class, distance, name.to_string()))
        })
        .collect();
    ranked.sort_unstable();
    ranked.dedup();
    ranked.truncate(5);
    ranked.into_iter().map(|(_, _, name)| name).collect()
}

/// `; near names: a, b`, or `otherwise` when nothing is near.
pub fn hint(
    wanted: &str,
    names: impl IntoIterator<Item = impl AsRef<str>>,
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
        assert_eq!(near("name", &many).len(), 5);
        assert!(near("nothing_like_it", names).is_empty());
        assert_eq!(hint("zzzzzz", names, "; none"), "; none");
    }

    #[test]
    fn of_paths_the_last_part_counts() {
        let known = [
            "nginx.service",
            "system.slice/redis.service",
            "engine-x.service",
            "ssh.service",
        ];
        assert_eq!(near("ngnix.service", known)[0], "nginx.service");
        let found = near("/rediss.service/", known);
        assert_eq!(found[0], "system.slice/redis.service");
        assert!(near("zzzzzz", known).is_empty() && near("", known).is_empty());
    }
}
