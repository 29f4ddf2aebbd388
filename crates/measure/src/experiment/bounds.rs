//! Resources that need no measuring beside the target: what their sources leave
//! behind at the end of a slice is over so soon that it can cost nobody enough to
//! matter, as it shows on the CPU itself.

use super::settings::Halves;
use crate::warning::Warning;
use jostle_host::inject::WorkerPlan;
use jostle_host::sys::cpus::set_affinity;
use jostle_kernels::Left;
use jostle_kernels::left_behind;
use jostle_profile::CurvePoint;
use jostle_profile::Estimate;
use jostle_profile::PhysicalBound;
use jostle_profile::Placement;
use jostle_profile::PlacementMode;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::Status;
use jostle_profile::Switch;
use jostle_profile::SwitchAt;
use jostle_profile::curve::CAUSED_LINE;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;
use std::time::Duration;

/// Share of the loss that would matter which a bound may be: it is of what was made to
/// suffer most, and not of everything.
const CLEARLY: f64 = 0.5;

/// What tells of unseen neighbours.
const GAUGE: Resource = Resource::Int;

/// A resource that is known without measuring it beside the target.
#[derive(Clone, Debug)]
pub struct Bounded {
    pub resource: Resource,
    placement: Placement,
    left: Left,
    slice: Duration,
    turn: Duration,
}

/// Takes the resources that are known so out of `ready`. The source is on the CPU that
/// it shares with the target for `slice`, and the target for `turn`, one after the
/// other; a loss of `matters` (0–1) would matter. All of `halves` have to be known.
///
/// On a `virtual_machine` one stays that needs nothing but execution units: its own speed
/// tells whether somebody else is on the core.
pub(super) fn settle(
    ready: &mut Vec<(Resource, WorkerPlan)>,
    (slice, turn): (Duration, Duration),
    matters: f64,
    halves: Halves,
    virtual_machine: bool,
) -> Vec<Bounded> {
    let mut settled = Vec::new();
    let enough = enough(halves, matters, (slice, turn));
    ready.retain(|(resource, plan)| {
        if virtual_machine && *resource == GAUGE {
            return true;
        }
        let Some(Ok(left)) = left(*resource, plan, (slice, turn), enough) else {
            return true;
        };
        let bounded = Bounded {
            resource: *resource,
            placement: plan.placement.clone(),
            left,
            slice,
            turn,
        };
        let known = bounded.left.nanoseconds <= enough * slice.as_nanos() as f64;
        if known {
            settled.push(bounded);
        }
        !known
    });
    settled
}

/// What may be left behind without mattering to any of `halves`, as a share of the slice: to
/// the target in its turns, and to the source in its shorter slices.
fn enough(halves: Halves, matters: f64, (slice, turn): (Duration, Duration)) -> f64 {
    let target = CLEARLY * matters * turn.div_duration_f64(slice);
    let source = 1.0 - CAUSED_LINE;
    match halves {
        Halves::Both => target.min(source),
        Halves::Tolerated => target,
        Halves::Caused => source,
    }
}

/// What the source of `plan` leaves behind on its first CPU; `None` where it does not
/// take turns with the target, or where that has no bound.
fn left(
    resource: Resource,
    plan: &WorkerPlan,
    (slice, turn): (Duration, Duration),
    enough: f64,
) -> Option<Result<Left, String>> {
    let cpu = *plan.placement.cpus.first()?;
    if plan.placement.mode != PlacementMode::SameCpu || plan.config.slices.is_none() {
        return None;
    }
    let environment = &plan.config.environment;
    // A thread of its own: only it is bound to the CPU.
    std::thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            set_affinity(0, &[cpu]).map_err(|error| error.to_string())?;
            let left = left_behind(resource, environment, slice, turn, enough);
            left.transpose().map_err(|failure| failure.0)
        });
        let found = measuring.join().expect("measuring does not panic");
        found.transpose()
    })
}

impl Bounded {
    /// Most that is lost in a turn of `length`, 0–1.
    fn share(&self, length: Duration) -> f64 {
        (self.left.nanoseconds / length.as_nanos() as f64).min(1.0)
    }

