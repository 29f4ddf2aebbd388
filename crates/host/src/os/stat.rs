//! What the kernel counts per CPU: `/proc/stat` and `/proc/interrupts`.

use super::ParseError;
use super::text;
use nix::unistd::SysconfVar;
use nix::unistd::sysconf;
use std::path::Path;

/// Bytes of one line of a CPU in `/proc/stat` at most.
const LINE: usize = 256;

/// Ticks of some CPUs since boot, added up; see [`ticks_per_second`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ticks {
    pub stolen: f64,
    pub busy: f64,
}

/// Ticks in a second, as `/proc` counts time.
pub fn ticks_per_second() -> f64 {
    let ticks = sysconf(SysconfVar::CLK_TCK);
    ticks.ok().flatten().expect("Linux tells its clock ticks") as f64
}

/// How much of `/proc/stat` holds the lines of `cpus`.
pub fn bytes_of(cpus: &[usize]) -> usize {
    cpus.iter().max().map_or(0, |cpu| cpu + 2) * LINE
}

/// Ticks of `cpus`, which must all be in `text`, the beginning of `/proc/stat`.
pub fn ticks(text: &str, cpus: &[usize]) -> Result<Ticks, ParseError> {
    let mut sum = Ticks::default();
    let mut found = 0;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("cpu") else {
            break;
        };
        let mut words = rest.split_ascii_whitespace();
        if rest.starts_with(' ') {
            continue;
        }
        let cpu: usize = words
            .next()
            .and_then(|word| word.parse().ok())
            .ok_or_else(|| ParseError::text(line, "names no CPU"))?;
        if !cpus.contains(&cpu) {
            continue;
        }
        // user nice system idle iowait irq softirq steal
        let mut ticks = [0.0; 8];
        for tick in &mut ticks {
            *tick = text::count(words.next().unwrap_or_default())?;
        }
        sum.stolen += ticks[7];
        sum.busy += ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
        found += 1;
    }
    match found == cpus.len() && found > 0 {
        true => Ok(sum),
        false => Err(ParseError::Cpus {
            found,
            wanted: cpus.len(),
        }),
    }
}

/// Interrupts of devices that each CPU has taken since boot: `/proc/interrupts`
/// less what every CPU does to itself (timer, rescheduling, …), as pairs of CPU
/// and count. Empty when the kernel does not tell.
pub fn interrupts(root: &Path) -> Vec<(usize, u64)> {
    let Ok(text) = text::text(root, "proc/interrupts") else {
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
            *count = count.saturating_add(word.parse().unwrap_or(0));
        }
    }
    cpus.into_iter().zip(counts).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake::tree;
    use super::*;

    #[test]
    fn ticks_of_the_chosen_cpus() {
        let text = "cpu  9 9 9 9 9 9 9 99 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n\
                    cpu1 1 2 3 4 5 6 7 30 0 0\nintr 5\n";
        let sum = |stolen, busy| Ok(Ticks { stolen, busy });
        assert_eq!(ticks(text, &[0]), sum(8.0, 19.0));
        assert_eq!(ticks(text, &[0, 1]), sum(38.0, 38.0));
        let problem = ticks(text, &[0, 7]).unwrap_err().to_string();
        assert!(problem.contains("1 of 2"), "{problem}");
        assert!(ticks("cpu0 1 x 3 4 5 6 7 8\n", &[0]).is_err());
        assert!(ticks("", &[0]).is_err());
    }

    #[test]
    fn devices_count_and_timers_do_not() {
        let root = tree(&[(
            "proc/interrupts",
            "           CPU0       CPU2\n 28:          1         20 PCI virtio-req\n \
             30:          4          0 PCI virtio-net\nLOC:     999999     888888 timer\n",
        )]);
        assert_eq!(interrupts(root.path()), [(0, 5), (2, 20)]);
        assert_eq!(interrupts(tree(&[]).path()), []);
        let most = u64::MAX;
        let text = format!(" CPU0\n 1: {most}\n 2: {most}\n");
        let root = tree(&[("proc/interrupts", &text)]);
        assert_eq!(interrupts(root.path()), [(0, most)]);
    }
}
