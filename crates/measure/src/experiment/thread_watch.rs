//! Whether the target stays what it was when its CPUs were chosen: while it is
//! measured its threads are looked at now and then.

use super::place::CpuChoice;
use super::place::how_to_pin;
use crate::warning::Warning;
use crate::workload::Finder;
use crate::workload::Target;
use crate::workload::TargetSpec;
use crate::workload::activity::Activity;
use crate::workload::tree;
use jostle_profile::PlacementMode;
use jostle_profile::Profile;
use jostle_profile::Status;
use jostle_profile::cpulist::format_list;
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(250);
/// A look may take one part in this many of the time: with many threads there
/// are fewer looks.
const LOOK_PARTS: u32 = 200;
/// A change of the number of threads by less is none.
const CHANGE: f64 = 0.2;
/// Share of its time that a target may spend on other CPUs, 0–1.
const OUTSIDE: f64 = 0.05;
/// Percent of its time on other CPUs from which on a source on its own CPU did
/// not meet it.
const MUCH: f64 = 20.0;

/// A thread that looks, until the value is dropped or ended.
pub(super) struct ThreadWatch {
    finder: Finder,
    mask: Vec<usize>,
    /// Closing it ends the thread.
    stop: Option<mpsc::Sender<()>>,
    looking: Option<JoinHandle<Activity>>,
}

/// What a target was planned to be.
pub(super) struct Planned<'a> {
    pub cpus: &'a [usize],
    pub choice: &'a CpuChoice,
    /// CPUs that it could have been given.
    pub allowed: usize,
    pub spec: &'a TargetSpec,
    /// Whether it is started again for every window, so that its threads come
    /// and go.
    pub restarted: bool,
}

/// What was seen of it.
struct Seen {
    activity: Activity,
    /// CPUs that its threads might run on when the watch began, and ended.
    masks: [Vec<usize>; 2],
}

impl ThreadWatch {
    /// Looks at `target` from now on; without a thread to do it nothing is seen.
    pub(super) fn begin(target: &Target) -> ThreadWatch {
        let finder = target.finder();
        let mask = tree::affinities(finder.processes());
        let (stop, stopped) = mpsc::channel::<()>();
        let looks = finder.clone();
        let looking = std::thread::Builder::new()
            .name("target-threads".into())
            .spawn(move || {
                let mut activity = Activity::default();
                let mut pause = EVERY;
                while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    let took = activity.add_look(&looks.processes());
                    pause = EVERY.max(took * LOOK_PARTS);
                }
                activity
            });
        ThreadWatch {
            finder,
            mask,
            stop: Some(stop),
            looking: looking.ok(),
        }
    }

    /// Ends the watch; what a reader must know of the target.
    pub(super) fn end(mut self, planned: &Planned) -> Vec<Warning> {
        let after = tree::affinities(self.finder.processes());
        let seen = Seen {
            activity: self.close(),
            masks: [std::mem::take(&mut self.mask), after],
        };
        warnings(&seen, planned)
    }

    fn close(&mut self) -> Activity {
        self.stop = None;
        let looking = self.looking.take();
        let looked = looking.and_then(|thread| thread.join().ok());
        looked.unwrap_or_default()
    }
}

impl Drop for ThreadWatch {
    fn drop(&mut self) {
        self.close();
    }
}

