//! `/proc/self/mountinfo`.
//!
//! The crate `procfs-core` parses the lines; it leaves the kernel's escapes in the
//! paths and gives up on a file with one line it does not know, so both are
//! dealt with here.

use super::Error;
use super::text;
use procfs_core::process::MountInfo;
use std::path::Path;

/// Mounts in the order the kernel lists them; lines that are not mounts are
/// passed over.
pub fn read(root: &Path) -> Result<Vec<MountInfo>, Error> {
    Ok(parse(&text::text(root, "proc/self/mountinfo")?))
}

/// The mounts in the text of a `mountinfo`.
pub fn parse(mountinfo: &str) -> Vec<MountInfo> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let mut mount = MountInfo::from_line(line).ok()?;
        mount.root = unescape(&mount.root);
        mount.mount_point = unescape(&mount.mount_point.to_string_lossy()).into();
        mount.mount_source = mount.mount_source.as_deref().map(unescape);
        Some(mount)
    });
    mounts.collect()
}

/// Whether nothing can be written there.
pub fn is_read_only(mount: &MountInfo) -> bool {
    mount.mount_options.contains_key("ro") || mount.super_options.contains_key("ro")
}

/// Undoes the kernel's octal escapes of space, tab, newline and backslash.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_optional_fields() {
        let mounts = parse(
            "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
             31 23 0:28 /a /my\\040disk ro,noexec shared:9 master:1 - tmpfs tmpfs rw,mode=755\n\
             rubbish\n",
        );
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].majmin, "254:0");
        assert!(!is_read_only(&mounts[0]));
        assert_eq!(mounts[0].mount_source.as_deref(), Some("/dev/vda"));
        assert_eq!(mounts[1].mount_point, Path::new("/my disk"));
        assert_eq!(mounts[1].root, "/a");
        assert!(is_read_only(&mounts[1]));
        assert_eq!(mounts[1].fs_type, "tmpfs");
    }
}
