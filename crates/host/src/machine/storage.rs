//! The block device under a directory.

use super::reading;
use crate::os::here;
use crate::os::mounts;
use crate::os::sysfs;
use crate::os::text;
use jostle_profile::reading::Reading;
use nix::sys::stat::major;
use nix::sys::stat::minor;
use nix::sys::statvfs::FsFlags;
use nix::sys::statvfs::statvfs;
use procfs_core::process::MountInfo;
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A disk, and the file system on it that holds the directory asked about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockDevice {
    /// The whole disk's name: `vda` also for a directory on `vda1`.
    pub name: String,
    /// Device number of the file system, `254:1`.
    pub device_number: String,
    /// True for spinning disks. Virtual disks often say so whatever they are.
    pub rotational: Reading<bool>,
    /// Direct I/O must be aligned to this.
    pub logical_block_bytes: Reading<u32>,
    /// Size of the whole disk.
    pub size_bytes: Reading<u64>,
    /// `ext4`, `xfs`, …
    pub filesystem: String,
    pub mount_point: String,
    /// Free for users without privileges.
    pub free_bytes: u64,
    /// Size of the file system.
    pub filesystem_bytes: u64,
}

/// Least of a file system that is left to everybody else, bytes.
const LEAST_LEFT: u64 = 1 << 30;
/// The same as a share of the file system: one in so many.
const LEFT_ONE_IN: u64 = 20;

impl BlockDevice {
    /// Whether `files` scratch files of `bytes` each fit at the same time and leave
    /// 5 % of the file system, and 1 GiB, to everybody else.
    ///
    /// # Errors
    /// What they need and what is free, in words.
    pub fn has_room(&self, files: u64, bytes: u64) -> Result<(), String> {
        let left = (self.filesystem_bytes / LEFT_ONE_IN).max(LEAST_LEFT);
        let wanted = files.saturating_mul(bytes);
        if self.free_bytes >= wanted.saturating_add(left) {
            return Ok(());
        }
        let mib = |bytes: u64| bytes >> 20;
        Err(format!(
            "{} has {} MiB free; {files} scratch files of {} MiB would leave less than {} MiB of \
             it to others; give less with --scratch-size",
            self.mount_point,
            mib(self.free_bytes),
            mib(bytes),
            mib(left)
        ))
    }
}

/// The block device under the directory `path`, or why nothing can be written
/// to a disk there: no such directory, read-only, in memory, on a network, or
/// laid over other file systems.
pub fn block_device_of(path: &Path) -> Reading<BlockDevice> {
    find(path).into()
}

fn find(path: &Path) -> Result<BlockDevice, String> {
    let shown = path.display();
    let metadata = fs::metadata(path).map_err(|error| format!("{shown}: {error}"))?;
    if !metadata.is_dir() {
        return Err(format!("{shown} is not a directory"));
    }
    let full = fs::canonicalize(path).map_err(|error| format!("{shown}: {error}"))?;
    let root = here();
    let mounts = mounts::read(root).map_err(|error| error.to_string())?;
    let mount = mount_of(&mounts, &full)
        .ok_or_else(|| format!("{shown}: /proc/self/mountinfo shows no mount that holds it"))?;
    let number = match major(metadata.dev()) {
        0 => device_of_source(mount).ok_or_else(|| no_device(path, mount))?,
        _ => metadata.dev(),
    };
    let space = statvfs(path).map_err(|error| format!("{shown}: {error}"))?;
    if mounts::is_read_only(mount) || space.flags().contains(FsFlags::ST_RDONLY) {
        return Err(format!(
            "{shown} is on {}, which is mounted read-only: name a directory that can be written",
            mount.mount_point.display()
        ));
    }
    let disk = disk(root, &format!("{}:{}", major(number), minor(number)))?;
    Ok(BlockDevice {
        filesystem: mount.fs_type.clone(),
        mount_point: mount.mount_point.to_string_lossy().into_owned(),
        free_bytes: space
            .blocks_available()
            .saturating_mul(space.fragment_size()),
        filesystem_bytes: space.blocks().saturating_mul(space.fragment_size()),
        ..disk
    })
}

/// The mount that holds `path`: of the longest mount point above it, the one
/// mounted last.
fn mount_of<'a>(mounts: &'a [MountInfo], path: &Path) -> Option<&'a MountInfo> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.as_os_str().len())
}

/// File systems such as btrfs number their files by a device of their own and
/// only name the disk as the source of the mount.
fn device_of_source(mount: &MountInfo) -> Option<u64> {
    let source = mount.mount_source.as_ref()?;
    if !source.starts_with("/dev/") {
        return None;
    }
    let number = fs::metadata(source).ok()?.rdev();
    (major(number) != 0).then_some(number)
}