fn warnings(seen: &Seen, planned: &Planned) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let [before, after] = &seen.masks;
    // Nothing is there between two runs.
    if before != after && !before.is_empty() && !after.is_empty() {
        warnings.push(Warning::TargetCpusChanged {
            before: format_list(before),
            after: format_list(after),
        });
    }
    let seen_on = seen.activity.cpus();
    let reach = match planned.choice.reach.as_slice() {
        [] => planned.cpus,
        reach => reach,
    };
    let outside = seen_on.iter().filter(|(cpu, _)| !reach.contains(cpu));
    let outside: f64 = outside.map(|(_, share)| share).sum();
    if outside >= OUTSIDE {
        warnings.push(Warning::TargetMoved {
            cpus: format_list(planned.cpus),
            outside_percent: outside * 100.0,
            remedy: remedy(planned, &seen_on),
        });
    }
    if let Some([before, after]) = seen.activity.threads()
        && !planned.restarted
        && before.abs_diff(after) as f64 > CHANGE * before as f64
    {
        warnings.push(Warning::ThreadCountChanged { before, after });
    }
    let at_once = seen.activity.at_once().unwrap_or(0);
    let known = planned.choice.at_once.unwrap_or(1);
    let cpus = planned.cpus.len();
    let ours = !planned.spec.is_attached() && !planned.choice.asked;
    if ours && at_once > known && at_once > cpus && planned.allowed > cpus {
        warnings.push(Warning::ThreadsShareCpus {
            threads: at_once,
            cpus,
        });
    }
    warnings
}

/// How a target that ran elsewhere, on the CPUs `seen`, and the sources meet.
fn remedy(planned: &Planned, seen: &[(usize, f64)]) -> String {
    if planned.spec.is_attached() {
        return format!(
            "to keep it there: {}",
            how_to_pin(planned.spec, planned.cpus)
        );
    }
    let mut cpus: Vec<usize> = seen.iter().map(|(cpu, _)| *cpu).collect();
    cpus.sort_unstable();
    format!(
        "it chooses its CPUs itself, so give it those: {}",
        how_to_pin(planned.spec, &cpus)
    )
}

