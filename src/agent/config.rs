//! `agent.toml`: what the agent watches and what it may do.
//!
//! Every key is described in `deploy/agent.toml`, which holds the defaults. Without
//! a configuration nothing is put under pressure and nobody is paused.

use super::discover::Discovery;
use super::rules::Rule;
use jostle_host::os::here;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_DOCUMENT;
use serde::Deserialize;
use serde::Deserializer;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// A configuration, checked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub agent: AgentSection,
    /// The first that matches decides.
    #[serde(rename = "workload")]
    pub workloads: Vec<Rule>,
    pub profiling: ProfilingSection,
    pub blame: BlameSection,
    pub windows: WindowsSection,
    pub api: ApiSection,
    pub report: ReportSection,
}

/// `[agent]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentSection {
    /// Name of the node; its host name where absent.
    pub node_name: Option<String>,
    /// From one refresh to the next.
    #[serde(deserialize_with = "duration")]
    pub interval: Duration,
    /// What survives a restart.
    pub state_directory: PathBuf,
    /// The profile store; `profiles` in the state directory where absent.
    pub profiles: Option<PathBuf>,
    /// Profiles of a workload that are kept besides the newest.
    pub history: usize,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub log: String,
}

impl Default for AgentSection {
    fn default() -> Self {
        AgentSection {
            node_name: None,
            interval: Duration::from_secs(10),
            state_directory: "/var/lib/jostle".into(),
            profiles: None,
            history: 5,
            log: "info".into(),
        }
    }
}

/// `[profiling]`: when workloads are measured under pressure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfilingSection {
    /// Without it no source of interference is ever started.
    pub enabled: bool,
    /// Length of one measurement.
    #[serde(deserialize_with = "duration")]
    pub budget: Duration,
    /// Least time between two measurements of one workload.
    #[serde(deserialize_with = "duration")]
    pub every: Duration,
    /// Most of a workload's time that measurements may take, percent.
    pub share_percent: f64,
    /// Hours of the day, local time, as `22:00-06:00`; at any time where empty.
    pub hours: Vec<String>,
    /// Not while the node uses more of its CPUs, percent of all of them.
    pub below_cpu_percent: f64,
    /// Highest intensity, percent.
    pub max_intensity: f64,
    /// Highest intensity of the first measurement of a workload; every one that ends
    /// without reaching the floor doubles it, up to `max_intensity`.
    pub first_intensity: f64,
    /// Fraction of its usual performance below which every source stops.
    pub floor: f64,
    /// Resources to stress; all that can be where empty.
    pub resources: Vec<String>,
}

impl Default for ProfilingSection {
    fn default() -> Self {
        ProfilingSection {
            enabled: false,
            budget: Duration::from_secs(30),
            every: Duration::from_secs(24 * 3600),
            share_percent: 1.0,
            hours: Vec::new(),
            below_cpu_percent: 60.0,
            max_intensity: 50.0,
            first_intensity: 12.5,
            floor: 0.8,
            resources: Vec::new(),
        }
    }
}

/// `[blame]`: when candidates are paused to find out who slows a workload.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlameSection {
    /// Without it nobody is ever paused; suspects are only observed.
    pub enabled: bool,
    /// Length of one experiment.
    #[serde(deserialize_with = "duration")]
    pub budget: Duration,
    /// Least time between two experiments for one workload.
    #[serde(deserialize_with = "duration")]
    pub every: Duration,
    /// Length of one pause.
    #[serde(deserialize_with = "duration")]
    pub pause: Duration,
    /// Most of its time that a candidate stands still, percent.
    pub max_pause_percent: f64,
    /// Names of processes that are never paused, besides what keeps the machine going.
    pub protect: Vec<String>,
}

impl Default for BlameSection {
    fn default() -> Self {
        BlameSection {
            enabled: false,
            budget: Duration::from_secs(60),
            every: Duration::from_secs(15 * 60),
            pause: Duration::from_millis(5),
            max_pause_percent: 1.0,
            protect: Vec::new(),
        }
    }
}

/// `[windows]`: what is written for `jostle train` to learn from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WindowsSection {
    /// Without it nothing is written.
    pub enabled: bool,
    /// `windows` in the state directory where absent.
    pub directory: Option<PathBuf>,
    /// Size of one file, MiB.
    pub max_file_mib: u64,
    /// Files that are kept, the one being written included.
    pub max_files: u64,
    /// Also windows of which it is not known whether the workload was slow.
    pub unlabelled: bool,
}

