//! To which CPUs devices send their interrupts.

use super::cpulist;
use super::text;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Interrupts with less than this share of a disk's are those of its settings.
const LEAST_SHARE: f64 = 0.01;

/// The CPUs that serve the interrupts of all disks, ascending; `None` where none
/// can be read, or where all `online` CPUs serve them, as with a queue for each.
pub fn of_disks(root: &Path, online: &[usize]) -> Option<Vec<usize>> {
    let served = text::text(root, "proc/interrupts").ok()?;
    let count = |number: &str| count(&served, number);
    let mut cpus = BTreeSet::new();
    for disk in fs::read_dir(root.join("sys/block")).ok()?.flatten() {
        let Ok(device) = fs::canonicalize(disk.path()) else {
            continue;
        };
        let numbers = numbers(&device);
        let all: f64 = numbers.iter().map(|number| count(number)).sum();
        for number in &numbers {
            let path = format!("proc/irq/{number}/effective_affinity_list");
            if count(number) > all * LEAST_SHARE
                && let Ok(list) = cpulist::read(root, path)
            {
                cpus.extend(list);
            }
        }
    }
    let everywhere = online.iter().all(|cpu| cpus.contains(cpu));
    (!cpus.is_empty() && !everywhere).then(|| cpus.into_iter().collect())
}

/// The interrupts of the nearest device above `path` that has any.
fn numbers(path: &Path) -> Vec<String> {
    let listed = path.ancestors().find_map(|above| {
        let entries = fs::read_dir(above.join("msi_irqs")).ok()?;
        let names = entries.flatten().map(|entry| entry.file_name());
        Some(names.map(|name| name.to_string_lossy().into()).collect())
    });
    listed.unwrap_or_default()
}

/// How often the interrupt `number` was served, by `/proc/interrupts`.
fn count(served: &str, number: &str) -> f64 {
    let line = served.lines().find_map(|line| {
        let (first, rest) = line.split_once(':')?;
        (first.trim() == number).then_some(rest)
    });
    let counts = line.unwrap_or_default().split_ascii_whitespace();
    counts.map_while(|word| text::count(word).ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_cpu_of_the_queue_serves_the_disk_and_that_of_its_settings_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let device = "sys/devices/pci0/0000:00:02.0";
        write(root, &format!("{device}/msi_irqs/35"), "msix");
        write(root, &format!("{device}/msi_irqs/36"), "msix");
        write(root, &format!("{device}/virtio1/block/vda/size"), "1");
        fs::create_dir_all(root.join("sys/block")).unwrap();
        let target = "../devices/pci0/0000:00:02.0/virtio1/block/vda";
        symlink(target, root.join("sys/block/vda")).unwrap();
        let table =
            "     CPU0  CPU1\n 35:  0  1  PCI-MSIX\n 36:  0  5000  PCI-MSIX virtio1-req.0\n";
        write(root, "proc/interrupts", table);
        write(root, "proc/irq/35/effective_affinity_list", "0\n");
        write(root, "proc/irq/36/effective_affinity_list", "1\n");
        assert_eq!(of_disks(root, &[0, 1]), Some(vec![1]));
        assert_eq!(of_disks(root, &[1]), None, "all there are serve it");

        let table = "     CPU0  CPU1\n 35:  4000 0  q0\n 36:  0  5000  q1\n";
        write(root, "proc/interrupts", table);
        assert_eq!(of_disks(root, &[0, 1]), None, "a queue for each");
    }
}
