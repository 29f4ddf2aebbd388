//! What the cgroups around this process let it have, v1, v2, or both at once.
//!
//! A cgroup obeys the limits of every cgroup above it, so each answer is the
//! tightest on the way up to the mount point. Cgroups above the mount point
//! cannot be seen from inside a container.

use super::Cgroup;
use super::reading;
use crate::os::Error;
use crate::os::ParseError;
use crate::os::cgroup::Hierarchies;
use crate::os::text;
use jostle_profile::reading::Reading;
use std::path::Path;
use std::path::PathBuf;

/// The reason in a reading when nothing limits.
pub(super) const NO_LIMIT: &str = "no limit";

/// v1 writes "no limit" as the largest multiple of the page size an i64 holds.
const V1_UNLIMITED: u64 = 1 << 62;

/// Where one controller's files are.
struct Place {
    v2: bool,
    /// This process's cgroup as seen from the mount, `/` for the mount itself.
    path: String,
    /// Directories from this process's cgroup up to the mount point.
    levels: Vec<PathBuf>,
}

/// One level's memory, bytes.
struct Level<'a> {
    limit: u64,
    used: Result<u64, Error>,
    directory: &'a Path,
}

pub(super) fn read(root: &Path) -> Cgroup {
    let hierarchies = match Hierarchies::below(root) {
        Ok(hierarchies) => hierarchies,
        Err(problem) => return nothing(&problem.to_string()),
    };
    let v1 = hierarchies.iter().any(|hierarchy| !hierarchy.unified());
    let version = match (v1, hierarchies.with("")) {
        (true, Some(_)) => "hybrid",
        (true, None) => "v1",
        (false, _) => "v2",
    };
    let memory = place(&hierarchies, "memory");
    let quota = place(&hierarchies, "cpu").and_then(|cpu| cpu_quota(root, &cpu));
    let mut cgroup = Cgroup {
        version: Reading::Value(version.to_string()),
        cpu_quota: quota.into(),
        ..nothing(memory.as_ref().err().map_or("", String::as_str))
    };
    if let Ok(memory) = memory {
        cgroup.path = Reading::Value(memory.path.clone());
        fill_memory(root, &memory, &mut cgroup);
    }
    cgroup
}

fn nothing(problem: &str) -> Cgroup {
    Cgroup {
        version: Reading::unavailable(problem),
        path: Reading::unavailable(problem),
        memory_limit_bytes: Reading::unavailable(problem),
        memory_used_bytes: Reading::unavailable(problem),
        memory_headroom_bytes: Reading::unavailable(problem),
        memory_bound_by: None,
        cpu_quota: Reading::unavailable(problem),
    }
}

/// Finds who rules `controller`: a v1 hierarchy when one carries it, else v2. A
/// v2 mount beside v1 ones carries no controller that v1 has taken.
fn place(hierarchies: &Hierarchies, controller: &str) -> Result<Place, String> {
    let find = |name| hierarchies.of_process("self", name);
    let own = match find(controller).map_err(|error| error.to_string())? {
        None => find("").map_err(|error| error.to_string())?,
        own => own,
    };
    let place = own
        .as_deref()
        .and_then(|own| Some((own, hierarchies.locate(own)?)));
    let Some((own, (hierarchy, path))) = place else {
        return Err(format!(
            "/proc/self/cgroup names no cgroup for the controller '{controller}'"
        ));
    };
    let inside = |level: &&Path| level.starts_with(&hierarchy.directory);
    Ok(Place {
        v2: hierarchy.unified(),
        path: format!("/{}", path.display()),
        levels: own.ancestors().take_while(inside).map(Into::into).collect(),
    })
}