impl Default for WindowsSection {
    fn default() -> Self {
        WindowsSection {
            enabled: false,
            directory: None,
            max_file_mib: 16,
            max_files: 8,
            unlabelled: false,
        }
    }
}

/// `[api]`: HTTP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApiSection {
    /// Unix socket; none where empty.
    pub socket: PathBuf,
    /// Permissions of the socket, octal.
    pub socket_mode: String,
    /// Group of the socket; that of the process where absent.
    pub socket_group: Option<String>,
    /// `ADDRESS:PORT`: loopback, or any address with `certificate` and `key` and one
    /// of `token_file` and `client_ca`.
    pub tcp: Option<String>,
    /// PEM files.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Clients need a certificate signed by it.
    pub client_ca: Option<PathBuf>,
    /// File with a token that clients send as `Authorization: Bearer TOKEN`.
    pub token_file: Option<PathBuf>,
}

impl Default for ApiSection {
    fn default() -> Self {
        ApiSection {
            socket: "/run/jostle/agent.sock".into(),
            socket_mode: "0660".into(),
            socket_group: None,
            tcp: None,
            certificate: None,
            key: None,
            client_ca: None,
            token_file: None,
        }
    }
}

/// `[report]`: where states are sent to.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReportSection {
    /// `jostle extender` as `https://HOST:PORT`: every address of HOST gets the states.
    /// Nothing is sent where absent.
    pub url: Option<String>,
    /// From one state to the next, unless what matters to placement changes.
    #[serde(deserialize_with = "duration")]
    pub interval: Duration,
    /// Signed the certificate of the extender; PEM files, as below.
    pub ca: Option<PathBuf>,
    /// What the agent shows of itself.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// File with the token of the extender.
    pub token_file: Option<PathBuf>,
}

impl Default for ReportSection {
    fn default() -> Self {
        ReportSection {
            url: None,
            interval: Duration::from_secs(10),
            ca: None,
            certificate: None,
            key: None,
            token_file: None,
        }
    }
}

/// As `10s`, `5ms`, `6h`, `1day`.
pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_duration(&text).map_err(|error| {
        let problem = format!("'{text}' is not a time ({error}); write for example \"10s\"");
        serde::de::Error::custom(problem)
    })
}

impl Config {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    /// A request error with the file, the line and the key.
    pub fn load(path: &Path) -> Result<Config> {
        let wrong = |problem: String| Error::request(format!("{}: {problem}", path.display()));
        let text =
            regular::read_text(path, LONGEST_DOCUMENT).map_err(|error| wrong(error.to_string()))?;
        Config::parse(&text).map_err(wrong)
    }

