//! How fast a workload runs by its own metric: read window by window from a thread
//! of its own, for as long as it is there.

use super::discover::Key;
use super::rules::Rule;
use jostle_host::sys::clock::monotonic_ns;
use jostle_measure::metric;
use jostle_measure::metric::Metric;
use jostle_measure::metric::MetricOptions;
use jostle_measure::workload::TargetSpec;
use jostle_measure::workload::cgroup::CgroupSpec;
use jostle_profile::Direction;
use jostle_profile::Profile;
use jostle_profile::node::Performance;
use jostle_profile::reading::Reading;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

/// What was read last.
#[derive(Clone, Debug)]
struct Latest {
    metric: String,
    unit: String,
    direction: Direction,
    value: f64,
}

type Shown = Arc<Mutex<Result<Latest, String>>>;

/// Reads one workload until it is dropped.
pub(super) struct Watcher {
    shown: Shown,
    over: Arc<AtomicBool>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

/// What is attached to for a workload.
pub(super) fn target(key: &Key, name: &str) -> TargetSpec {
    match key {
        Key::Process(pid, _) => TargetSpec::Pid(*pid),
        Key::Cgroup(directory, _) => TargetSpec::Cgroup(CgroupSpec {
            directory: directory.clone(),
            name: name.into(),
            asked: format!("workload {name}"),
        }),
    }
}

impl Watcher {
    /// Reads `metric` of a workload, in windows of `interval`.
    pub(super) fn start(spec: TargetSpec, metric: &str, interval: Duration) -> Watcher {
        let shown: Shown = Arc::new(Mutex::new(Err("it was not read yet".into())));
        let over = Arc::<AtomicBool>::default();
        let (theirs, ends, metric) = (shown.clone(), over.clone(), metric.to_string());
        let thread = std::thread::Builder::new().name("metric".into());
        let spawned = thread.spawn(move || {
            let tell = |what| *theirs.lock().unwrap_or_else(PoisonError::into_inner) = what;
            while !ends.load(Relaxed) {
                if let Err(reason) = read_on(&spec, &metric, interval, &ends, &tell) {
                    tell(Err(reason));
                }
                // Attaching costs more than reading: not again at once.
                rest(3 * interval, &ends);
            }
        });
        if let Err(error) = spawned {
            let text = format!("no thread to read it: {error}");
            *shown.lock().unwrap_or_else(PoisonError::into_inner) = Err(text);
        }
        Watcher { shown, over }
    }

    /// What was read last, against what is usual.
    pub(super) fn latest(&self, rule: &Rule, profile: Option<&Profile>) -> Reading<Performance> {
        let latest = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = latest.clone();
        latest.map(|latest| judged(latest, rule, profile)).into()
    }
}

fn judged(latest: Latest, rule: &Rule, profile: Option<&Profile>) -> Performance {
    let baseline = match (rule.baseline, profile.map(|it| &it.metric)) {
        (Some(baseline), _) => Ok(baseline),
        (None, None) => Err("no profile, and no baseline in the configuration".to_string()),
        (None, Some(metric)) if metric.name != latest.metric => Err(format!(
            "its profile was recorded by {}, not by {}",
            metric.name, latest.metric
        )),
        (None, Some(metric)) if metric.unit != latest.unit => Err(format!(
            "its profile counts {}, not {}; give a baseline in the configuration",
            metric.unit, latest.unit
        )),
        (None, Some(metric)) => match &metric.baseline {
            Some(baseline) => Ok(baseline.value),
            None => Err("its profile has no baseline".into()),
        },
    };
    let relative = baseline.clone().and_then(|baseline| {
        let relative = match latest.direction {
            Direction::Higher => latest.value / baseline,
            Direction::Lower => baseline / latest.value,
        };
        match relative.is_finite() {
            true => Ok(relative),
            false => Err("it is 0, which cannot be compared".to_string()),
        }
    });
    Performance {
        metric: latest.metric,
        unit: latest.unit,
        value: latest.value,
        baseline: baseline.into(),
        meets_qos: relative.clone().map(|it| it >= rule.qos).into(),
        relative: relative.into(),
        qos_threshold: rule.qos,
    }
}

/// Reads until something fails, or it is over.
fn read_on(
    spec: &TargetSpec,
    name: &str,
    interval: Duration,
    over: &Arc<AtomicBool>,
    tell: &dyn Fn(Result<Latest, String>),
) -> Result<(), String> {
    let said = |error: jostle_measure::error::Error| error.to_string();
    let options = MetricOptions {
        moments: false,
        ..MetricOptions::default()
    };
    let (mut target, mut metric) = metric::start(spec, Some(name), &options, None).map_err(said)?;
    while !over.load(Relaxed) {
        metric.follow(&mut target).map_err(said)?;
        let (value, by_count) = match window(metric.as_mut(), interval, over) {
            Some(rate) => (rate.map_err(said)?, true),
            None => {
                metric.begin(&mut target).map_err(said)?;
                rest(interval, over);
                let performance = metric.end(&mut target).map_err(said)?;
                (metric.in_unit(performance), false)
            }
        };
        let facts = metric.facts();
        tell(Ok(Latest {
            metric: facts.name,
            // Who waits for a CPU is slow, whatever it does per second on one.
            unit: match by_count {
                true => facts.unit.replace("per CPU second", "per second"),
                false => facts.unit,
            },
            direction: facts.direction,
            value,
        }));
    }
    Ok(())
}

/// Growth of the metric's count per second of wall time; `None` where it counts
/// nothing.
fn window(
    metric: &mut dyn Metric,
    interval: Duration,
    over: &AtomicBool,
) -> Option<jostle_measure::error::Result<f64>> {
    let before = metric.counted()?;
    let began = monotonic_ns();
    rest(interval, over);
    let after = metric.counted()?;
    let seconds = (monotonic_ns() - began) as f64 / 1e9;
    let grown = before.and_then(|before| Ok(after?.saturating_sub(before) as f64));
    Some(grown.map(|grown| grown / seconds))
}

/// Sleeps, but no longer than it takes until it is over.
fn rest(length: Duration, over: &AtomicBool) {
    let end = Instant::now() + length;
    while !over.load(Relaxed) && Instant::now() < end {
        let left = end.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(Duration::from_millis(500)));
    }
}
