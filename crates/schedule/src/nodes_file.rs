//! The nodes file: what there is to place on, and what runs there.
//!
//! ```toml
//! [[node]]
//! name = "n1"
//! cpus = 16
//! memory = "64GiB"
//! platform = "Example CPU E-2400"   # optional
//! shares_cpus = false               # optional: applications take turns on CPUs
//! runs = ["redis", "redis"]         # optional: workload names of profiles
//!
//! [[app]]                           # optional: 1 CPU and no memory unless given
//! name = "redis"
//! cpus = 4
//! memory = "8GiB"
//! qos = 0.9                         # optional: fraction to keep, instead of
//!                                   # that of its profile
//! target = 1.5                      # optional: speed wanted, as a multiple of that
//!                                   # on one CPU; policies that choose sizes take
//!                                   # as many CPUs as its profile's curve needs
//! spread = false                    # optional: may run on several nodes
//! platforms = { "Example CPU E-2400" = 1.0, "Example CPU E-1200" = 0.6 }
//!                                   # optional: how fast it is on each, on any
//!                                   # one scale
//! ```

use crate::app::App;
use crate::cluster::Cluster;
use crate::cluster::ClusterError;
use crate::cluster::Node;
use crate::error::CpusError;
use crate::error::MOST_CPUS;
use crate::error::MemoryError;
use crate::error::NodesFileError;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_DOCUMENT;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::path::PathBuf;
use toml::Spanned;

/// One `[[node]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    pub node: Node,
    /// Workload name and the line it stands on.
    pub runs: Vec<(String, usize)>,
}

/// One `[[app]]`: what every instance of a workload asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct AppDemand {
    pub cpus: u32,
    pub memory_bytes: u64,
    /// Fraction of undisturbed performance to keep; that of the profile when
    /// absent.
    pub qos: Option<f64>,
    /// Speed wanted, as a multiple of that on one CPU.
    pub target: Option<f64>,
    /// Whether it may run on several nodes.
    pub spread: bool,
    /// Speed by platform, on any one scale.
    pub platforms: BTreeMap<String, f64>,
    /// The line its name stands on.
    pub line: usize,
}

impl AppDemand {
    /// `app` with this demand, and with its speed on the platforms of
    /// `cluster`, which learns those that it does not have yet.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Platforms`].
    pub fn applied(&self, app: App, cluster: &mut Cluster) -> Result<App, ClusterError> {
        for platform in self.platforms.keys() {
            cluster.add_platform(platform)?;
        }
        let speed = |name: &String| self.platforms.get(name).map(|speed| *speed as f32);
        let speeds = cluster.platforms().iter().map(speed).collect();
        let app = app
            .with_demand(self.cpus, self.memory_bytes)
            .with_platform_speed(speeds);
        Ok(match self.qos {
            Some(qos) => app.with_qos(qos),
            None => app,
        })
    }
}

/// A nodes file, checked. The default stands for no file: no node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodesFile {
    pub path: PathBuf,
    pub nodes: Vec<NodeEntry>,
    pub demands: BTreeMap<String, AppDemand>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    node: Vec<RawNode>,
    #[serde(default)]
    app: Vec<RawApp>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    name: Spanned<String>,
    cpus: Spanned<i64>,
    memory: Spanned<String>,
    platform: Option<String>,
    #[serde(default)]
    shares_cpus: bool,
    #[serde(default)]
    runs: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawApp {
    name: Spanned<String>,
    cpus: Option<Spanned<i64>>,
    memory: Option<Spanned<String>>,
    qos: Option<Spanned<f64>>,
    target: Option<Spanned<f64>>,
    #[serde(default)]
    spread: bool,
    #[serde(default)]
    platforms: BTreeMap<String, Spanned<f64>>,
}

impl NodesFile {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    ///
    /// When it cannot be read or [`Self::parse`] refuses it.
    pub fn load(path: &Path) -> Result<Self, NodesFileError> {
        let text = regular::read_text(path, LONGEST_DOCUMENT).map_err(|error| NodesFileError {
            path: path.into(),
            line: None,
            problem: match error.kind() {
                std::io::ErrorKind::NotFound => "no such file".into(),
                std::io::ErrorKind::InvalidData => "not a TOML file: not UTF-8 text".into(),
                _ => error.to_string(),
            },
        })?;
        Self::parse(path, &text)
    }