    /// The bound on the target's loss.
    pub(super) fn bound(&self) -> PhysicalBound {
        bound(&self.left, self.turn)
    }

    /// The entry of the profile. No window stands behind its points: they are the middle
    /// of what is possible, and its ends.
    pub(super) fn entry(&self, halves: Halves, scheduler: Option<f64>) -> ResourceEntry {
        let mut entry = ResourceEntry::without_numbers(Status::Measured, "");
        entry.reason = None;
        entry.placement = Some(self.placement.clone());
        entry.physical_bound = Some(self.bound());
        if halves != Halves::Caused {
            entry.tolerated = exactly(100.0);
            entry.sensitive = Some(false);
            entry.curve = vec![point(self.share(self.turn))];
            entry.switch = Some(self.switch(scheduler));
        }
        if halves != Halves::Tolerated {
            entry.caused = exactly(0.0);
            entry.probe_curve = vec![point(self.share(self.slice))];
        }
        entry
    }

    /// The cost of a switch, in turns of `scheduler` seconds where those are known.
    fn switch(&self, scheduler: Option<f64>) -> Reading<Switch> {
        let Some(turn) = scheduler else {
            return Reading::unavailable("the length of the scheduler's turns is not known");
        };
        let most = self.left.nanoseconds / 1e3;
        let at = |turn_seconds| SwitchAt {
            turn_seconds,
            cost_microseconds: Estimate {
                value: most / 2.0,
                ci95: [0.0, most],
            },
            windows: 0,
        };
        let turns = vec![at(self.turn.as_secs_f64()), at(turn)];
        let switch = Switch::of(turns, turn).expect("there are turns");
        Reading::Value(switch)
    }
}

/// The bound on what the source of `workers` costs, where there is one; slices and turns
/// as for [`settle`].
pub(super) fn bound_of(
    resource: Resource,
    workers: &WorkerPlan,
    (slice, turn): (Duration, Duration),
) -> Option<PhysicalBound> {
    let left = left(resource, workers, (slice, turn), 1.0)?.ok()?;
    Some(bound(&left, turn))
}

/// Decides by its bound what measuring left open.
pub(super) fn decide(entry: &mut ResourceEntry, qos: f64) {
    let Some(bound) = &entry.physical_bound else {
        return;
    };
    let open = entry.sensitive.is_none() && !entry.curve.is_empty();
    if open && bound.loss_percent <= CLEARLY * (1.0 - qos) * 100.0 {
        entry.status = Status::Measured;
        entry.sensitive = Some(false);
        entry.tolerated = exactly(100.0);
        entry.reason = without(entry.reason.take(), TOLERATED);
    }
}

/// A loss that exceeds what matters by this much is more than the cost of a switch.
const DOUBTFUL: f64 = 0.1;

/// Whether `entry` shows a loss that may be the cost of the context switch itself.
pub(super) fn may_be_the_switch(entry: &ResourceEntry, qos: f64) -> bool {
    let at_100 = entry.curve.last().filter(|it| it.intensity == 100.0);
    entry.sensitive == Some(true) && at_100.is_some_and(|it| it.performance > qos - DOUBTFUL)
}

/// Bases the verdict on the loss beyond the `toll`, the loss (0–1) of a program that uses
/// registers only, if that changes it; the warning about it.
pub(super) fn take_off(entry: &mut ResourceEntry, toll: &Estimate, qos: f64) -> Option<Warning> {
    let at_100 = entry.curve.last()?;
    let half = |ci95: [f64; 2]| 0.5 * (ci95[1] - ci95[0]);
    let reach = half(at_100.ci95).hypot(half(toll.ci95));
    let beyond = 1.0 - at_100.performance - toll.value;
    let matters = 1.0 - qos;
    if !may_be_the_switch(entry, qos) || beyond - reach > matters {
        return None;
    }
    let warning = Warning::SwitchOverhead {
        lost_percent: 100.0 * (1.0 - at_100.performance),
        overhead_percent: 100.0 * toll.value,
        reach_percent: 100.0 * half(toll.ci95),
    };
    if beyond + reach < matters {
        entry.status = Status::Measured;
        entry.sensitive = Some(false);
        entry.tolerated = exactly(100.0);
        entry.reason = without(entry.reason.take(), TOLERATED);
    } else {
        entry.status = Status::Unresolved;
        entry.sensitive = None;
        entry.tolerated = None;
        let open = format!("{TOLERATED}{warning}");
        let other = without(entry.reason.take(), TOLERATED);
        entry.reason = Some(
            std::iter::once(open)
                .chain(other)
                .collect::<Vec<_>>()
                .join("; "),
        );
    }
    Some(warning)
}