    /// The same of a text.
    ///
    /// # Errors
    /// In words, with the line or the key.
    pub fn parse(text: &str) -> std::result::Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let ms = Duration::from_millis;
        let day = Duration::from_secs(86_400);
        let profiling = &self.profiling;
        let blame = &self.blame;
        within("agent.interval", self.agent.interval, ms(100), day)?;
        within("profiling.budget", profiling.budget, ms(5000), day)?;
        between(
            "profiling.share_percent",
            profiling.share_percent,
            0.001,
            50.0,
        )?;
        let most = profiling.share_percent / 100.0 * day.as_secs_f64();
        if profiling.enabled && profiling.budget.as_secs_f64() > most {
            return Err(format!(
                "profiling.budget = {:?}: share_percent = {} allows {most:.0} s a day, so that \
                 no measurement would ever be started",
                profiling.budget, profiling.share_percent
            ));
        }
        between(
            "profiling.below_cpu_percent",
            profiling.below_cpu_percent,
            1.0,
            100.0,
        )?;
        between(
            "profiling.max_intensity",
            profiling.max_intensity,
            1.0,
            100.0,
        )?;
        let first = profiling.first_intensity;
        between(
            "profiling.first_intensity",
            first,
            1.0,
            profiling.max_intensity,
        )?;
        between("profiling.floor", profiling.floor, 0.1, 0.99)?;
        for text in &profiling.hours {
            super::experiments::hours::parse(text)
                .map_err(|problem| format!("profiling.hours: {problem}"))?;
        }
        for id in &profiling.resources {
            id.parse::<jostle_profile::resource::Resource>()
                .map_err(|problem| format!("profiling.resources: {problem}"))?;
        }
        within("blame.budget", blame.budget, ms(5000), day)?;
        within("blame.pause", blame.pause, ms(1), ms(100))?;
        between(
            "blame.max_pause_percent",
            blame.max_pause_percent,
            0.01,
            50.0,
        )?;
        let windows = &self.windows;
        between(
            "windows.max_file_mib",
            windows.max_file_mib as f64,
            1.0,
            4096.0,
        )?;
        between("windows.max_files", windows.max_files as f64, 1.0, 1000.0)?;
        within("report.interval", self.report.interval, ms(100), day)?;
        let log = &self.agent.log;
        if log.parse::<tracing::Level>().is_err() {
            return Err(format!(
                "agent.log: '{log}' is not a level; use error, warn, info, debug or trace"
            ));
        }
        for (index, rule) in self.workloads.iter().enumerate() {
            let named = |problem| format!("workload {} (counted from 1): {problem}", index + 1);
            rule.check().map_err(named)?;
        }
        self.names_are_unique()
    }

    /// Two rules may not give the same name.
    fn names_are_unique(&self) -> std::result::Result<(), String> {
        let names = self.workloads.iter();
        let mut names: Vec<&str> = names.filter_map(|rule| rule.name.as_deref()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("two workloads are called '{}'", pair[0])),
            None => Ok(()),
        }
    }

    /// What it watches and what it allows, for people.
    pub fn describe(&self, path: &Path) -> String {
        let allowed = |on: bool, what: String| match on {
            true => what,
            false => "off".to_string(),
        };
        let profiling = &self.profiling;
        let blame = &self.blame;
        let mut text = format!(
            "{}: all checks passed\n\
             refresh    every {:?}\n\
             profiles   {}\n\
             profiling  {}\n\
             blame      {}\n\
             windows    {}\n\
             report     {}\n\
             workloads\n",
            path.display(),
            self.agent.interval,
            self.profiles().display(),
            allowed(
                profiling.enabled,
                format!(
                    "{:?} per measurement, at most {} % intensity, {} % of a workload's time",
                    profiling.budget, profiling.max_intensity, profiling.share_percent
                )
            ),
            allowed(
                blame.enabled,
                format!(
                    "pauses of {:?}, at most {} % of a candidate's time",
                    blame.pause, blame.max_pause_percent
                )
            ),
            allowed(
                self.windows.enabled,
                format!(
                    "{}, at most {} MiB",
                    self.windows().display(),
                    self.windows.max_files * self.windows.max_file_mib
                )
            ),
            match &self.report.url {
                Some(url) => format!("to {url} every {:?}", self.report.interval),
                None => "off".into(),
            },
        );
        let mut discovery = Discovery::new(here(), &self.workloads);
        let found = discovery.look();
        for (index, rule) in self.workloads.iter().enumerate() {
            let may = match (rule.profile, rule.pause) {
                (true, true) => "may be profiled and paused",
                (true, false) => "may be profiled",
                (false, true) => "may be paused",
                (false, false) => "observed only",
            };
            let names = found.iter().filter(|it| it.rule == index);
            let names: Vec<&str> = names.map(|it| it.name.as_str()).collect();
            let now = match names.is_empty() {
                true => "nothing at the moment".to_string(),
                false => names.join(", "),
            };
            text += &format!("  {}. {}: {may}; now: {now}\n", index + 1, rule.matches);
        }
        if self.workloads.is_empty() {
            text += "  none: add a [[workload]] with a match\n";
        }
        for warning in discovery.warnings() {
            text += &format!("warning: {warning}\n");
        }
        text
    }

    /// The directory of the windows.
    pub fn windows(&self) -> PathBuf {
        let inside = || self.agent.state_directory.join("windows");
        self.windows.directory.clone().unwrap_or_else(inside)
    }

    /// The directory of the profile store.
    pub fn profiles(&self) -> PathBuf {
        let inside = || self.agent.state_directory.join("profiles");
        self.agent.profiles.clone().unwrap_or_else(inside)
    }
}

fn between(key: &str, given: f64, low: f64, high: f64) -> std::result::Result<(), String> {
    match (low..=high).contains(&given) {
        true => Ok(()),
        false => Err(format!(
            "{key} = {given}: give a number from {low} to {high}"
        )),
    }
}

fn within(
    key: &str,
    given: Duration,
    low: Duration,
    high: Duration,
) -> std::result::Result<(), String> {
    match (low..=high).contains(&given) {
        true => Ok(()),
        false => Err(format!(
            "{key} = {given:?}: give a time from {low:?} to {high:?}"
        )),
    }
}