/// Takes back what was said of sources on the target's own core where it was
/// away from them for much of the time: that nothing was lost then says nothing.
pub(super) fn discount(profile: &mut Profile) {
    let code = Warning::TargetMoved {
        cpus: String::new(),
        outside_percent: 0.0,
        remedy: String::new(),
    }
    .facts()
    .code;
    let warnings = &profile.conditions.warnings;
    let moved = warnings.iter().find(|warning| warning.code == code);
    let away = moved.and_then(|warning| warning.fields.get("outside_percent")?.as_f64());
    let Some(away) = away.filter(|away| *away >= MUCH) else {
        return;
    };
    for entry in profile.resources.values_mut() {
        let mode = entry.placement.as_ref().map(|placement| placement.mode);
        let near = matches!(
            mode,
            Some(PlacementMode::SameCpu | PlacementMode::SmtSibling | PlacementMode::SharedL2)
        );
        if near && entry.sensitive == Some(false) {
            entry.sensitive = None;
            entry.tolerated = None;
            entry.status = Status::Unresolved;
            entry.reason = Some(format!(
                "tolerated: the target spent {away:.0} % of its time away from the source"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::CommandSpec;
    use crate::workload::activity::Look;

    static PID: TargetSpec = TargetSpec::Pid(7);
    static ASKED: CpuChoice = choice(true, None);
    static ONE_KNOWN: CpuChoice = choice(false, Some(1));
    static TWO_KNOWN: CpuChoice = choice(false, Some(2));

    const fn choice(asked: bool, at_once: Option<usize>) -> CpuChoice {
        CpuChoice {
            because: String::new(),
            asked,
            trial: false,
            open: Vec::new(),
            looked: false,
            at_once,
            reach: Vec::new(),
            advice: None,
        }
    }

    fn look(threads: usize, running: &[usize]) -> Look {
        Look {
            threads,
            running: running.to_vec(),
            ..Look::default()
        }
    }

    /// The codes of what is said of a target planned for CPU 1 of two.
    fn said(looks: Vec<Look>, masks: [&[usize]; 2], change: impl FnOnce(&mut Planned)) -> String {
        let command = TargetSpec::Command(CommandSpec::default());
        let mut planned = Planned {
            cpus: &[1],
            choice: &ONE_KNOWN,
            allowed: 2,
            spec: &command,
            restarted: false,
        };
        change(&mut planned);
        let seen = Seen {
            activity: looks.into_iter().collect(),
            masks: masks.map(<[usize]>::to_vec),
        };
        let codes = warnings(&seen, &planned).into_iter();
        let codes: Vec<String> = codes.map(|warning| warning.facts().code).collect();
        codes.join(" ")
    }

    #[test]
    fn a_target_that_stays_as_it_was_says_nothing() {
        let steady = vec![look(3, &[1]); 40];
        assert_eq!(said(steady.clone(), [&[1], &[1]], |_| ()), "");
        // Between two runs nothing is there.
        assert_eq!(said(steady, [&[1], &[]], |_| ()), "");
        assert_eq!(said(Vec::new(), [&[1], &[1]], |_| ()), "");
        // One look of forty elsewhere, and a helper now and then.
        let mut once = vec![look(10, &[1]); 40];
        once[7] = look(11, &[0, 1]);
        once[39] = look(11, &[1]);
        assert_eq!(said(once, [&[1], &[1]], |_| ()), "");
    }

    #[test]
    fn changes_while_measuring_are_said() {
        let steady = vec![look(1, &[1]); 40];
        let moved = said(steady.clone(), [&[0, 1], &[0]], |_| ());
        assert_eq!(moved, "target-cpus-changed");
        let half = [&steady[..20], &vec![look(1, &[0]); 20]].concat();
        let attached = said(half, [&[0, 1], &[0, 1]], |planned| planned.spec = &PID);
        assert_eq!(attached, "target-moved");
        let grown = [&steady[..20], &vec![look(5, &[1]); 20]].concat();
        let more = said(grown.clone(), [&[1], &[1]], |_| ());
        assert_eq!(more, "thread-count-changed");
        let runs = said(grown, [&[1], &[1]], |planned| planned.restarted = true);
        assert_eq!(runs, "", "every run begins with one thread");
    }

    #[test]
    fn threads_that_share_cpus_unasked_are_said() {
        let two = vec![look(2, &[1, 1]); 40];
        let said = |change: &dyn Fn(&mut Planned)| said(two.clone(), [&[1], &[1]], change);
        assert_eq!(said(&|_| ()), "threads-share-cpus");
        assert_eq!(said(&|planned| planned.allowed = 1), "");
        assert_eq!(said(&|planned| planned.spec = &PID), "");
        assert_eq!(said(&|planned| planned.choice = &ASKED), "");
        assert_eq!(said(&|planned| planned.choice = &TWO_KNOWN), "");
    }
    #[test]
    fn what_a_target_was_away_from_is_not_ruled_out() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/fixtures/profiles/kv-store.json"
        );
        let mut profile = jostle_profile::load(std::path::Path::new(path)).unwrap();
        for entry in profile.resources.values_mut() {
            if let Some(placement) = &mut entry.placement {
                placement.mode = PlacementMode::SameCpu;
            }
        }
        let verdicts = |profile: &Profile| -> Vec<(Option<bool>, Status)> {
            let entries = profile.resources.values();
            entries
                .map(|entry| (entry.sensitive, entry.status))
                .collect()
        };
        let moved = |outside_percent| Warning::TargetMoved {
            cpus: "1".into(),
            outside_percent,
            remedy: String::new(),
        };
        let before = verdicts(&profile);
        assert!(
            before
                .iter()
                .any(|(sensitive, _)| *sensitive == Some(false))
        );
        profile.conditions.warn(moved(6.0).facts());
        discount(&mut profile);
        assert_eq!(verdicts(&profile), before);
        profile.conditions.warnings.clear();
        profile.conditions.warn(moved(90.0).facts());
        discount(&mut profile);
        for (was, now) in before.iter().zip(verdicts(&profile)) {
            match was.0 {
                Some(false) => assert_eq!(now, (None, Status::Unresolved)),
                _ => assert_eq!(now, *was, "an effect that was seen is one"),
            }
        }
    }
}