    /// Checks `text`; `path` is for messages.
    ///
    /// # Errors
    ///
    /// TOML that is not well formed, a key that is unknown, missing or of the
    /// wrong type, no node, two nodes or two apps of one name, CPUs below 1,
    /// or above [`MOST_CPUS`], memory that is negative or lacks a known unit, a
    /// QoS that is no fraction, a speed that is not above 0.
    pub fn parse(path: &Path, text: &str) -> Result<Self, NodesFileError> {
        let refuse = |at: Option<usize>, problem: String| NodesFileError {
            path: path.into(),
            line: at.map(|offset| line_of(text, offset)),
            problem,
        };
        let raw: RawFile = toml::from_str(text).map_err(|error| {
            let at = error.span().map(|span| span.start);
            let mut problem = error
                .message()
                .trim_end_matches('\n')
                .replace('\n', "; ")
                // The reader writes TOML, not Rust.
                .replace(
                    "expected a sequence",
                    "expected a list; tables are [[node]] and [[app]]",
                )
                .replace("expected i64", "expected a whole number")
                .replace("expected struct RawNode", "expected [[node]] tables")
                .replace("expected struct RawApp", "expected [[app]] tables");
            let line = at.and_then(|offset| text.lines().nth(line_of(text, offset) - 1));
            if let Some(line) = line.map(str::trim).filter(|line| !line.is_empty()) {
                problem.push_str(&format!(" (in `{line}`)"));
            }
            refuse(at, problem)
        })?;
        if raw.node.is_empty() {
            return Err(refuse(
                None,
                "holds no node; add at least one [[node]] with name, cpus and memory".into(),
            ));
        }
        let wrong = |at: Range<usize>, problem: String| refuse(Some(at.start), problem);
        let count = |key: &Spanned<i64>| {
            check_cpus(*key.get_ref())
                .map_err(|problem| wrong(key.span(), format!("key `cpus`: {problem}")))
        };
        let memory = |key: &Spanned<String>| {
            parse_memory(key.get_ref())
                .map_err(|problem| wrong(key.span(), format!("key `memory`: {problem}")))
        };
        let fraction = |key: &Spanned<f64>| match *key.get_ref() {
            qos if qos > 0.0 && qos <= 1.0 => Ok(qos),
            qos => Err(wrong(
                key.span(),
                format!("key `qos`: is {qos}; write a fraction to keep, above 0 and at most 1"),
            )),
        };
        let speed = |key: &Spanned<f64>| match *key.get_ref() {
            speed if speed > 0.0 && speed < 1e9 => Ok(speed),
            speed => Err(wrong(
                key.span(),
                format!("key `target`: is {speed}; write a speed above 0"),
            )),
        };
        let rate = |platform: &str, key: &Spanned<f64>| match *key.get_ref() {
            speed if speed > 0.0 && speed < 1e9 => Ok(speed),
            speed => Err(wrong(
                key.span(),
                format!("key `platforms.{platform}`: is {speed}; write a speed above 0"),
            )),
        };
        let name = |key: &Spanned<String>, before: Option<usize>, of: &str| {
            let name = key.get_ref();
            let problem = match before {
                _ if name.trim().is_empty() => format!("is empty; name the {of}"),
                Some(line) => format!(
                    "`{name}` is already used on line {line}; give each {of} a name of its own"
                ),
                None => return Ok(line_of(text, key.span().start)),
            };
            Err(wrong(key.span(), format!("key `name`: {problem}")))
        };
        let placed = |run: Spanned<String>| {
            let line = line_of(text, run.span().start);
            (run.into_inner(), line)
        };
        let mut nodes = Vec::with_capacity(raw.node.len());
        let mut lines: BTreeMap<String, usize> = BTreeMap::new();
        for node in raw.node {
            let line = name(&node.name, lines.get(node.name.get_ref()).copied(), "node")?;
            lines.insert(node.name.get_ref().clone(), line);
            nodes.push(NodeEntry {
                node: Node {
                    cpus: count(&node.cpus)?,
                    memory_bytes: memory(&node.memory)?,
                    platform: node.platform,
                    shares_cpus: node.shares_cpus,
                    name: node.name.into_inner(),
                },
                runs: node.runs.into_iter().map(placed).collect(),
            });
        }
        let mut demands: BTreeMap<String, AppDemand> = BTreeMap::new();
        for app in raw.app {
            let before = demands.get(app.name.get_ref()).map(|demand| demand.line);
            let line = name(&app.name, before, "app")?;
            let speeds = app.platforms.iter();
            let speeds = speeds.map(|(name, speed)| Ok((name.clone(), rate(name, speed)?)));
            let demand = AppDemand {
                cpus: app.cpus.as_ref().map(count).transpose()?.unwrap_or(1),
                memory_bytes: app.memory.as_ref().map(memory).transpose()?.unwrap_or(0),
                qos: app.qos.as_ref().map(fraction).transpose()?,
                target: app.target.as_ref().map(speed).transpose()?,
                spread: app.spread,
                platforms: speeds.collect::<Result<_, _>>()?,
                line,
            };
            demands.insert(app.name.into_inner(), demand);
        }
        Ok(NodesFile {
            path: path.into(),
            nodes,
            demands,
        })
    }
}

