//! Resource control: what the kernel can divide of last-level caches and of the way to
//! memory, and groups of processes that it divides them among. Groups of others are left
//! as they are.

use crate::os::text;
use jostle_profile::cpulist::parse_list;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

const MOUNT: &str = "sys/fs/resctrl";
/// What groups that Jostle makes begin with.
const PREFIX: &str = "jostle-";

/// What can be divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Ways of each last-level cache, and the fewest that a group may have.
    pub ways: usize,
    pub least_ways: usize,
    /// Ways that the hardware uses beside the CPUs; they come last.
    pub shareable: u64,
    /// Groups that may be made.
    pub groups: usize,
    /// Limits of memory bandwidth; `Err` says why there are none.
    pub bandwidth: Result<Bandwidth, String>,
    /// Last-level caches by the kernel's id, each with its CPUs.
    pub caches: BTreeMap<u32, Vec<usize>>,
}

/// Percentages of a core's bandwidth that a group can be held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    pub least: u32,
    pub step: u32,
}

impl Bandwidth {
    /// The least limit that leaves `percent`.
    pub fn at_least(self, percent: f64) -> u32 {
        let step = self.step.max(1);
        let steps = (percent.clamp(0.0, 100.0) / f64::from(step)).ceil() as u32;
        (steps * step).clamp(self.least, 100)
    }
}

/// What one group may have of one cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub cache: u32,
    /// One bit for each way; adjacent, as processors demand it.
    pub ways: Option<u64>,
    /// Percent.
    pub bandwidth: Option<u32>,
}

impl Allocation {
    /// What the kernel below `root` offers.
    ///
    /// # Errors
    /// Why nothing can be divided.
    pub fn read(root: &Path) -> Result<Allocation, String> {
        let schemata = text::text(root, format!("{MOUNT}/schemata")).map_err(|_| {
            "the kernel offers no resctrl; where the CPU can divide its cache, mount -t resctrl \
             resctrl /sys/fs/resctrl"
                .to_string()
        })?;
        let info = |name: &str| {
            let read = text::text(root, format!("{MOUNT}/info/{name}"));
            read.map_err(|error| error.to_string())
        };
        let number = |name: &str, radix| {
            let text = info(name)?;
            let parsed = u64::from_str_radix(text.trim(), radix);
            parsed.map_err(|_| format!("/{MOUNT}/info/{name} holds no number: '{}'", text.trim()))
        };
        let domains = |name: &str| -> Option<Vec<(u32, String)>> {
            let line = schemata
                .lines()
                .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'))?;
            let each = line.split(';').map(|domain| {
                let (id, value) = domain.split_once('=')?;
                Some((id.trim().parse().ok()?, value.trim().to_string()))
            });
            each.collect()
        };
        let l3 = domains("L3").ok_or("the last-level cache cannot be divided on this machine")?;
        let mask = number("L3/cbm_mask", 16)?;
        Ok(Allocation {
            ways: mask.count_ones() as usize,
            least_ways: number("L3/min_cbm_bits", 10)?.max(1) as usize,
            shareable: number("L3/shareable_bits", 16).unwrap_or(0),
            groups: number("L3/num_closids", 10)?.saturating_sub(1) as usize,
            bandwidth: match domains("MB") {
                None => Err("memory bandwidth cannot be limited on this machine".into()),
                Some(limits) if limits.iter().any(|(_, most)| most != "100") => {
                    Err("memory bandwidth is limited in units other than percent here".into())
                }
                Some(_) => Ok(Bandwidth {
                    least: number("MB/min_bandwidth", 10)? as u32,
                    step: number("MB/bandwidth_gran", 10)? as u32,
                }),
            },
            caches: l3.iter().map(|(id, _)| (*id, cpus_of(root, *id))).collect(),
        })
    }

    /// Masks of so many ways each, side by side; those that the hardware uses too go to
    /// the last.
    pub fn masks(&self, ways: &[usize]) -> Vec<u64> {
        let mut at = 0;
        let low_shared = self.shareable & 1 == 1;
        let mask = |ways: &usize| {
            let from = match low_shared {
                false => at,
                true => self.ways - at - ways,
            };
            at += ways;
            ((1u64 << ways) - 1) << from
        };
        ways.iter().map(mask).collect()
    }
}

/// CPUs of the last-level cache with this id.
fn cpus_of(root: &Path, cache: u32) -> Vec<usize> {
    let cpus = "sys/devices/system/cpu";
    for name in text::names(root, cpus).unwrap_or_default() {
        let of = |file: &str| text::text(root, format!("{cpus}/{name}/cache/index3/{file}")).ok();
        if of("id").is_some_and(|id| id.trim() == cache.to_string()) {
            let list = of("shared_cpu_list").and_then(|list| parse_list(list.trim()).ok());
            return list.unwrap_or_default();
        }
    }
    Vec::new()
}