fn no_device(path: &Path, mount: &MountInfo) -> String {
    let why = match mount.fs_type.as_str() {
        "tmpfs" | "ramfs" | "devtmpfs" => "which lies in memory",
        "overlay" => "which is laid over other file systems, as in a container",
        "nfs" | "nfs4" | "cifs" | "ceph" | "9p" | "virtiofs" => "which is served by another system",
        _ => "which has no block device of its own",
    };
    format!(
        "{} is on {} ({}), {why}: name a directory on a local disk",
        path.display(),
        mount.mount_point.display(),
        mount.fs_type
    )
}

/// What sysfs says of the disk that device `number` is or is a part of; the
/// file system's fields are left empty.
fn disk(root: &Path, number: &str) -> Result<BlockDevice, String> {
    let link = format!("sys/dev/block/{number}");
    let mut dir =
        fs::canonicalize(root.join(&link)).map_err(|error| format!("/{link}: {error}"))?;
    if dir.join("partition").exists() {
        dir.pop();
    }
    let name = dir
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| format!("/{link} leads to no device"))?
        .to_string();
    Ok(BlockDevice {
        device_number: number.to_string(),
        rotational: reading(sysfs::flag(&dir, "queue/rotational")),
        logical_block_bytes: reading(text::number(&dir, "queue/logical_block_size")),
        // sysfs counts in units of 512 bytes whatever the disk's block size.
        size_bytes: reading(text::number::<u64>(&dir, "size"))
            .map(|sectors| sectors.saturating_mul(512)),
        name,
        filesystem: String::new(),
        mount_point: String::new(),
        free_bytes: 0,
        filesystem_bytes: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fake::Tree;
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_partition_leads_to_its_disk() {
        let tree = Tree::new();
        tree.write("sys/devices/x/block/sda/queue/rotational", "1\n");
        tree.write("sys/devices/x/block/sda/queue/logical_block_size", "4096\n");
        tree.write("sys/devices/x/block/sda/size", "2048\n");
        tree.write("sys/devices/x/block/sda/sda1/partition", "1\n");
        tree.write("sys/dev/block/empty", "");
        let link = tree.path().join("sys/dev/block/8:1");
        symlink("../../devices/x/block/sda/sda1", link).unwrap();
        let disk = disk(tree.path(), "8:1").unwrap();
        assert_eq!(disk.name, "sda");
        assert_eq!(disk.rotational, Reading::Value(true));
        assert_eq!(disk.logical_block_bytes, Reading::Value(4096));
        assert_eq!(disk.size_bytes, Reading::Value(1 << 20));
        assert!(super::disk(tree.path(), "8:9").unwrap_err().contains("8:9"));
    }

    #[test]
    fn scratch_files_leave_a_part_of_the_disk() {
        const GIB: u64 = 1 << 30;
        let room = |free, whole, files, bytes| {
            let device = BlockDevice {
                name: "sda".into(),
                device_number: "8:1".into(),
                rotational: Reading::Value(false),
                logical_block_bytes: Reading::Value(512),
                size_bytes: Reading::Value(whole),
                filesystem: "ext4".into(),
                mount_point: "/data".into(),
                free_bytes: free,
                filesystem_bytes: whole,
            };
            device.has_room(files, bytes)
        };
        assert_eq!(room(2 * GIB, 8 * GIB, 4, GIB / 4), Ok(()));
        let refused = room(2 * GIB, 8 * GIB, 5, GIB / 4).unwrap_err();
        for word in [
            "/data has 2048 MiB",
            "5 scratch files of 256 MiB",
            "--scratch-size",
        ] {
            assert!(refused.contains(word), "{refused}");
        }
        // 5 % of a large one.
        assert_eq!(room(6 * GIB, 100 * GIB, 1, GIB), Ok(()));
        assert!(room(6 * GIB, 100 * GIB, 2, GIB).is_err());
        assert!(room(GIB, GIB, u64::MAX, GIB).is_err());
    }

    #[test]
    fn the_nearest_and_latest_mount_holds_the_path() {
        let mounts = mounts::parse(
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
             2 1 0:5 / /data rw - tmpfs tmpfs rw\n\
             3 1 8:2 / /data rw - xfs /dev/sda2 rw\n\
             4 1 0:6 / /dat rw - tmpfs tmpfs rw\n",
        );
        let filesystem = |path: &str| &mount_of(&mounts, Path::new(path)).unwrap().fs_type;
        assert_eq!(filesystem("/data/scratch"), "xfs");
        assert_eq!(filesystem("/database"), "ext4");
    }

    #[test]
    fn the_working_directory_is_on_a_disk_or_says_why_not() {
        match block_device_of(Path::new(".")) {
            Reading::Value(disk) => {
                assert!(!disk.name.is_empty() && !disk.filesystem.is_empty());
            }
            Reading::Unavailable { unavailable } => assert!(!unavailable.is_empty()),
        }
    }

    #[test]
    fn what_is_not_on_a_disk_is_said() {
        let absent = block_device_of(Path::new("/no/such/directory"));
        assert!(absent.reason().unwrap().contains("/no/such/directory"));
        let proc = block_device_of(Path::new("/proc"));
        assert!(
            proc.reason().unwrap().contains("local disk"),
            "{:?}",
            proc.reason()
        );
    }
}
