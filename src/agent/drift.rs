//! Whether a workload still does what its profile says: what it uses now against what
//! it used while it was profiled.

use jostle_profile::Profile;
use jostle_profile::node::DriftState;
use jostle_profile::node::WorkloadReadings;
use jostle_profile::node::WorkloadState;
use jostle_profile::reading::Reading;
use jostle_schedule::drift::CYCLES_PER_1000;
use jostle_schedule::drift::Drift;
use jostle_schedule::drift::Watch;
use jostle_schedule::drift::Window;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Work per CPU second within these bounds of the recorded one is as before.
const AS_BEFORE: [f64; 2] = [0.8, 1.25];

/// All workloads that have a profile.
#[derive(Default)]
pub(super) struct Drifts {
    known: BTreeMap<String, Known>,
}

struct Known {
    profile: Arc<Profile>,
    watch: Result<Watch, String>,
    windows: u64,
    reason: String,
}

impl Drifts {
    /// Judges the readings of one refresh and fills in the workload's drift.
    pub(super) fn see(&mut self, workload: &mut WorkloadState, profile: Option<Arc<Profile>>) {
        let Some(profile) = profile else {
            self.known.remove(&workload.name);
            workload.drift = Reading::unavailable("it has no profile");
            return;
        };
        let same = |known: &Known| Arc::ptr_eq(&known.profile, &profile);
        if !self.known.get(&workload.name).is_some_and(same) {
            let fresh = Known {
                watch: Watch::of_profile(&profile).map_err(|error| error.to_string()),
                profile,
                windows: 0,
                reason: String::new(),
            };
            self.known.insert(workload.name.clone(), fresh);
        }
        if let Some(known) = self.known.get_mut(&workload.name) {
            let judged = known.see(workload);
            workload.drift = judged.into();
        }
    }

    /// Forgets those who are not `here`, which is sorted by name.
    pub(super) fn keep(&mut self, here: &[WorkloadState]) {
        let is_here = |name: &String| here.binary_search_by(|it| it.name.cmp(name)).is_ok();
        self.known.retain(|name, _| is_here(name));
    }
}

impl Known {
    fn see(&mut self, workload: &WorkloadState) -> Result<DriftState, String> {
        let watch = self.watch.as_mut().map_err(|reason| reason.clone())?;
        let window = window(&workload.readings);
        if window.is_empty() && self.windows == 0 {
            return Err("nothing that the profile knows could be read".into());
        }
        self.windows += 1;
        let drift = watch.see(&window);
        let drifted = match drift {
            None => false,
            Some(drift) => {
                // More or less of the same takes as many cycles for an instruction.
                let of_load = drift.counter != CYCLES_PER_1000;
                let explained = of_load.then(|| by_load(workload, &self.profile)).flatten();
                self.reason = describe(&drift);
                if let Some(why) = explained {
                    self.reason += &format!("; {why}");
                    watch.reset();
                    false
                } else {
                    true
                }
            }
        };
        Ok(DriftState {
            drifted,
            reason: self.reason.clone(),
            windows: self.windows,
        })
    }
}

/// The readings under the names that profiles have for them. Memory is left out: of a
/// cgroup it holds the page cache, of a profile it does not.
fn window(readings: &WorkloadReadings) -> Window {
    let mut window = Window::new();
    let mut add = |name: &str, value: Option<f64>| {
        window.extend(value.map(|value| (name.to_string(), value)));
    };
    let read = readings.disk_read_bytes_per_second.value().copied();
    let written = readings.disk_written_bytes_per_second.value().copied();
    add("cpu", readings.cpu_percent.value().map(|it| it / 100.0));
    let cycles = readings.cycles_per_instruction.value();
    add(CYCLES_PER_1000, cycles.map(|it| 1000.0 * it));
    add("storage-read", read);
    add("storage-written", written);
    add(
        "storage",
        read.zip(written).map(|(read, written)| read + written),
    );
    window
}

/// Where the workload does as much per CPU second as when it was profiled, it does the
/// same, more or less often.
fn by_load(workload: &WorkloadState, profile: &Profile) -> Option<String> {
    let performance = workload.performance.value()?;
    // A latency says nothing of how much was done.
    let is_rate = profile.metric.direction == jostle_profile::Direction::Higher
        && profile.metric.name == performance.metric
        && !performance.unit.contains("CPU second");
    let used = workload.readings.cpu_percent.value()? / 100.0;
    let quantities = &profile.usage.as_ref()?.quantities;
    let recorded = quantities.get("cpu")?.value()?.value;
    let relative = performance.relative.value()?;
    let per_second = relative * recorded / used;
    let as_before = (AS_BEFORE[0]..=AS_BEFORE[1]).contains(&per_second);
    (is_rate && as_before).then(|| {
        format!(
            "the load explains it: {:.0} % of the usual work, and as much work per CPU second as \
             before",
            100.0 * relative
        )
    })
}

