//! What the cgroups around this process let it have, v1, v2, or both at once.
//!
//! A cgroup obeys the limits of every cgroup above it, so each answer is the
//! tightest on the way up to the mount point. Cgroups above the mount point
//! cannot be seen from inside a container.

use super::Cgroup;
use super::files;
use super::mounts;
use super::mounts::Mount;
use jostle_profile::reading::Reading;
use std::path::Path;

/// The reason in a reading when nothing limits.
pub(super) const NO_LIMIT: &str = "no limit";

/// v1 writes "no limit" as the largest multiple of the page size an i64 holds.
const V1_UNLIMITED: u64 = 1 << 62;

/// Where one controller's files are.
struct Hierarchy {
    v2: bool,
    /// This process's cgroup as seen from the mount, `/` for the mount itself.
    path: String,
    /// Directories from this process's cgroup up to the mount point, relative
    /// to the root.
    levels: Vec<String>,
}

/// One level's memory, bytes.
struct Level {
    limit: u64,
    used: Result<u64, String>,
    path: String,
}

pub(super) fn read(root: &Path) -> Cgroup {
    let membership = match files::text(root, "proc/self/cgroup") {
        Ok(text) => text,
        Err(problem) => return nothing(&problem),
    };
    let mounts = match files::text(root, "proc/self/mountinfo") {
        Ok(text) => mounts::parse(&text),
        Err(problem) => return nothing(&problem),
    };
    let v1 = mounts.iter().any(|mount| mount.filesystem == "cgroup");
    let v2 = mounts.iter().any(|mount| mount.filesystem == "cgroup2");
    let version = match (v1, v2) {
        (true, true) => "hybrid",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => return nothing("no cgroup file system is mounted"),
    };
    let memory = hierarchy(&membership, &mounts, "memory");
    let cpu = hierarchy(&membership, &mounts, "cpu");
    let mut cgroup = nothing("");
    cgroup.version = Reading::Value(version.to_string());
    cgroup.cpu_quota = cpu.and_then(|cpu| cpu_quota(root, &cpu)).into();
    match memory {
        Ok(memory) => {
            cgroup.path = Reading::Value(memory.path.clone());
            fill_memory(root, &memory, &mut cgroup);
        }
        Err(problem) => {
            cgroup.path = Reading::unavailable(&problem);
            cgroup.memory_limit_bytes = Reading::unavailable(&problem);
            cgroup.memory_used_bytes = Reading::unavailable(&problem);
            cgroup.memory_headroom_bytes = Reading::unavailable(&problem);
        }
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
fn hierarchy(membership: &str, mounts: &[Mount], controller: &str) -> Result<Hierarchy, String> {
    let named = |list: &str| list.split(',').any(|name| name == controller);
    let lines = || {
        membership.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':')
        })
    };
    if let Some((_, path)) = lines().find(|(controllers, _)| named(controllers)) {
        let candidates = mounts
            .iter()
            .filter(|mount| mount.filesystem == "cgroup" && named(&mount.super_options));
        return place(false, path, candidates)
            .ok_or_else(|| format!("the cgroup v1 controller '{controller}' is not mounted"));
    }
    if let Some((_, path)) = lines().find(|(controllers, _)| controllers.is_empty()) {
        let candidates = mounts.iter().filter(|mount| mount.filesystem == "cgroup2");
        return place(true, path, candidates).ok_or_else(|| "cgroup v2 is not mounted".to_string());
    }
    Err(format!(
        "/proc/self/cgroup names no cgroup for the controller '{controller}'"
    ))
}

/// Lays a cgroup path over the mount that shows it. In a container the path may
/// be the host's while the mount begins at the container's own cgroup, or the
/// reverse; then the mount point is as near as can be seen.
fn place<'a>(
    v2: bool,
    path: &str,
    mounts: impl Iterator<Item = &'a Mount> + Clone,
) -> Option<Hierarchy> {
    let below = |mount: &Mount| -> Option<String> {
        let rest = match mount.root.as_str() {
            "/" => path,
            root => path.strip_prefix(root)?,
        };
        let whole = rest.is_empty() || rest.starts_with('/');
        let outside = rest.split('/').any(|part| part == "..");
        (whole && !outside).then(|| rest.trim_matches('/').to_string())
    };
    let (mount, rest) = mounts
        .clone()
        .find_map(|mount| Some((mount, below(mount)?)))
        .or_else(|| mounts.clone().next().map(|mount| (mount, String::new())))?;
    let point = mount.point.trim_matches('/').to_string();
    let mut levels = vec![point.clone()];
    let mut dir = point;
    for part in rest.split('/').filter(|part| !part.is_empty()) {
        dir = format!("{dir}/{part}");
        levels.push(dir.clone());
    }
    levels.reverse();
    Some(Hierarchy {
        v2,
        path: format!("/{rest}"),
        levels,
    })
}

