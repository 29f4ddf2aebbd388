//! Names like the one that was not found.

/// Most names that are shown.
const SHOWN: usize = 5;
/// Similarity (0–1) below which a name is none of them.
const ALIKE: f64 = 0.7;

/// `; near names: a, b`, or nothing. A name is near that contains what was
/// asked for, or that looks much like it.
pub(super) fn suggestion(asked: &str, known: impl IntoIterator<Item = String>) -> String {
    let asked = asked.trim_matches('/').to_lowercase();
    let mut near: Vec<(f64, String)> = known
        .into_iter()
        .filter_map(|name| {
            let lower = name.trim_matches('/').to_lowercase();
            let last = lower.rsplit('/').next().unwrap_or_default();
            let alike =
                strsim::jaro_winkler(&asked, &lower).max(strsim::jaro_winkler(&asked, last));
            let contained = !asked.is_empty() && lower.contains(&asked);
            let score = if contained { 1.0 + alike } else { alike };
            (score >= ALIKE).then_some((score, name))
        })
        .collect();
    near.sort_by(|(score, name), (other, second)| {
        other.total_cmp(score).then_with(|| name.cmp(second))
    });
    near.dedup_by(|(_, name), (_, second)| name == second);
    near.truncate(SHOWN);
    let names: Vec<String> = near.into_iter().map(|(_, name)| name).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("; near names: {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_come_nearest_first() {
        let known = [
            "nginx.service",
            "redis.service",
            "engine-x.service",
            "ssh.service",
        ];
        let known = || known.map(str::to_string);
        assert_eq!(
            suggestion("ngnix.service", known())
                .split(", ")
                .next()
                .unwrap(),
            "; near names: nginx.service"
        );
        assert_eq!(suggestion("redis", known()), "; near names: redis.service");
        assert_eq!(suggestion("zzzzzz", known()), "");
        assert_eq!(suggestion("", []), "");
    }
}
