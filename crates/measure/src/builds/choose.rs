//! What both builds have in common that tells how fast they are.

use super::bench::Side;
use super::error::BuildError;
use super::measure::Method;
use crate::error::Error;
use crate::error::Result;
use crate::metric;
use crate::metric::MetricOptions;
use crate::metric::Start;
use crate::workload::CommandSpec;
use crate::workload::Progress;
use crate::workload::Published;
use crate::workload::Target;
use crate::workload::TargetSpec;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

/// How both are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) method: Method,
    /// Names of the metrics, as they are asked for; of no use for whole runs.
    pub(super) metrics: [String; 2],
    pub(super) because: String,
}

/// What a command did that was watched for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Ended,
    /// Counts by this metric, and does not end at once.
    Publishes(&'static str),
    RunsOn,
}

/// A progress page is read rather than a whole run if the run is this long.
const LONG: Duration = Duration::from_millis(300);
/// Whole runs are measured where so many of both fit into the time.
const RUNS: u32 = 12;
/// A command is watched for so long at least and at most.
const WATCHED: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(5)];
/// How much longer it is watched once more where the other one ended or publishes.
const AGAIN: u32 = 3;
/// From one look for a page to the next.
const LOOK: Duration = Duration::from_millis(10);

pub(super) struct Watch<'a> {
    pub(super) commands: [&'a CommandSpec; 2],
    pub(super) cpus: &'a [usize],
    pub(super) budget: Duration,
    pub(super) options: &'a MetricOptions,
    pub(super) interrupt: &'a Arc<AtomicBool>,
}

impl Watch<'_> {
    /// # Errors
    /// When a command fails, or the two have nothing in common.
    pub(super) fn choose(&self, asked: Option<&str>) -> Result<Choice> {
        match asked {
            Some("runs") => Ok(runs("asked for with --metric")),
            Some("progress:auto") => self.automatic("asked for with --metric"),
            Some(name) => Ok(Choice {
                method: Method::Count,
                metrics: [name.to_string(), name.to_string()],
                because: "asked for with --metric".into(),
            }),
            None => self.best(),
        }
    }

    fn best(&self) -> Result<Choice> {
        let longest = self.budget / (2 * RUNS);
        let longest = longest.clamp(WATCHED[0], WATCHED[1]);
        let mut old = self.watch(Side::Old, longest)?;
        let mut new = self.watch(Side::New, longest)?;
        // One may just start more slowly, or have been unlucky on a busy machine.
        match (&old, &new) {
            (Seen::Ended | Seen::Publishes(_), Seen::RunsOn) => {
                new = self.watch(Side::New, AGAIN * longest)?
            }
            (Seen::RunsOn, Seen::Ended | Seen::Publishes(_)) => {
                old = self.watch(Side::Old, AGAIN * longest)?
            }
            _ => {}
        }
        match (&old, &new) {
            (Seen::Ended, Seen::Ended) => Ok(runs("both end by themselves")),
            (Seen::Publishes(old), Seen::Publishes(new)) => Ok(Choice {
                method: Method::Count,
                metrics: [old.to_string(), new.to_string()],
                because: "both publish their progress".into(),
            }),
            (Seen::RunsOn, Seen::RunsOn) => self.automatic(&format!(
                "neither publishes its progress or ends within {:.1} s",
                longest.as_secs_f64()
            )),
            (Seen::Publishes(_), _) => Err(BuildError::OnePublishes(Side::Old).into()),
            (_, Seen::Publishes(_)) => Err(BuildError::OnePublishes(Side::New).into()),
            (Seen::Ended, Seen::RunsOn) => Err(BuildError::OneEnds(Side::Old, longest).into()),
            (Seen::RunsOn, Seen::Ended) => Err(BuildError::OneEnds(Side::New, longest).into()),
        }
    }

    fn command(&self, side: Side) -> &CommandSpec {
        self.commands[usize::from(side == Side::New)]
    }

    fn started(&self, side: Side) -> Result<Target> {
        let spec = TargetSpec::Command(self.command(side).clone());
        Target::start(&spec, Some(self.cpus), None).map_err(|error| side.named(error))
    }

    fn watch(&self, side: Side, longest: Duration) -> Result<Seen> {
        let mut target = self.started(side)?;
        let began = Instant::now();
        let mut publishes = None;
        while began.elapsed() < longest {
            if self.interrupt.load(Relaxed) {
                return Err(Error::Interrupted(String::new()));
            }
            match target.wait(LOOK) {
                Some(exit) if exit.success() => return Ok(Seen::Ended),
                Some(exit) => return Err(side.named(target.gone(exit))),
                None => {}
            }
            publishes = publishes.or_else(|| page(&target));
            if let Some(name) = publishes
                && began.elapsed() >= LONG
            {
                return Ok(Seen::Publishes(name));
            }
        }
        Ok(publishes.map_or(Seen::RunsOn, Seen::Publishes))
    }

    /// Calls of a function of OLD that is found automatically, and of the one of the
    /// same name in NEW.
    fn automatic(&self, why: &str) -> Result<Choice> {
        let spec = TargetSpec::Command(self.command(Side::Old).clone());
        let start = Start {
            metric: Some("progress:auto"),
            options: self.options.clone(),
            load: None,
            cpus: Some(self.cpus),
            interrupt: self.interrupt.clone(),
        };
        let found = metric::start_warm(&spec, start, |_| Ok(()));
        let (old, metric) = found.map_err(|error| match error {
            Error::Environment(reason) => BuildError::NothingCounted(reason).into(),
            error => Side::Old.named(error),
        })?;
        let name = metric.facts().name;
        if name == "runs" {
            return Ok(runs("no function was found to count, and both are to end"));
        }
        let old_program = program(&old);
        drop((metric, old));
        let new = self.started(Side::New)?;
        // It is the shell's or the loader's for a moment.
        std::thread::sleep(LOOK);
        let new_program = program(&new);
        let (Some(old_program), Some(new_program)) = (old_program, new_program) else {
            return Err(BuildError::NothingCounted("a program ended at once".into()).into());
        };
        let renamed = renamed(&name, &old_program, &new_program);
        Ok(Choice {
            method: Method::Count,
            metrics: [name, renamed.map_err(Error::from)?],
            because: format!("{why}, and calls of a function can be counted in both"),
        })
    }
}