fn describe(drift: &Drift) -> String {
    let show = |value: f64| match drift.counter.as_str() {
        "cpu" => format!("{:.0} % of a CPU", 100.0 * value),
        CYCLES_PER_1000 => format!("{:.2}", value / 1000.0),
        _ => format!("{:.1} MB/s", value / 1e6),
    };
    let what = match drift.counter.as_str() {
        "cpu" => "CPU time",
        CYCLES_PER_1000 => "its number of cycles per instruction",
        "storage-read" => "what it reads from disks",
        "storage-written" => "what it writes to disks",
        "storage" => "its disk traffic",
        other => other,
    };
    format!(
        "{what} has been {} for {} refreshes; it was {} while profiled",
        show(drift.now),
        drift.windows,
        show(drift.recorded)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::experiments::fake;
    use jostle_profile::Usage;
    use jostle_profile::UsedBy;
    use jostle_profile::UsedQuantity;
    use jostle_profile::node::Performance;

    fn profile(cpu: f64) -> Arc<Profile> {
        let mut profile = fake::profile("db", &[("l2-capacity", 50.0)]);
        let quantity: UsedQuantity = serde_json::from_value(serde_json::json!({
            "unit": "CPU s/s", "value": cpu, "ci95": [cpu * 0.99, cpu * 1.01],
            "of": "target", "source": "stat", "share": {"unavailable": "x"}
        }))
        .unwrap();
        assert_eq!(quantity.of, UsedBy::Target);
        profile.usage = Some(Usage {
            seconds: 1.0,
            parts: 20,
            quantities: [("cpu".to_string(), Reading::Value(quantity))].into(),
        });
        Arc::new(profile)
    }

    fn working(cpu_percent: f64, relative: f64) -> WorkloadState {
        let mut workload = fake::workload("db");
        workload.readings.cpu_percent = Reading::Value(cpu_percent);
        workload.performance = Reading::Value(Performance {
            metric: "progress".into(),
            unit: "queries per second".into(),
            value: 100.0 * relative,
            baseline: Reading::Value(100.0),
            relative: Reading::Value(relative),
            qos_threshold: 0.95,
            meets_qos: Reading::Value(true),
        });
        workload
    }

    fn after(drifts: &mut Drifts, profile: &Arc<Profile>, cpu: f64, relative: f64) -> DriftState {
        let mut last = None;
        for _ in 0..100 {
            let mut workload = working(cpu, relative);
            drifts.see(&mut workload, Some(profile.clone()));
            last = workload.drift.value().cloned();
        }
        last.unwrap()
    }

    #[test]
    fn a_workload_that_does_something_else_has_drifted() {
        let profile = profile(0.5);
        let mut drifts = Drifts::default();
        let same = after(&mut drifts, &profile, 50.0, 1.0);
        assert!(!same.drifted && same.reason.is_empty(), "{same:?}");
        let other = after(&mut drifts, &profile, 200.0, 1.0);
        assert!(other.drifted, "{other:?}");
        assert!(other.reason.contains("CPU time"), "{other:?}");
        assert_eq!(other.windows, 200);
    }

    #[test]
    fn cycles_per_instruction_outside_of_all_that_was_recorded_are_drift() {
        let mut recorded = Profile::clone(&profile(0.5));
        let ipc = |control, treat| {
            Reading::Value(jostle_profile::CounterPair {
                control,
                treat,
                ratio: None,
                difference: None,
                moved: true,
                pairs: 20,
            })
        };
        let entry = recorded.resources.get_mut("l2-capacity").unwrap();
        entry.counters.insert("ipc".into(), ipc(2.0, 1.0));
        let recorded = Arc::new(recorded);
        let at = |cycles: f64| {
            let mut drifts = Drifts::default();
            let mut workload = working(50.0, 1.0);
            workload.readings.cycles_per_instruction = Reading::Value(cycles);
            for _ in 0..100 {
                drifts.see(&mut workload, Some(recorded.clone()));
            }
            workload.drift.value().cloned().unwrap()
        };
        // Alone, beside a source, and between.
        for cycles in [0.5, 0.7, 1.0] {
            assert!(!at(cycles).drifted, "{cycles}");
        }
        for cycles in [0.2, 2.0] {
            let drift = at(cycles);
            assert!(drift.drifted, "{cycles}");
            assert!(drift.reason.contains("cycles per instruction"), "{drift:?}");
        }
    }

    #[test]
    fn less_load_is_no_drift_and_is_said() {
        let profile = profile(0.5);
        let mut drifts = Drifts::default();
        let half = after(&mut drifts, &profile, 5.0, 0.1);
        assert!(!half.drifted, "{half:?}");
        assert!(half.reason.contains("the load explains it"), "{half:?}");
        // A latency, or work that grows without CPU time, explains nothing.
        let odd = after(&mut Drifts::default(), &profile, 5.0, 1.0);
        assert!(odd.drifted, "{odd:?}");
    }

    #[test]
    fn without_a_profile_nothing_is_compared() {
        let mut drifts = Drifts::default();
        let mut workload = working(50.0, 1.0);
        drifts.see(&mut workload, None);
        assert!(workload.drift.reason().unwrap().contains("no profile"));
        let bare = Arc::new(fake::profile("db", &[]));
        drifts.see(&mut workload, Some(bare));
        assert!(workload.drift.reason().unwrap().contains("no record"));
        drifts.keep(&[]);
        assert!(drifts.known.is_empty());
    }
}
