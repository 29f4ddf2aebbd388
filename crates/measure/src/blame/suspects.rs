//! Who uses the machine beside the victim: processes by job and by cgroup.

use super::protect::Protected;
use super::protect::name_of;
use crate::workload::TargetSpec;
use crate::workload::cgroup;
use crate::workload::cgroup::CgroupSpec;
use crate::workload::cgroup::Hierarchies;
use crate::workload::tree;
use jostle_host::os::here;
use jostle_host::os::proc;
use jostle_host::os::stat::ticks_per_second;
use jostle_host::os::text;
use jostle_host::sys::clock::cpu_ns_of;
use jostle_host::sys::clock::monotonic_ns;
use jostle_profile::blame::Excluded;
use jostle_statistics::ByNumber;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::Duration;

/// Somebody who may slow the victim.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspect {
    pub name: String,
    pub spec: TargetSpec,
}

impl Suspect {
    /// Its processes at this moment.
    pub(super) fn processes(&self) -> Vec<i32> {
        let scope = self.spec.scope();
        scope.map_or_else(Vec::new, |scope| scope.processes())
    }
}

/// Use from which on somebody is worth a look: shares of one CPU, bytes per second,
/// share of the memory.
const BUSY_CPU: f64 = 0.01;
const BUSY_BYTES: f64 = 256.0 * 1024.0;
const LARGE: f64 = 0.1;
const AWAKE: f64 = 0.001;
/// Most candidates that are found by themselves.
pub(super) const MOST: usize = 16;

/// Everything that a process used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) cpu_seconds: f64,
    /// Read and written; `None` where that may not be read.
    pub(super) bytes: Option<[f64; 2]>,
}

impl Counts {
    pub(super) fn of(pid: i32) -> Option<Counts> {
        let stat = tree::stat(pid).filter(|stat| !stat.ended())?;
        let ended = stat.used_by_ended_children as f64 / ticks_per_second();
        let bytes = text::parse(here(), format!("proc/{pid}/io"), |text| {
            Ok([
                text::keyed(text, "read_bytes")?,
                text::keyed(text, "write_bytes")?,
            ])
        });
        Some(Counts {
            cpu_seconds: cpu_ns_of(pid)? as f64 / 1e9 + ended,
            bytes: bytes.ok(),
        })
    }
}

/// What processes used in a short time.
pub(super) struct Survey {
    /// By process: CPUs, bytes per second.
    used: HashMap<i32, [f64; 2]>,
}

impl Survey {
    pub(super) fn take(length: Duration) -> Survey {
        let began = monotonic_ns();
        let all = proc::processes(here());
        let before = all.iter().filter_map(|pid| Some((*pid, Counts::of(*pid)?)));
        let before: Vec<(i32, Counts)> = before.collect();
        std::thread::sleep(length);
        let seconds = (monotonic_ns() - began) as f64 / 1e9;
        let used = before.into_iter().filter_map(|(pid, before)| {
            let after = Counts::of(pid)?;
            let sum = |counts: &Counts| counts.bytes.map_or(0.0, |[a, b]| a + b);
            let cpu = (after.cpu_seconds - before.cpu_seconds).max(0.0) / seconds;
            Some((pid, [cpu, (sum(&after) - sum(&before)).max(0.0) / seconds]))
        });
        Survey {
            used: used.collect(),
        }
    }

    fn is_busy(&self, pid: i32, memory: f64) -> bool {
        let Some([cpu, bytes]) = self.used.get(&pid) else {
            return false;
        };
        *cpu >= BUSY_CPU
            || *bytes >= BUSY_BYTES
            || *cpu >= AWAKE && resident(pid).is_some_and(|bytes| bytes >= LARGE * memory)
    }
}

/// Memory that a process holds, bytes.
pub(super) fn resident(pid: i32) -> Option<f64> {
    let path = format!("proc/{pid}/status");
    let kib = text::parse(here(), path, |text| text::keyed(text, "VmRSS"));
    Some(kib.ok()? * 1024.0)
}

