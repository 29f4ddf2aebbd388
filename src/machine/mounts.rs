//! `/proc/self/mountinfo`, one value a line.

/// One mounted file system.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mount {
    /// Device number, `254:0`; major 0 stands for no device of its own.
    pub device: String,
    /// The part of the file system that is mounted: `/` for all of it.
    pub root: String,
    pub point: String,
    pub read_only: bool,
    pub filesystem: String,
    pub source: String,
    pub super_options: String,
}

/// Mounts in the order the kernel lists them; lines that are not mounts are
/// passed over.
pub(crate) fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let device = before.next()?.to_string();
    let root = unescape(before.next()?);
    let point = unescape(before.next()?);
    let options = before.next()?;
    let mut after = after.split(' ');
    let filesystem = after.next()?.to_string();
    let source = unescape(after.next()?);
    let super_options = after.next().unwrap_or_default().to_string();
    let has_ro = |options: &str| options.split(',').any(|option| option == "ro");
    Some(Mount {
        device,
        root,
        point,
        read_only: has_ro(options) || has_ro(&super_options),
        filesystem,
        source,
        super_options,
    })
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
        assert_eq!(mounts[0].device, "254:0");
        assert!(!mounts[0].read_only);
        assert_eq!(mounts[0].source, "/dev/vda");
        assert_eq!(mounts[1].point, "/my disk");
        assert_eq!(mounts[1].root, "/a");
        assert!(mounts[1].read_only);
        assert_eq!(mounts[1].filesystem, "tmpfs");
    }
}
