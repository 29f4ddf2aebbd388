//! The mix file: what a copy of a mix is made of.
//!
//! ```toml
//! [[app]]
//! name = "redis"       # the workload's name in its profile
//! count = 2            # optional: instances in one copy of the mix, 1 unless given
//! cpus = 1             # optional: those that its profile was measured on unless given
//! memory = "2GiB"      # optional: what its profile saw resident unless given
//! qos = 0.9            # optional: fraction to keep, instead of that of its profile
//! ```

use crate::nodes_file::check_cpus;
use crate::nodes_file::parse_memory;
use serde::Deserialize;

/// Most instances of one application in a copy: more is a slip.
const MOST_COUNT: u32 = 1000;

/// One `[[app]]`, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct MixEntry {
    pub name: String,
    pub count: u32,
    pub cpus: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub qos: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMix {
    app: Vec<RawEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    name: String,
    count: Option<u32>,
    cpus: Option<i64>,
    memory: Option<String>,
    qos: Option<f64>,
}

/// Reads a mix.
///
/// # Errors
/// In words, with the application or the line and the key.
pub fn parse(text: &str) -> Result<Vec<MixEntry>, String> {
    let raw: RawMix = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|at| {
            let upto = text.as_bytes().get(..at.start).unwrap_or_default();
            1 + upto.iter().filter(|byte| **byte == b'\n').count()
        });
        let line = line.map_or(String::new(), |line| format!("line {line}: "));
        format!("{line}{}", error.message())
    })?;
    if raw.app.is_empty() {
        return Err("holds no application; add at least one [[app]] with a name".into());
    }
    let mut entries: Vec<MixEntry> = Vec::with_capacity(raw.app.len());
    for entry in raw.app {
        if entries.iter().any(|other| other.name == entry.name) {
            return Err(format!(
                "`{}` is there twice; write one [[app]] with `count`",
                entry.name
            ));
        }
        entries.push(checked(entry)?);
    }
    Ok(entries)
}

fn checked(entry: RawEntry) -> Result<MixEntry, String> {
    let named =
        |key: &str, problem: String| format!("app `{}`, key `{key}`: {problem}", entry.name);
    let count = entry.count.unwrap_or(1);
    if !(1..=MOST_COUNT).contains(&count) {
        let problem = format!("is {count}; write 1 to {MOST_COUNT} instances");
        return Err(named("count", problem));
    }
    let cpus = entry.cpus.map(check_cpus).transpose();
    let memory = entry.memory.as_deref().map(parse_memory).transpose();
    if let Some(qos) = entry.qos.filter(|qos| !(*qos > 0.0 && *qos <= 1.0)) {
        let problem = format!("is {qos}; write a fraction to keep, above 0 and at most 1");
        return Err(named("qos", problem));
    }
    Ok(MixEntry {
        count,
        cpus: cpus.map_err(|error| named("cpus", error.to_string()))?,
        memory_bytes: memory.map_err(|error| named("memory", error.to_string()))?,
        qos: entry.qos,
        name: entry.name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_says_what_a_copy_is() {
        let mix = "[[app]]\nname = \"a\"\n[[app]]\nname = \"b\"\ncount = 2\ncpus = 3\nmemory = \"1GiB\"\nqos = 0.8\n";
        let entries = parse(mix).unwrap();
        assert_eq!((entries[0].count, entries[0].cpus), (1, None));
        assert_eq!((entries[1].count, entries[1].cpus), (2, Some(3)));
        assert_eq!(entries[1].memory_bytes, Some(1 << 30));
    }

    #[test]
    fn what_makes_no_mix_is_refused() {
        for (bad, says) in [
            ("", "missing field `app`"),
            ("app = []", "holds no application"),
            (
                "[[app]]\nname = \"a\"\n[[app]]\nname = \"a\"",
                "there twice",
            ),
            ("[[app]]\nname = \"a\"\ncount = 0", "key `count`: is 0"),
            ("[[app]]\nname = \"a\"\ncpus = -1", "key `cpus`: is -1"),
            (
                "[[app]]\nname = \"a\"\nmemory = \"2\"",
                "key `memory`: `2` has no unit",
            ),
            ("[[app]]\nname = \"a\"\nqos = 95", "key `qos`: is 95"),
            ("[[app]]\nname = \"a\"\nspeed = 1", "unknown field `speed`"),
            ("[[app]\n", "line 1: "),
        ] {
            let problem = parse(bad).unwrap_err();
            assert!(problem.contains(says), "{bad}: {problem}");
        }
    }
}