fn runs(because: &str) -> Choice {
    Choice {
        method: Method::Runs,
        metrics: ["runs".to_string(), "runs".to_string()],
        because: because.into(),
    }
}

/// The metric that reads what `target` publishes, if it does.
fn page(target: &Target) -> Option<&'static str> {
    if let Ok(Some(_)) = Progress::find(target.pid()) {
        return Some("progress");
    }
    let file = Published::find_in(&target.scope());
    matches!(file, Ok(Some(_))).then_some("progress:shm")
}

/// The file that a target executes.
fn program(target: &Target) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{}/exe", target.pid())).ok()
}

/// The metric `name` with the program of one build in place of that of the other.
fn renamed(name: &str, old: &Path, new: &Path) -> Result<String, BuildError> {
    const PREFIX: &str = "progress:uprobe:";
    let Some(calls) = name.strip_prefix(PREFIX).filter(|_| old != new) else {
        return Ok(name.to_string());
    };
    let mut parts = Vec::new();
    for call in calls.split(',') {
        let (file, symbol) = call.rsplit_once(':').unwrap_or((call, ""));
        if Path::new(file) != old {
            // A library that both use.
            parts.push(call.to_string());
            continue;
        }
        if symbol.starts_with("0x") {
            return Err(BuildError::NoSymbol(file.to_string()));
        }
        parts.push(format!("{}:{symbol}", new.display()));
    }
    Ok(format!("{PREFIX}{}", parts.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_looked_for_in_the_other_build() {
        let renamed = |name: &str| renamed(name, Path::new("/b/old"), Path::new("/b/new"));
        assert_eq!(
            renamed("progress:uprobe:/b/old:step,/lib/libz.so.1:inflate").unwrap(),
            "progress:uprobe:/b/new:step,/lib/libz.so.1:inflate"
        );
        assert_eq!(renamed("progress").unwrap(), "progress");
        let stripped = renamed("progress:uprobe:/b/old:0x1234").unwrap_err();
        assert!(stripped.to_string().contains("--metric"), "{stripped}");
    }
}