const TOLERATED: &str = "tolerated: ";
const CAUSED: &str = "caused: ";

/// What is said in `reason` of the other direction than `settled`, which still holds.
fn without(reason: Option<String>, settled: &str) -> Option<String> {
    let reason = reason?;
    let mut starts: Vec<usize> = [TOLERATED, CAUSED]
        .iter()
        .flat_map(|direction| reason.match_indices(direction))
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || reason[..*at].ends_with("; "))
        .collect();
    starts.sort_unstable();
    let ends = starts.iter().skip(1).copied().chain([reason.len()]);
    let parts = starts
        .iter()
        .zip(ends)
        .map(|(start, end)| &reason[*start..end]);
    let kept: Vec<&str> = parts
        .filter(|part| !part.starts_with(settled))
        .map(|part| part.trim_end_matches("; "))
        .collect();
    (!kept.is_empty()).then(|| kept.join("; "))
}

/// Length of the smallest request to a disk, bytes.
const SMALLEST_REQUEST: f64 = 4096.0;
/// Length of a request of the source of storage bandwidth, bytes: what a request of the
/// target can keep waiting on a disk that takes one at a time.
const SOURCE_REQUEST: f64 = 512.0 * 1024.0;
/// Time of a flush on a slow disk, seconds.
const FLUSH: f64 = 0.01;

/// What the target was read to use of a disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskUse {
    /// Over the whole measurement.
    pub bytes_per_second: f64,
    pub flushes_per_second: f64,
    /// Of the source of storage bandwidth.
    pub peak_bytes_per_second: f64,
}

impl DiskUse {
    /// The share of a disk's time that the target can take: as if all its requests were
    /// of the smallest length and each took as long as one of the source.
    fn bound(&self) -> PhysicalBound {
        let requests = self.bytes_per_second / SMALLEST_REQUEST;
        let of_time = requests * SOURCE_REQUEST / self.peak_bytes_per_second;
        let share = (of_time + self.flushes_per_second * FLUSH).min(1.0);
        PhysicalBound {
            loss_percent: share * 100.0,
            basis: format!(
                "the target moved {:.0} B/s to and from disks in the whole measurement, and the \
                 disk was flushed at most {:.1} times per second; if all of that were requests of \
                 4 KiB, each as long as one of 512 KiB at {:.0} B/s, and a flush took 10 ms, it \
                 would be so much of the disk's time",
                self.bytes_per_second, self.flushes_per_second, self.peak_bytes_per_second
            ),
        }
    }
}

/// Decides by what the target uses of a disk what probing left open of `caused`.
pub(super) fn decide_caused(entry: &mut ResourceEntry, disk: DiskUse, qos: f64) {
    let Some(at_100) = entry.probe_curve.last().filter(|it| it.intensity == 100.0) else {
        return;
    };
    let open = entry
        .caused
        .is_none_or(|score| score.ci95[1] > score.ci95[0]);
    let bound = disk.bound();
    let loses = at_100.ci95[1] < qos;
    if !open || loses || bound.loss_percent > CLEARLY * (1.0 - qos) * 100.0 {
        return;
    }
    entry.caused = exactly(0.0);
    entry.caused_bound = Some(bound);
    entry.reason = without(entry.reason.take(), CAUSED);
}

fn exactly(score: f64) -> Option<Score> {
    Some(Score {
        score,
        ci95: [score, score],
    })
}

