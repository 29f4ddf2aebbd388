//! What victim and candidate both use, from what was observed.

use jostle_host::machine::Machine;
use jostle_profile::blame::Shared;
use jostle_profile::blame::SharedWhat;
use jostle_profile::blame::UsedByOne;
use jostle_profile::cpulist::format_list;

/// Percent of one CPU from which on both count as using it.
const ON_CPU: f64 = 2.0;
/// Bytes per second from which on a candidate, and the victim, use a disk.
const DISK: f64 = 64.0 * 1024.0;
const VICTIM_DISK: f64 = 4.0 * 1024.0;

/// The likeliest cause first. `disks` are those that did something, with their bytes
/// per second.
pub(super) fn between(
    machine: &Machine,
    victim: &UsedByOne,
    candidate: &UsedByOne,
    disks: &[(String, f64)],
) -> Vec<Shared> {
    let mut found = Vec::new();
    let mut add = |what: SharedWhat, evidence: String| found.push(Shared { what, evidence });
    let (own, other) = (on(victim), on(candidate));
    let percent = |side: &[(usize, f64)], wanted: usize| {
        let of = side.iter().find(|(cpu, _)| *cpu == wanted);
        of.map_or(0.0, |(_, percent)| *percent)
    };
    let both: Vec<usize> = own
        .iter()
        .map(|(cpu, _)| *cpu)
        .filter(|cpu| percent(&other, *cpu) >= ON_CPU)
        .collect();
    if !both.is_empty() {
        let sum = |side: &[(usize, f64)]| both.iter().map(|cpu| percent(side, *cpu)).sum::<f64>();
        add(
            SharedWhat::Cpu,
            format!(
                "CPU {}: it used {:.0} % of one CPU there, the victim {:.0} %",
                format_list(&both),
                sum(&other),
                sum(&own)
            ),
        );
    }
    let moved = |used: &UsedByOne| {
        let parts = [
            &used.disk_read_bytes_per_second,
            &used.disk_written_bytes_per_second,
        ];
        parts
            .iter()
            .filter_map(|it| it.value().copied())
            .sum::<f64>()
    };
    let (of_victim, of_candidate) = (moved(victim), moved(candidate));
    if of_victim >= VICTIM_DISK && of_candidate >= DISK {
        let busy: Vec<&str> = disks
            .iter()
            .filter(|(_, bytes)| *bytes >= DISK)
            .map(|(name, _)| name.as_str())
            .collect();
        let where_ = match busy[..] {
            [] => "a disk".to_string(),
            [only] => format!("the disk {only}"),
            _ => format!("one of the disks {}", busy.join(", ")),
        };
        add(
            SharedWhat::Disk,
            format!(
                "{where_}: it moved {} MB/s, the victim {} MB/s",
                megabytes(of_candidate),
                megabytes(of_victim)
            ),
        );
    }
    let sibling = |cpu: usize| {
        let siblings = machine.core_siblings(cpu);
        let busy = |it: &&(usize, f64)| it.0 != cpu && siblings.contains(&it.0);
        other.iter().find(busy).map(|it| it.0)
    };
    if let Some((cpu, with)) = own.iter().find_map(|(cpu, _)| Some((*cpu, sibling(*cpu)?))) {
        add(
            SharedWhat::Core,
            format!("CPUs {cpu} and {with} are threads of one core"),
        );
    }
    if victim.talks_over_network && candidate.talks_over_network {
        add(
            SharedWhat::Network,
            "both have connections that leave the machine".into(),
        );
    }
    let near = |group: &dyn Fn(usize) -> Vec<usize>| {
        own.iter().any(|(cpu, _)| {
            let group = group(*cpu);
            other
                .iter()
                .any(|(with, _)| with != cpu && group.contains(with))
        })
    };
    if near(&|cpu| machine.llc_group(cpu)) {
        add(
            SharedWhat::Llc,
            "their CPUs share a last-level cache".into(),
        );
    }
    let node = |cpu: usize| {
        let node = machine.node_of(cpu);
        node.map_or_else(Vec::new, |node| machine.node_cpus(node).to_vec())
    };
    if near(&node) {
        add(
            SharedWhat::Memory,
            "their CPUs use the memory of the same NUMA node".into(),
        );
    }
    found
}

/// CPUs that are used noticeably, with percent of one CPU.
fn on(used: &UsedByOne) -> Vec<(usize, f64)> {
    let cpus = used.cpus.iter();
    let percent = cpus.map(|it| (it.cpu, it.percent * used.cpu_percent / 100.0));
    percent.filter(|(_, percent)| *percent >= ON_CPU).collect()
}

fn megabytes(bytes: f64) -> String {
    match bytes / 1e6 {
        many if many >= 10.0 => format!("{many:.0}"),
        few => format!("{few:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_host::machine::fake;
    use jostle_profile::blame::OnCpu;
    use jostle_profile::reading::Reading;

    fn used(cpu: usize, percent: f64, bytes: f64) -> UsedByOne {
        UsedByOne {
            cpu_percent: percent,
            cpus: vec![OnCpu {
                cpu,
                percent: 100.0,
            }],
            disk_read_bytes_per_second: Reading::Value(bytes),
            disk_written_bytes_per_second: Reading::unavailable("not allowed"),
            resident_bytes: Reading::Value(0.0),
            talks_over_network: false,
        }
    }

    #[test]
    fn what_both_use_is_named_with_the_numbers() {
        let machine = fake::cores(4, 2);
        let first = |a: &UsedByOne, b: &UsedByOne| {
            let found = between(&machine, a, b, &[("vda".into(), 1e8)]);
            found.first().cloned()
        };
        let cpu = first(&used(1, 47.0, 0.0), &used(1, 52.0, 0.0)).unwrap();
        assert_eq!(cpu.what, SharedWhat::Cpu);
        assert!(cpu.evidence.contains("CPU 1: it used 52 %"), "{cpu:?}");
        let disk = first(&used(0, 3.0, 2e4), &used(3, 9.0, 5e7)).unwrap();
        assert_eq!(disk.what, SharedWhat::Disk);
        assert!(
            disk.evidence.contains("the disk vda: it moved 50 MB/s"),
            "{disk:?}"
        );
        // Hardly there, and apart.
        let apart = first(&used(0, 90.0, 0.0), &used(0, 1.0, 0.0));
        assert!(apart.is_none_or(|it| it.what != SharedWhat::Cpu));
    }
}
