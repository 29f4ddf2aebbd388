//! What each disk has done since boot, and which disks lie below which.

use super::Error;
use super::text;
use std::collections::BTreeMap;
use std::path::Path;

/// The kernel counts sectors of this many bytes whatever the disk's own are.
const SECTOR: f64 = 512.0;

/// Everything a disk has done since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskCounts {
    pub reads: f64,
    pub read_bytes: f64,
    pub writes: f64,
    pub written_bytes: f64,
    /// Since Linux 5.5.
    pub flushes: Option<f64>,
    /// Seconds in which at least one request was in flight.
    pub busy_seconds: f64,
    /// Sum over all requests of the seconds each was in flight.
    pub waited_seconds: f64,
}

/// Whole disks by name, `vda` and `dm-0` but no partition.
///
/// # Errors
/// Why `/proc/diskstats` cannot be read.
pub fn counts(root: &Path) -> Result<BTreeMap<String, DiskCounts>, Error> {
    let text = text::text(root, "proc/diskstats")?;
    Ok(parse(&text, |name| {
        text::exists(root, &format!("sys/block/{}", name.replace('/', "!")))
    }))
}

/// Bytes read and written by all disks that lie below no other: what a logical volume
/// does is counted once, and a file that is mounted as a disk is not counted.
///
/// # Errors
/// Why `/proc/diskstats` cannot be read.
pub fn total_bytes(root: &Path) -> Result<[f64; 2], Error> {
    let mut sum = [0.0; 2];
    for (name, disk) in counts(root)? {
        let of_memory = ["loop", "ram", "zram"]
            .iter()
            .any(|it| name.starts_with(it));
        if !of_memory && below(root, &name).is_empty() {
            sum[0] += disk.read_bytes;
            sum[1] += disk.written_bytes;
        }
    }
    Ok(sum)
}

/// Lines of disks that `whole` accepts; a line that is not understood is left
/// out.
fn parse(text: &str, whole: impl Fn(&str) -> bool) -> BTreeMap<String, DiskCounts> {
    let disk = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(2);
        let name = words.next()?;
        let numbers: Vec<f64> = words.map_while(|word| text::count(word).ok()).collect();
        // Milliseconds in flight, as two sums, stand at 9 and 10; nothing but
        // counts of older kernels is shorter.
        if numbers.len() < 11 || !whole(name) {
            return None;
        }
        let counts = DiskCounts {
            reads: numbers[0],
            read_bytes: numbers[2] * SECTOR,
            writes: numbers[4],
            written_bytes: numbers[6] * SECTOR,
            flushes: numbers.get(15).copied(),
            busy_seconds: numbers[9] / 1e3,
            waited_seconds: numbers[10] / 1e3,
        };
        Some((name.to_string(), counts))
    };
    text.lines().filter_map(disk).collect()
}

/// The disk of the device number `8:0`, as the kernel lists devices.
pub fn name_of(root: &Path, number: &str) -> Option<String> {
    let text = text::text(root, "proc/diskstats").ok()?;
    let (major, minor) = number.split_once(':')?;
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let same = words.next() == Some(major) && words.next() == Some(minor);
        same.then(|| words.next().map(str::to_string))?
    })
}

/// Disks that `name` is put together from, one level down: those of a logical
/// volume, of an encrypted or a RAID device. None for a disk of its own.
pub fn below(root: &Path, name: &str) -> Vec<String> {
    let directory = format!("sys/block/{}/slaves", name.replace('/', "!"));
    let parts = text::names(root, directory).unwrap_or_default();
    parts.iter().map(|part| whole_of(root, part)).collect()
}

/// The disk of a partition; `name` itself where it is a disk.
fn whole_of(root: &Path, name: &str) -> String {
    if text::exists(root, &format!("sys/block/{name}")) {
        return name.to_string();
    }
    let disks = text::names(root, "sys/block").unwrap_or_default();
    let holds = |disk: &&String| text::exists(root, &format!("sys/block/{disk}/{name}"));
    disks.iter().find(holds).map_or(name, |disk| disk).into()
}

/// `name` and every disk below it.
pub fn stack(root: &Path, name: &str) -> Vec<String> {
    let mut found = vec![name.to_string()];
    let mut at = 0;
    while at < found.len() {
        for part in below(root, &found[at]) {
            if !found.contains(&part) {
                found.push(part);
            }
        }
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fake::tree;
    use super::*;

    const STATS: &str = "\
        254 0 vda 10 1 200 30 4 5 60 7 0 80 90 1 2 3 4 11 12\n\
        254 1 vda1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n\
        253 0 dm-0 5 0 16 1 2 0 8 1 0 2 3\n\
        8 0 sda 1 2 3\n";

    #[test]
    fn whole_disks_of_old_and_new_kernels() {
        let root = tree(&[
            ("proc/diskstats", STATS),
            ("sys/block/vda/vda1/partition", "1\n"),
            ("sys/block/dm-0/slaves/vda1/partition", "1\n"),
            ("sys/block/sda/size", "1\n"),
        ]);
        let disks = counts(root.path()).unwrap();
        assert_eq!(disks.keys().collect::<Vec<_>>(), ["dm-0", "vda"]);
        let vda = disks["vda"];
        assert_eq!((vda.reads, vda.writes), (10.0, 4.0));
        assert_eq!((vda.read_bytes, vda.written_bytes), (102_400.0, 30_720.0));
        assert_eq!((vda.busy_seconds, vda.waited_seconds), (0.08, 0.09));
        assert_eq!(vda.flushes, Some(11.0));
        assert_eq!(disks["dm-0"].flushes, None);
        // vda alone: dm-0 lies on it.
        assert_eq!(total_bytes(root.path()).unwrap(), [102_400.0, 30_720.0]);
        assert_eq!(name_of(root.path(), "253:0").as_deref(), Some("dm-0"));
        assert_eq!(name_of(root.path(), "9:9"), None);
        assert!(counts(tree(&[]).path()).is_err());
    }

    #[test]
    fn a_logical_volume_leads_to_its_disks() {
        let root = tree(&[
            ("sys/block/vda/vda1/partition", "1\n"),
            ("sys/block/vdb/size", "1\n"),
            ("sys/block/dm-0/slaves/vda1/partition", "1\n"),
            ("sys/block/dm-0/slaves/vdb/size", "1\n"),
            ("sys/block/dm-1/slaves/dm-0/size", "1\n"),
        ]);
        assert_eq!(stack(root.path(), "dm-1"), ["dm-1", "dm-0", "vda", "vdb"]);
        assert_eq!(stack(root.path(), "vdb"), ["vdb"]);
    }
}