/// As it stands in a profile: `left` in each turn of the target of length `turn`.
pub(super) fn bound(left: &Left, turn: Duration) -> PhysicalBound {
    PhysicalBound {
        loss_percent: left.nanoseconds / turn.as_nanos() as f64 * 100.0,
        basis: format!(
            "{}; the target pays that at most once in each turn of {:.2} ms (what the source \
             takes of the levels below comes on top)",
            left.basis,
            turn.as_secs_f64() * 1e3
        ),
    }
}

/// All that the source at 100 % may cost is a share of `most`.
fn point(most: f64) -> CurvePoint {
    CurvePoint {
        intensity: 100.0,
        requested: None,
        performance: 1.0 - most / 2.0,
        ci95: [1.0 - most, 1.0],
        pressure: None,
        windows: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(microseconds: f64) -> Bounded {
        Bounded {
            resource: Resource::L1d,
            placement: Placement {
                mode: PlacementMode::SameCpu,
                cpus: vec![0],
            },
            left: Left {
                nanoseconds: microseconds * 1e3,
                basis: "a walk took longer".into(),
            },
            slice: Duration::from_micros(100),
            turn: Duration::from_micros(400),
        }
    }

    /// Sensitive, with 93 % kept at 100, known within `half`.
    fn slightly_sensitive(kept: f64, half: f64) -> ResourceEntry {
        let mut entry = bounded(4.0).entry(Halves::Both, None);
        entry.sensitive = Some(true);
        entry.tolerated = exactly(80.0);
        entry.curve[0].performance = kept;
        entry.curve[0].ci95 = [kept - half, kept + half];
        entry
    }

    #[test]
    fn the_cost_of_a_switch_is_no_sensitivity() {
        let toll = |value: f64, half: f64| Estimate {
            value,
            ci95: [value - half, value + half],
        };
        let decided = |kept, half, toll: Estimate| {
            let mut entry = slightly_sensitive(kept, half);
            let said = take_off(&mut entry, &toll, 0.95).is_some();
            (entry.sensitive, entry.status, said)
        };
        // The switch costs almost all of it, or half, or nothing.
        let kept = (Some(false), Status::Measured, true);
        assert_eq!(decided(0.93, 0.01, toll(0.06, 0.01)), kept);
        let open = (None, Status::Unresolved, true);
        assert_eq!(decided(0.89, 0.01, toll(0.06, 0.01)), open);
        assert_eq!(decided(0.93, 0.04, toll(0.05, 0.03)), open);
        let lost = (Some(true), Status::Measured, false);
        assert_eq!(decided(0.93, 0.01, toll(0.0, 0.005)), lost);
        // A large loss is not looked into.
        assert_eq!(decided(0.80, 0.01, toll(0.2, 0.01)), lost);
        let mut entry = slightly_sensitive(0.89, 0.01);
        entry.reason = Some("tolerated: near; caused: open".into());
        take_off(&mut entry, &toll(0.06, 0.01), 0.95);
        let reason = entry.reason.unwrap();
        assert!(reason.starts_with("tolerated: a program"), "{reason}");
        assert!(reason.ends_with("; caused: open"), "{reason}");
    }

    #[test]
    fn an_entry_says_what_is_possible_and_that_no_window_stands_behind_it() {
        let entry = bounded(4.0).entry(Halves::Both, Some(0.004));
        assert_eq!(
            (entry.status, entry.sensitive),
            (Status::Measured, Some(false))
        );
        assert_eq!(entry.tolerated, exactly(100.0));
        assert_eq!(entry.caused, exactly(0.0));
        let point = &entry.curve[0];
        assert_eq!((point.windows, point.intensity), (0, 100.0));
        assert!((point.ci95[0] - 0.99).abs() < 1e-12 && point.ci95[1] == 1.0);
        assert!((entry.probe_curve[0].ci95[0] - 0.96).abs() < 1e-12);
        let bound = entry.physical_bound.unwrap();
        assert!((bound.loss_percent - 1.0).abs() < 1e-9);
        assert!(
            bound
                .basis
                .starts_with("a walk took longer; the target pays")
        );
        let switch = entry.switch.unwrap();
        let switch = switch.value().unwrap();
        assert_eq!(switch.cost_microseconds.ci95, [0.0, 4.0]);
        assert!((switch.expected_loss_percent.ci95[1] - 0.1).abs() < 1e-9);
    }

    #[test]
    fn what_the_source_may_lose_in_its_short_slices_has_to_be_known_too() {
        let turns = (Duration::from_micros(100), Duration::from_micros(400));
        let enough = |halves, qos: f64| (enough(halves, 1.0 - qos, turns) * 1e3).round() / 1e3;
        // 10 µs of the target's turn are half of 5 %; 5 µs of the slice are 5 %.
        assert_eq!(enough(Halves::Tolerated, 0.95), 0.1);
        assert_eq!(enough(Halves::Both, 0.95), 0.05);
        assert_eq!(enough(Halves::Both, 0.99), 0.02);
        // What the source may lose does not depend on what the target may.
        assert_eq!(enough(Halves::Both, 0.8), 0.05);
        assert_eq!(enough(Halves::Caused, 0.99), 0.05);
        // Only what was asked for is said.
        let caused = bounded(4.0).entry(Halves::Caused, None);
        assert!(caused.tolerated.is_none() && caused.curve.is_empty());
        assert!(caused.sensitive.is_none() && caused.caused.is_some());
        let tolerated = bounded(4.0).entry(Halves::Tolerated, None);
        assert!(tolerated.caused.is_none() && tolerated.probe_curve.is_empty());
    }

    #[test]
    fn a_bound_decides_what_measuring_left_open() {
        let open = |loss_percent| {
            let mut entry = bounded(4.0).entry(Halves::Both, None);
            entry.physical_bound.as_mut().unwrap().loss_percent = loss_percent;
            entry.status = Status::Unresolved;
            (entry.sensitive, entry.tolerated) = (None, None);
            entry.reason = Some("tolerated: 96 % kept; 9 more pairs; caused: too few".into());
            decide(&mut entry, 0.95);
            entry
        };
        let known = open(1.0);
        assert_eq!(
            (known.status, known.sensitive),
            (Status::Measured, Some(false))
        );
        assert_eq!(known.reason.as_deref(), Some("caused: too few"));
        let wide = open(3.0);
        assert_eq!((wide.status, wide.sensitive), (Status::Unresolved, None));
        // What was measured stands.
        let mut lost = bounded(4.0).entry(Halves::Both, None);
        lost.sensitive = Some(true);
        decide(&mut lost, 0.95);
        assert_eq!(lost.sensitive, Some(true));
    }

    #[test]
    fn who_does_not_use_a_disk_takes_nothing_of_it() {
        let decided = |bytes_per_second, flushes_per_second, beside: f64| {
            let mut entry = bounded(4.0).entry(Halves::Both, None);
            entry.caused = None;
            entry.probe_curve[0].performance = beside;
            entry.probe_curve[0].ci95 = [beside - 0.08, beside + 0.08];
            let reason = "tolerated: 97 % kept; 9 more; caused: 96 % kept; 7 more; tolerated: also";
            entry.reason = Some(reason.into());
            let disk = DiskUse {
                bytes_per_second,
                flushes_per_second,
                peak_bytes_per_second: 1e9,
            };
            decide_caused(&mut entry, disk, 0.95);
            (entry.caused, entry.reason, entry.caused_bound)
        };
        let (caused, reason, bound) = decided(40_960.0, 0.5, 0.93);
        assert_eq!(caused, exactly(0.0));
        let rest = "tolerated: 97 % kept; 9 more; tolerated: also";
        assert_eq!(reason.as_deref(), Some(rest));
        // 10 requests of 0.52 ms each, and 5 ms for flushes.
        assert!((bound.unwrap().loss_percent - 1.024_288).abs() < 1e-6);
        for open in [
            decided(400_000.0, 0.0, 0.93),
            decided(0.0, 3.0, 0.93),
            decided(0.0, 0.0, 0.8),
        ] {
            assert_eq!((open.0, open.2), (None, None));
            assert!(open.1.unwrap().contains("caused: "));
        }
    }
}