fn fill_memory(root: &Path, memory: &Place, cgroup: &mut Cgroup) {
    let mut problem = None;
    let mut any_file = false;
    let mut limited: Vec<Level<'_>> = Vec::new();
    for dir in &memory.levels {
        match level_limit(root, memory.v2, dir) {
            Ok(None) => {}
            Ok(Some(None)) => any_file = true,
            Ok(Some(Some(limit))) => {
                any_file = true;
                limited.push(Level {
                    limit,
                    used: used(root, memory.v2, dir),
                    directory: dir,
                });
            }
            Err(why) => {
                problem.get_or_insert(why.to_string());
            }
        }
    }
    let own = &memory.levels[0];
    let Some(tightest) = limited.iter().min_by_key(|level| level.limit) else {
        // The root cgroup of v2 has no limit files because nothing limits it.
        let at_root = memory.levels.len() == 1;
        let reason = match problem {
            Some(problem) => problem,
            None if any_file || at_root => NO_LIMIT.to_string(),
            None => "the memory controller is not enabled for this cgroup".to_string(),
        };
        cgroup.memory_limit_bytes = Reading::unavailable(&reason);
        cgroup.memory_headroom_bytes = Reading::unavailable(&reason);
        cgroup.memory_used_bytes = reading(used(root, memory.v2, own));
        return;
    };
    cgroup.memory_limit_bytes = Reading::Value(tightest.limit);
    cgroup.memory_used_bytes = reading(tightest.used.clone());
    // The largest limit may bind first, when others share it.
    let left = limited.iter().map(|level| {
        let used = level.used.as_ref().map_err(Error::to_string)?;
        Ok((level.limit.saturating_sub(*used), level.directory))
    });
    let left: Result<Vec<(u64, &Path)>, String> = left.collect();
    let least = left.map(|left| left.into_iter().min_by_key(|(bytes, _)| *bytes));
    if let Ok(Some((_, directory))) = least {
        cgroup.memory_bound_by = Some(text::shown(root, directory));
    }
    cgroup.memory_headroom_bytes = least
        .and_then(|least| least.map_or(Err(NO_LIMIT.to_string()), |(bytes, _)| Ok(bytes)))
        .into();
}

/// Outer `None`: this level has no limit file. Inner `None`: it has one that
/// does not limit.
fn level_limit(root: &Path, v2: bool, dir: &Path) -> Result<Option<Option<u64>>, Error> {
    // Past memory.high the kernel slows the cgroup down until it gives memory
    // back: for pressure that nobody asked for, that is a limit too.
    let names: &[&str] = match v2 {
        true => &["memory.max", "memory.high"],
        false => &["memory.limit_in_bytes"],
    };
    let mut answer = None;
    for name in names {
        let limit = match Error::absent_as_none(text::text(root, dir.join(name)))?.as_deref() {
            None => continue,
            Some("max") => None,
            Some(_) => {
                let limit = text::number::<u64>(root, dir.join(name))?;
                (v2 || limit < V1_UNLIMITED).then_some(limit)
            }
        };
        answer = Some([answer.flatten(), limit].into_iter().flatten().min());
    }
    Ok(answer)
}

/// Bytes charged to a cgroup that the kernel cannot take back easily: usage
/// less file pages, in recent use or not, as `MemAvailable` counts them too.
fn used(root: &Path, v2: bool, dir: &Path) -> Result<u64, Error> {
    let (usage, keys) = match v2 {
        true => ("memory.current", ["inactive_file", "active_file"]),
        false => (
            "memory.usage_in_bytes",
            ["total_inactive_file", "total_active_file"],
        ),
    };
    let usage: u64 = text::number(root, dir.join(usage))?;
    let stat = text::text(root, dir.join("memory.stat")).unwrap_or_default();
    let reclaimable: f64 = keys
        .iter()
        .filter_map(|key| text::keyed(&stat, key).ok())
        .sum();
    Ok(usage.saturating_sub(reclaimable as u64))
}

/// CPUs' worth of time, the least of all levels.
fn cpu_quota(root: &Path, cpu: &Place) -> Result<f64, String> {
    let mut least: Option<f64> = None;
    let mut problem = None;
    for dir in &cpu.levels {
        match level_quota(root, cpu.v2, dir) {
            Ok(Some(quota)) => least = Some(least.map_or(quota, |least| least.min(quota))),
            Ok(None) => {}
            Err(why) => {
                problem.get_or_insert(why);
            }
        }
    }
    least.ok_or_else(|| problem.map_or(NO_LIMIT.to_string(), |problem| problem.to_string()))
}

fn level_quota(root: &Path, v2: bool, dir: &Path) -> Result<Option<f64>, Error> {
    let file = dir.join(if v2 { "cpu.max" } else { "cpu.cfs_quota_us" });
    let Some(text) = Error::absent_as_none(text::text(root, &file))? else {
        return Ok(None);
    };
    let (quota, period) = match v2 {
        // The period may be left out when the file was written by hand.
        true => text.split_once(' ').unwrap_or((&text, "100000")),
        false => (
            text.as_str(),
            &*text::text(root, dir.join("cpu.cfs_period_us"))?,
        ),
    };
    if quota == "max" || quota == "-1" {
        return Ok(None);
    }
    match (quota.parse::<u64>(), period.trim().parse::<u64>()) {
        (Ok(quota), Ok(period)) if quota > 0 && period > 0 => {
            Ok(Some(quota as f64 / period as f64))
        }
        _ => Err(Error::Malformed {
            path: text::shown(root, &file),
            problem: ParseError::text(&text, "is not a CPU quota"),
        }),
    }
}