/// Lines count from 1.
fn line_of(text: &str, offset: usize) -> usize {
    let upto = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + upto.iter().filter(|byte| **byte == b'\n').count()
}

/// A number of CPUs that a node may have and an application may ask for.
///
/// # Errors
///
/// What may be written.
pub(crate) fn check_cpus(cpus: i64) -> Result<u32, CpusError> {
    match u32::try_from(cpus) {
        Ok(cpus @ 1..=MOST_CPUS) => Ok(cpus),
        _ => Err(CpusError(cpus)),
    }
}

const UNITS: [(&str, u64); 11] = [
    ("B", 1),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
];

/// Bytes from a number and a unit, such as `64GiB` or `1.5 TB`.
///
/// # Errors
///
/// [`MemoryError`]: no number, negative, no unit, an unknown unit, or more than
/// 2⁶⁴ bytes.
pub fn parse_memory(text: &str) -> Result<u64, MemoryError> {
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim();
    let amount: f64 = number
        .parse()
        .map_err(|_| MemoryError::NotASize(text.into()))?;
    if amount < 0.0 {
        return Err(MemoryError::Negative(text.into()));
    }
    if unit.is_empty() {
        return Err(MemoryError::NoUnit(trimmed.into()));
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(MemoryError::UnknownUnit(unit.into()));
    };
    let bytes = amount * *scale as f64;
    if bytes >= u64::MAX as f64 {
        return Err(MemoryError::TooMuch(text.into()));
    }
    Ok(bytes.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "[[node]]\nname = \"n\"\ncpus = 4\nmemory = \"8GiB\"\nplatform = \"P\"\n";

    fn parsed(app: &str) -> Result<NodesFile, NodesFileError> {
        let text = format!("{NODE}[[app]]\nname = \"a\"\n{app}");
        NodesFile::parse(Path::new("nodes.toml"), &text)
    }

    #[test]
    fn an_app_may_say_its_qos_and_its_speeds() {
        let file = parsed("qos = 0.9\nplatforms = { Q = 1, P = 0.5 }\n").unwrap();
        let mut cluster = Cluster::new(file.nodes.iter().map(|entry| entry.node.clone())).unwrap();
        let app = App::bare("a", crate::predict::Responses::default());
        let app = file.demands["a"].applied(app, &mut cluster).unwrap();
        assert_eq!(app.qos(), 0.9);
        let speed = |name: &str| app.speed_on(cluster.platform(name).unwrap());
        assert_eq!((speed("P"), speed("Q")), (Some(0.5), Some(1.0)));
    }

    #[test]
    fn a_bad_qos_or_speed_is_refused_with_its_line() {
        for (bad, says) in [
            ("qos = 0.0\n", "key `qos`: is 0;"),
            ("qos = 1.5\n", "key `qos`: is 1.5;"),
            ("qos = nan\n", "key `qos`: is NaN;"),
            ("qos = \"much\"\n", "invalid type"),
            ("target = 0.0\n", "key `target`: is 0;"),
            ("spread = 1\n", "invalid type"),
            ("platforms = { P = -1.0 }\n", "key `platforms.P`: is -1;"),
            ("platforms = { P = inf }\n", "key `platforms.P`: is inf;"),
            ("cpus = 4000000000\n", "at most 16384"),
        ] {
            let error = parsed(bad).unwrap_err();
            assert_eq!(error.line, Some(8), "{bad}: {error}");
            assert!(error.problem.contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn memory_needs_a_number_and_a_unit() {
        assert_eq!(parse_memory("64GiB"), Ok(64 << 30));
        assert_eq!(parse_memory(" 1.5 KiB "), Ok(1536));
        assert_eq!(parse_memory("2GB"), Ok(2_000_000_000));
        for (bad, says) in [
            ("-5GiB", "negative"),
            ("64", "no unit"),
            ("64GiX", "not a unit"),
            ("much", "not a size"),
            ("", "not a size"),
            ("1.2.3GiB", "not a size"),
            ("99999999PiB", "more than"),
        ] {
            let problem = parse_memory(bad).unwrap_err().to_string();
            assert!(problem.contains(says), "{bad}: {problem}");
        }
    }
}