/// Those who use the machine noticeably: whom one may pause, the busiest first, and
/// whom one may not. `memory` is that of the machine, bytes.
pub(super) fn find(
    survey: &Survey,
    protected: &Protected,
    memory: f64,
) -> (Vec<Suspect>, Vec<Excluded>) {
    let hierarchies = Hierarchies::here().ok();
    let mut groups: BTreeMap<String, (Suspect, f64)> = BTreeMap::new();
    let mut excluded = Vec::new();
    for pid in protected.processes() {
        if !survey.is_busy(pid, memory) {
            continue;
        }
        if let Some(reason) = protected.reason(pid) {
            let kernel = protected.stat(pid).is_some_and(|stat| stat.parent == 2);
            // Their work is done for others.
            if !kernel {
                excluded.push(Excluded {
                    name: protected.name(pid),
                    pid,
                    reason: reason.to_string(),
                });
            }
            continue;
        }
        let root = job(protected, pid);
        if !protected.may_pause_tree(root) {
            excluded.push(Excluded {
                name: protected.name(pid),
                pid,
                reason: "somebody who may not be paused descends from it".into(),
            });
            continue;
        }
        let suspect = hierarchies
            .as_ref()
            .and_then(|here| in_cgroup(here, protected, root))
            .unwrap_or_else(|| of_pid(root));
        let [cpu, bytes] = survey.used[&pid];
        let weight = cpu + bytes / 1e8;
        let key = format!("{:?}", suspect.spec);
        let group = groups.entry(key).or_insert((suspect, 0.0));
        group.1 += weight;
    }
    let mut found: Vec<(Suspect, f64)> = groups.into_values().collect();
    found.sort_by_number(|it| -it.1);
    let suspects = found.into_iter().map(|(suspect, _)| suspect);
    (suspects.collect(), excluded)
}

pub(super) fn of_pid(pid: i32) -> Suspect {
    Suspect {
        name: name_of(pid),
        spec: TargetSpec::Pid(pid),
    }
}

/// The first process of the job that `pid` belongs to: programs of one pipe line
/// wait for each other, so that they are paused together.
fn job(protected: &Protected, pid: i32) -> i32 {
    let mut at = pid;
    while let Some(stat) = protected.stat(at)
        && protected.may_pause_tree(stat.parent)
        && protected
            .stat(stat.parent)
            .is_some_and(|it| it.group == stat.group)
    {
        at = stat.parent;
    }
    at
}

/// The cgroup that `pid` is in, if that may be paused as a whole.
fn in_cgroup(here: &Hierarchies, protected: &Protected, pid: i32) -> Option<Suspect> {
    let places = ["", "freezer"].into_iter().filter_map(|controller| {
        let directory = here.of_process(&pid.to_string(), controller).ok()??;
        let (_, below) = here.locate(&directory)?;
        (!below.as_os_str().is_empty()).then(|| directory.clone())
    });
    let may = |directory: &std::path::PathBuf| {
        let inside = cgroup::processes(directory).unwrap_or_default();
        !inside.is_empty() && inside.iter().all(|pid| protected.reason(*pid).is_none())
    };
    let directory = places.into_iter().find(may)?;
    let name = directory.file_name()?.to_string_lossy().into_owned();
    let spec = TargetSpec::Cgroup(CgroupSpec {
        asked: format!("--candidate cgroup:{}", directory.display()),
        name: name.clone(),
        directory,
    });
    Some(Suspect { name, spec })
}

/// Why `suspect` may not be paused.
pub(super) fn refused(suspect: &Suspect, protected: &Protected) -> Option<String> {
    suspect.processes().iter().find_map(|pid| {
        let reason = protected.reason(*pid)?;
        Some(match suspect.spec {
            TargetSpec::Pid(own) if own == *pid => reason.to_string(),
            _ => format!(
                "{} (process {pid}) belongs to it, and {reason}",
                protected.name(*pid)
            ),
        })
    })
}
