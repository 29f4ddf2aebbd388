//! CPU masks of processes.

use nix::sched::CpuSet;
use nix::sched::sched_getaffinity;
use nix::sched::sched_setaffinity;
use nix::unistd::Pid;
use std::io;

/// Logical CPUs that thread or process `pid` may run on (0: the caller),
/// ascending.
pub fn affinity(pid: i32) -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(pid))?;
    Ok((0..CpuSet::count())
        .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
        .collect())
}

/// Restricts thread or process `pid` (0: the caller) to `cpus`.
pub fn set_affinity(pid: i32, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu)?;
    }
    sched_setaffinity(Pid::from_raw(pid), &set)?;
    Ok(())
}

/// Parses a CPU list as the kernel writes it (`0-2,5`), ascending, no doubles.
///
/// # Errors
/// A message naming the part that is not a CPU number or range.
pub fn parse_list(text: &str) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let number = |word: &str| {
            word.trim()
                .parse::<usize>()
                .map_err(|_| format!("'{part}' is not a CPU number or a range like 0-3"))
        };
        match part.split_once('-') {
            None => cpus.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last || last - first > 65_536 {
                    return Err(format!("'{part}' is not an ascending CPU range"));
                }
                cpus.extend(first..=last);
            }
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Writes a CPU list as the kernel does: `0-2,5`.
pub fn format_list(cpus: &[usize]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = cpus;
    while let Some(&first) = rest.first() {
        let run = rest
            .iter()
            .enumerate()
            .take_while(|(offset, cpu)| **cpu == first + offset)
            .count();
        parts.push(match run {
            1 => first.to_string(),
            _ => format!("{first}-{}", first + run - 1),
        });
        rest = &rest[run..];
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_round_trip() {
        for text in ["0", "0-3", "0-2,5", "1,3,5-6"] {
            assert_eq!(format_list(&parse_list(text).unwrap()), text);
        }
        assert_eq!(parse_list("3,1-2,2").unwrap(), [1, 2, 3]);
        assert_eq!(parse_list("").unwrap(), [] as [usize; 0]);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for text in ["x", "1-", "3-1", "-1", "0-99999999"] {
            assert!(parse_list(text).is_err(), "{text}");
        }
    }
}