fn fill_memory(root: &Path, memory: &Hierarchy, cgroup: &mut Cgroup) {
    let mut problem = None;
    let mut any_file = false;
    let mut limited: Vec<Level> = Vec::new();
    for dir in &memory.levels {
        match level_limit(root, memory.v2, dir) {
            Ok(None) => {}
            Ok(Some(None)) => any_file = true,
            Ok(Some(Some(limit))) => {
                any_file = true;
                limited.push(Level {
                    limit,
                    used: used(root, memory.v2, dir),
                    path: format!("/{dir}"),
                });
            }
            Err(why) => {
                problem.get_or_insert(why);
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
        cgroup.memory_used_bytes = used(root, memory.v2, own).into();
        return;
    };
    cgroup.memory_limit_bytes = Reading::Value(tightest.limit);
    cgroup.memory_used_bytes = tightest.used.clone().into();
    // The largest limit may bind first, when others share it.
    let mut headroom: Result<(u64, &Level), String> = Err(NO_LIMIT.to_string());
    for level in &limited {
        match (&level.used, &headroom) {
            (Err(why), _) => {
                headroom = Err(why.clone());
                break;
            }
            (Ok(used), Ok((least, _))) if level.limit.saturating_sub(*used) >= *least => {}
            (Ok(used), _) => headroom = Ok((level.limit.saturating_sub(*used), level)),
        }
    }
    cgroup.memory_bound_by = headroom.as_ref().ok().map(|(_, level)| level.path.clone());
    cgroup.memory_headroom_bytes = headroom.map(|(bytes, _)| bytes).into();
}

/// Outer `None`: this level has no limit file. Inner `None`: it has one that
/// does not limit.
///
/// # Errors
/// A message naming the file that is not understood.
fn level_limit(root: &Path, v2: bool, dir: &str) -> Result<Option<Option<u64>>, String> {
    if !v2 {
        let path = format!("{dir}/memory.limit_in_bytes");
        if !files::exists(root, &path) {
            return Ok(None);
        }
        let limit: u64 = files::number(root, &path)?;
        return Ok(Some((limit < V1_UNLIMITED).then_some(limit)));
    }
    let mut answer = None;
    // Past memory.high the kernel slows the cgroup down until it gives memory
    // back: for pressure that nobody asked for, that is a limit too.
    for name in ["memory.max", "memory.high"] {
        let path = format!("{dir}/{name}");
        if !files::exists(root, &path) {
            continue;
        }
        let limit = match files::text(root, &path)?.as_str() {
            "max" => None,
            _ => Some(files::number::<u64>(root, &path)?),
        };
        let tightest = [answer.flatten(), limit].into_iter().flatten().min();
        answer = Some(tightest);
    }
    Ok(answer)
}

/// Bytes charged to a cgroup that the kernel cannot take back easily: usage
/// less file pages, in recent use or not, as `MemAvailable` counts them too.
fn used(root: &Path, v2: bool, dir: &str) -> Result<u64, String> {
    let (usage, keys) = match v2 {
        true => ("memory.current", ["inactive_file ", "active_file "]),
        false => (
            "memory.usage_in_bytes",
            ["total_inactive_file ", "total_active_file "],
        ),
    };
    let usage: u64 = files::number(root, &format!("{dir}/{usage}"))?;
    let stat = files::text(root, &format!("{dir}/memory.stat")).unwrap_or_default();
    let value = |key: &str| {
        let mut lines = stat.lines();
        lines.find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok())
    };
    let reclaimable: u64 = keys.into_iter().filter_map(value).sum();
    Ok(usage.saturating_sub(reclaimable))
}

/// CPUs' worth of time, the least of all levels.
fn cpu_quota(root: &Path, cpu: &Hierarchy) -> Result<f64, String> {
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
    match (least, problem) {
        (Some(quota), _) => Ok(quota),
        (None, Some(problem)) => Err(problem),
        (None, None) => Err(NO_LIMIT.to_string()),
    }
}

fn level_quota(root: &Path, v2: bool, dir: &str) -> Result<Option<f64>, String> {
    let path = match v2 {
        true => format!("{dir}/cpu.max"),
        false => format!("{dir}/cpu.cfs_quota_us"),
    };
    if !files::exists(root, &path) {
        return Ok(None);
    }
    let text = files::text(root, &path)?;
    let (quota, period) = match v2 {
        true => {
            // The period may be left out when the file was written by hand.
            let (quota, period) = text.split_once(' ').unwrap_or((&text, "100000"));
            (quota.to_string(), period.to_string())
        }
        false => {
            let period = files::text(root, &format!("{dir}/cpu.cfs_period_us"))?;
            (text.clone(), period)
        }
    };
    if quota == "max" || quota == "-1" {
        return Ok(None);
    }
    match (quota.parse::<u64>(), period.trim().parse::<u64>()) {
        (Ok(quota), Ok(period)) if quota > 0 && period > 0 => {
            Ok(Some(quota as f64 / period as f64))
        }
        _ => Err(format!("/{path}: '{text}' is not a CPU quota")),
    }
}
