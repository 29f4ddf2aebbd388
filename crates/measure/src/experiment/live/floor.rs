//! The floor while windows and blocks are measured: what is usual is learned before
//! the first source runs, then a thread watches the count ([`super::watch`]) or, where
//! the metric has none, each window is judged.

use super::LiveExecutor;
use super::watch::Fall;
use super::watch::Followed;
use super::watch::Watch;
use crate::experiment::executor::Arm;
use crate::experiment::executor::WindowError;
use crate::experiment::floor::Floor;
use crate::experiment::floor::rule::LONG;
use crate::experiment::floor::rule::Rule;
use crate::warning::Warning;
use jostle_host::inject::brake::Brake;
use jostle_host::sys::clock::monotonic_ns;
use jostle_profile::FloorFacts;
use jostle_profile::FloorReached;
use jostle_profile::MetricFacts;
use jostle_profile::reading::Reading;
use jostle_statistics::mean;
use std::time::Duration;

/// What is usual is learned from as much time, at least.
const LEARNED: Duration = Duration::from_millis(400);
/// Windows that a metric without a count is learned from.
const FEWEST_WINDOWS: usize = 3;
/// Longest wait for the sources to be at rest.
const PARKED: Duration = Duration::from_secs(2);

/// What pressed when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressed {
    pub begin_ns: u64,
    pub end_ns: u64,
    pub subject: usize,
    /// As it was asked for: 100 stands for the ceiling.
    pub arm: Arm,
}

/// The floor of one measurement.
pub(super) struct Guard {
    facts: FloorFacts,
    floor: Floor,
    metric: MetricFacts,
    /// Performance in windows without interference, and their length.
    idle: Vec<f64>,
    length: Duration,
    /// Mean of `idle` once sources ran.
    baseline: Option<f64>,
    /// `None` where the metric has no count.
    watch: Option<Watch>,
    /// Where each window is judged.
    by_window: Option<Rule>,
    pressed: Vec<Pressed>,
    /// Of the measurement.
    start_ns: u64,
}

/// Stretches that are remembered.
const REMEMBERED: usize = 4096;

impl Guard {
    fn press(&mut self, pressed: Pressed) {
        if self.pressed.len() >= REMEMBERED {
            self.pressed.drain(..REMEMBERED / 2);
        }
        if let Some(last) = self.pressed.last_mut() {
            last.end_ns = last.end_ns.min(pressed.begin_ns);
        }
        self.pressed.push(pressed);
    }

    /// What ran for longest between two moments, a treatment if there was one.
    fn culprit(&self, begin_ns: u64, end_ns: u64) -> Option<Pressed> {
        let overlap = |it: &Pressed| {
            let from = it.begin_ns.max(begin_ns);
            it.end_ns.min(end_ns).saturating_sub(from)
        };
        let meanwhile = self.pressed.iter().filter(|it| overlap(it) > 0);
        let key = |it: &&Pressed| (it.arm.intensity().is_some(), overlap(it));
        meanwhile
            .filter(|it| it.arm != Arm::Idle)
            .max_by_key(key)
            .copied()
    }
}

