//! Which CPUs devices interrupt.

use super::files;
use std::path::Path;

/// Interrupts of devices that each CPU has taken since boot: `/proc/interrupts`
/// less what every CPU does to itself (timer, rescheduling, …), as pairs of CPU
/// and count. Empty when the kernel does not tell.
pub(super) fn by_cpu(root: &Path) -> Vec<(usize, u64)> {
    let Ok(text) = files::text(root, "proc/interrupts") else {
        return Vec::new();
    };
    let mut lines = text.lines();
    let cpus: Vec<usize> = lines
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    let mut counts = vec![0u64; cpus.len()];
    for line in lines {
        let Some((source, rest)) = line.split_once(':') else {
            continue;
        };
        // Devices have numbers, a CPU's own interrupts have names.
        if source.trim().parse::<u32>().is_err() {
            continue;
        }
        for (count, word) in counts.iter_mut().zip(rest.split_ascii_whitespace()) {
            *count += word.parse::<u64>().unwrap_or(0);
        }
    }
    cpus.into_iter().zip(counts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fake::Tree;

    #[test]
    fn devices_count_and_timers_do_not() {
        let tree = Tree::new();
        tree.write(
            "proc/interrupts",
            "           CPU0       CPU2\n 28:          1         20 PCI virtio-req\n \
             30:          4          0 PCI virtio-net\nLOC:     999999     888888 timer\n",
        );
        assert_eq!(by_cpu(tree.path()), [(0, 5), (2, 20)]);
        assert_eq!(by_cpu(Tree::new().path()), []);
    }
}