/// A group of processes that a share is for.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes the group `jostle-NAME`, or takes the one of that name, with its `shares`.
    ///
    /// # Errors
    /// What the kernel refuses, in its words where it has some.
    pub fn make(root: &Path, name: &str, shares: &[Share]) -> Result<Group, String> {
        let plain = |c: char| match c.is_ascii_alphanumeric() || "-_.".contains(c) {
            true => c,
            false => '-',
        };
        let name: String = name.chars().map(plain).collect();
        let path = root.join(MOUNT).join(format!("{PREFIX}{name}"));
        let wrong = |error: io::Error| format!("{}: {error}", path.display());
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(wrong(error)),
            _ => {}
        }
        let group = Group { path: path.clone() };
        let lines = |name: &str, of: &dyn Fn(&Share) -> Option<String>| {
            let each: Vec<String> = shares
                .iter()
                .filter_map(|share| Some(format!("{}={}", share.cache, of(share)?)))
                .collect();
            (!each.is_empty()).then(|| format!("{name}:{}\n", each.join(";")))
        };
        let ways = lines("L3", &|share| Some(format!("{:x}", share.ways?)));
        let bandwidth = lines("MB", &|share| Some(share.bandwidth?.to_string()));
        for line in ways.into_iter().chain(bandwidth) {
            fs::write(path.join("schemata"), &line).map_err(|error| {
                let status = text::text(root, format!("{MOUNT}/info/last_cmd_status"));
                let said = status.map_or_else(|_| error.to_string(), |said| said.trim().into());
                format!("{}: {} was refused: {said}", path.display(), line.trim())
            })?;
        }
        Ok(group)
    }

    /// Puts a thread into the group; what it starts later is in it too. One that has ended
    /// meanwhile is no error.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn take(&self, thread: i32) -> Result<(), String> {
        let tasks = self.path.join("tasks");
        match fs::OpenOptions::new()
            .append(true)
            .open(&tasks)
            .and_then(|mut file| io::Write::write_all(&mut file, format!("{thread}\n").as_bytes()))
        {
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => Ok(()),
            Err(error) => Err(format!("{}: thread {thread}: {error}", tasks.display())),
            Ok(()) => Ok(()),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it; its threads share everything again.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_dir(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::tree;

    fn machine() -> tempfile::TempDir {
        tree(&[
            (
                "sys/fs/resctrl/schemata",
                "    L3:0=fffff;1=fffff\n    MB:0=100;1=100\n",
            ),
            ("sys/fs/resctrl/info/L3/cbm_mask", "fffff\n"),
            ("sys/fs/resctrl/info/L3/min_cbm_bits", "1\n"),
            ("sys/fs/resctrl/info/L3/shareable_bits", "c0000\n"),
            ("sys/fs/resctrl/info/L3/num_closids", "16\n"),
            ("sys/fs/resctrl/info/MB/min_bandwidth", "10\n"),
            ("sys/fs/resctrl/info/MB/bandwidth_gran", "10\n"),
            ("sys/devices/system/cpu/cpu0/cache/index3/id", "0\n"),
            (
                "sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list",
                "0-1\n",
            ),
            ("sys/devices/system/cpu/cpu2/cache/index3/id", "1\n"),
            (
                "sys/devices/system/cpu/cpu2/cache/index3/shared_cpu_list",
                "2-3\n",
            ),
        ])
    }

    #[test]
    fn what_can_be_divided_is_read() {
        let root = machine();
        let found = Allocation::read(root.path()).unwrap();
        assert_eq!((found.ways, found.least_ways, found.groups), (20, 1, 15));
        assert_eq!(
            found.caches,
            BTreeMap::from([(0, vec![0, 1]), (1, vec![2, 3])])
        );
        let limits = found.bandwidth.clone().unwrap();
        assert_eq!(
            [0.0, 41.0, 100.0].map(|x| limits.at_least(x)),
            [10, 50, 100]
        );
        assert_eq!(found.masks(&[12, 8]), [0xfff, 0xff000]);
        let other = Allocation {
            shareable: 3,
            ..found
        };
        assert_eq!(other.masks(&[12, 8]), [0xfff00, 0xff]);
        let amd = tree(&[
            ("sys/fs/resctrl/schemata", "MB:0=2048\nL3:0=ffff\n"),
            ("sys/fs/resctrl/info/L3/cbm_mask", "ffff\n"),
            ("sys/fs/resctrl/info/L3/min_cbm_bits", "1\n"),
            ("sys/fs/resctrl/info/L3/num_closids", "16\n"),
        ]);
        let found = Allocation::read(amd.path()).unwrap();
        assert!(found.bandwidth.unwrap_err().contains("percent"));
    }

    #[test]
    fn what_is_missing_is_said() {
        let none = tree(&[("proc/x", "")]);
        let said = Allocation::read(none.path()).unwrap_err();
        assert!(said.contains("mount -t resctrl"), "{said}");
        let only = tree(&[("sys/fs/resctrl/schemata", "MB:0=100\n")]);
        let said = Allocation::read(only.path()).unwrap_err();
        assert!(said.contains("cannot be divided"), "{said}");
        let broken = machine();
        fs::write(broken.path().join("sys/fs/resctrl/info/L3/cbm_mask"), "zz").unwrap();
        let said = Allocation::read(broken.path()).unwrap_err();
        assert!(said.contains("cbm_mask holds no number"), "{said}");
    }

    #[test]
    fn a_group_is_made_filled_and_removed() {
        let root = machine();
        let share = |cache, ways, bandwidth| Share {
            cache,
            ways,
            bandwidth,
        };
        let shares = [share(0, Some(0xf), Some(40)), share(1, Some(0xff), None)];
        let group = Group::make(root.path(), "a/../b", &shares).unwrap();
        let path = root.path().join("sys/fs/resctrl/jostle-a-..-b");
        assert_eq!(group.path(), path);
        // A plain directory keeps only the last line; the kernel takes each.
        assert_eq!(
            fs::read_to_string(path.join("schemata")).unwrap(),
            "MB:0=40\n"
        );
        fs::write(path.join("tasks"), "").unwrap();
        group.take(17).unwrap();
        group.take(18).unwrap();
        assert_eq!(fs::read_to_string(path.join("tasks")).unwrap(), "17\n18\n");
        fs::remove_file(path.join("tasks")).unwrap();
        fs::remove_file(path.join("schemata")).unwrap();
        group.remove().unwrap();
        assert!(!path.exists());
        let unwritable = tree(&[("sys/fs/resctrl", "")]);
        assert!(Group::make(unwritable.path(), "a", &shares).is_err());
    }
}