impl LiveExecutor<'_> {
    /// Ends the measurement when the target falls below `floor`.
    ///
    /// # Errors
    /// In words, why that cannot be watched.
    pub fn keep_above(&mut self, floor: Floor) -> Result<(), String> {
        floor.check(&self.metric.facts())?;
        let watch = match self.metric.turns() {
            None => None,
            Some(_) => {
                let brake = Brake::of(&self.groups);
                let started = brake.and_then(Watch::start);
                Some(started.map_err(|error| format!("--floor cannot be watched: {error}"))?)
            }
        };
        let unknown = "no source ran";
        self.floor = Some(Guard {
            facts: FloorFacts {
                asked: floor.to_string(),
                limit: Reading::unavailable(unknown),
                of_baseline: Reading::unavailable(unknown),
                rule: Reading::unavailable(unknown),
                reached: None,
            },
            floor,
            metric: self.metric.facts(),
            idle: Vec::new(),
            length: Duration::ZERO,
            baseline: None,
            watch,
            by_window: None,
            pressed: Vec::new(),
            start_ns: self.start_ns,
        });
        Ok(())
    }

    /// The floor, and whether it was reached; `None` where there is none.
    pub fn floor(&self) -> Option<FloorFacts> {
        self.floor.as_ref().map(|guard| guard.facts.clone())
    }

    /// The warning about it.
    pub(super) fn floor_warning(&self) -> Option<Warning> {
        let guard = self.floor.as_ref()?;
        let reached = guard.facts.reached.clone()?;
        Some(Warning::FloorReached {
            metric: guard.metric.name.clone(),
            unit: guard.metric.unit.clone(),
            value: reached.value,
            of_baseline_percent: 100.0 * reached.of_baseline,
            floor: guard.facts.asked.clone(),
            limit: guard.facts.limit.value().copied().unwrap_or(f64::NAN),
            resource: reached.resource,
            intensity_percent: reached.intensity_percent,
        })
    }

    /// Has the thread read what the metric reads now.
    pub(super) fn follow_floor(&mut self) -> Result<(), WindowError> {
        let Some(watch) = self.floor.as_ref().and_then(|it| it.watch.as_ref()) else {
            return Ok(());
        };
        let leader = self.metric.restarts().then(|| self.target.pid());
        let Some(source) = self.metric.turns().filter(|it| watch.is_behind(it.version)) else {
            return Ok(());
        };
        let followed = Followed {
            readers: source.readable.readers(),
            version: source.version,
            by_cpu_time: source.by_cpu_time,
            leader,
        };
        let lost = |error| WindowError::Floor(format!("the floor cannot be watched: {error}"));
        watch.follow(followed).map_err(lost)
    }

    /// Before a window: learns what is usual in those without interference, and
    /// knows it before the first other one.
    pub(super) fn before_window(&mut self, subject: usize, arm: Arm) -> Result<(), WindowError> {
        if self.floor.is_none() {
            return Ok(());
        }
        self.follow_floor()?;
        if arm == Arm::Idle {
            let watch = self.floor.as_ref().and_then(|it| it.watch.as_ref());
            watch.inspect(|watch| watch.learn());
        } else {
            self.arm_floor()?;
        }
        self.press(subject, arm, monotonic_ns(), u64::MAX);
        self.check_floor()
    }

    /// Keeps in mind what presses when.
    pub(super) fn press(&mut self, subject: usize, arm: Arm, begin_ns: u64, end_ns: u64) {
        if let Some(guard) = &mut self.floor {
            guard.press(Pressed {
                begin_ns,
                end_ns,
                subject,
                arm,
            });
        }
    }

    /// After a window in which the target was read.
    pub(super) fn after_window(
        &mut self,
        arm: Arm,
        performance: Option<f64>,
        length: Duration,
    ) -> Result<(), WindowError> {
        let Some(guard) = &mut self.floor else {
            return Ok(());
        };
        guard.watch.as_ref().inspect(|watch| watch.rest());
        let Some(performance) = performance else {
            return self.check_floor();
        };
        if arm == Arm::Idle && guard.baseline.is_none() {
            guard.idle.push(performance);
            guard.length = length;
            return Ok(());
        }
        let (Some(rule), Some(baseline)) = (&mut guard.by_window, guard.baseline) else {
            return self.check_floor();
        };
        match rule.step(performance / baseline, 0.0) {
            None => Ok(()),
            Some(alarm) => {
                let now = monotonic_ns();
                let lasted = length.as_nanos() as u64 * u64::from(alarm.windows);
                for group in &mut self.groups {
                    group.set(jostle_host::sys::control_page::Order::Park);
                }
                Err(self.fell(Fall {
                    begin_ns: now.saturating_sub(lasted),
                    decided_ns: now,
                    parked_ns: None,
                    of_baseline: performance / baseline,
                }))
            }
        }
    }

    /// Knows what is usual, and watches from now on.
    pub(super) fn arm_floor(&mut self) -> Result<(), WindowError> {
        let Some(guard) = &self.floor else {
            return Ok(());
        };
        if guard.baseline.is_some() {
            return Ok(());
        }
        if let Some(watch) = &guard.watch {
            let missing = LEARNED.saturating_sub(watch.learned());
            if !missing.is_zero() {
                self.put_down()?;
                let learn = |executor: &Self| {
                    let guard = executor.floor.as_ref();
                    guard
                        .and_then(|it| it.watch.as_ref())
                        .inspect(|it| it.learn());
                };
                learn(self);
                self.pause(missing, true)?;
            }
        }
        let Some(guard) = &mut self.floor else {
            return Ok(());
        };
        let refuse = |reason: String| Err(WindowError::Floor(reason));
        if guard.idle.is_empty() {
            return refuse("--floor: no window without interference was read".into());
        }
        let baseline = mean(&guard.idle);
        let performance = match guard.floor.performance(baseline, &guard.metric) {
            Ok(performance) => performance,
            Err(reason) => return refuse(reason),
        };
        let of_baseline = performance / baseline;
        guard.baseline = Some(baseline);
        guard.facts.limit = Reading::Value(self.metric.in_unit(performance));
        guard.facts.of_baseline = Reading::Value(of_baseline);
        if of_baseline >= 1.0 {
            let now = monotonic_ns();
            return Err(self.fell(Fall {
                begin_ns: now,
                decided_ns: now,
                parked_ns: Some(now),
                of_baseline: 1.0,
            }));
        }
        let why_not = match &guard.watch {
            Some(watch) => match watch.arm(of_baseline) {
                Ok(rule) => {
                    guard.facts.rule = Reading::Value(rule);
                    return Ok(());
                }
                Err(reason) => reason,
            },
            None => "this metric cannot be read at any instant".into(),
        };
        guard.watch = None;
        if guard.idle.len() < FEWEST_WINDOWS {
            return refuse(format!(
                "--floor: {} windows without interference were read, {FEWEST_WINDOWS} are needed",
                guard.idle.len()
            ));
        }
        let shares: Vec<f64> = guard.idle.iter().map(|it| it / baseline).collect();
        let rule = Rule::new(of_baseline, &shares, guard.length, LONG);
        let delay = rule.delay(of_baseline / 2.0).unwrap_or(0);
        guard.facts.rule = Reading::Value(format!(
            "each window of {:.0} ms is judged ({why_not}); a fall to half of the floor is seen \
             after {:.0} ms",
            guard.length.as_secs_f64() * 1e3,
            guard.length.as_secs_f64() * 1e3 * f64::from(delay),
        ));
        guard.by_window = Some(rule);
        Ok(())
    }

    /// # Errors
    /// When the target has fallen below its floor.
    pub(super) fn check_floor(&mut self) -> Result<(), WindowError> {
        let watch = self.floor.as_ref().and_then(|guard| guard.watch.as_ref());
        let Some(watch) = watch.filter(|watch| watch.has_fallen()) else {
            return Ok(());
        };
        let deadline = monotonic_ns() + PARKED.as_nanos() as u64;
        loop {
            let fall = watch.fall();
            let parked = fall.is_none_or(|fall| fall.parked_ns.is_some());
            if let Some(fall) = fall.filter(|_| parked || monotonic_ns() > deadline) {
                return Err(self.fell(fall));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn fell(&mut self, fall: Fall) -> WindowError {
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
        let Some(guard) = &mut self.floor else {
            return WindowError::Floor("the floor was reached".into());
        };
        let culprit = guard.culprit(fall.begin_ns, fall.decided_ns);
        let baseline = guard.baseline.unwrap_or(f64::NAN);
        let treated = culprit.and_then(|it| it.arm.intensity());
        let treated = treated.map(|percent| percent * self.ceiling / 100.0);
        guard.facts.reached = Some(FloorReached {
            value: self.metric.in_unit(fall.of_baseline * baseline),
            of_baseline: fall.of_baseline,
            resource: culprit.map(|it| self.subjects[it.subject].resource.to_string()),
            intensity_percent: treated,
            at_seconds: seconds(guard.start_ns, fall.decided_ns),
            decided_after_seconds: seconds(fall.begin_ns, fall.decided_ns),
            parked_after_seconds: match fall.parked_ns {
                Some(parked) => Reading::Value(seconds(fall.decided_ns, parked)),
                None => Reading::unavailable("it was not waited for"),
            },
        });
        let beside = match (culprit, treated) {
            (Some(it), Some(percent)) => {
                let resource = self.subjects[it.subject].resource;
                format!(" beside {resource} at {percent:.0} %")
            }
            _ => String::new(),
        };
        WindowError::Floor(format!("the floor was reached{beside}"))
    }

    /// Parks the present groups from now on: one was started anew.
    pub(super) fn renew_brake(&mut self) {
        let watch = self.floor.as_ref().and_then(|guard| guard.watch.as_ref());
        if let (Some(watch), Ok(brake)) = (watch, Brake::of(&self.groups)) {
            watch.hold(brake);
        }
    }
}
