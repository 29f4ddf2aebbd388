//! What the kernel says about its scheduler.

use super::text;
use jostle_profile::Sourced;
use jostle_profile::reading::Reading;
use std::path::Path;

/// Files that hold the shortest slice in nanoseconds, newer kernels first.
const BASE_SLICE: [&str; 3] = [
    "sys/kernel/debug/sched/base_slice_ns",
    "sys/kernel/debug/sched/min_granularity_ns",
    "proc/sys/kernel/sched_min_granularity_ns",
];
/// The shortest time that the scheduler means to give a process, on a machine
/// with so many CPUs online.
pub fn base_slice(root: &Path, cpus: usize) -> Reading<Sourced> {
    let mut refused = Vec::new();
    for file in BASE_SLICE {
        match text::text(root, file) {
            Err(error) => refused.push(error.to_string()),
            Ok(text) => match text.trim().parse::<f64>() {
                Ok(nanoseconds) if nanoseconds > 0.0 && nanoseconds.is_finite() => {
                    return Reading::Value(Sourced {
                        value: nanoseconds / 1e9,
                        source: format!("/{file}"),
                    });
                }
                _ => refused.push(format!("/{file} holds no number")),
            },
        }
    }
    let Ok(release) = text::text(root, "proc/sys/kernel/osrelease") else {
        return Reading::unavailable(refused.join("; "));
    };
    let release = release.trim();
    let version = version(release);
    let Some((milliseconds, since)) = version.and_then(default_base) else {
        return Reading::unavailable(format!(
            "{}; and no default is known for kernel {release}",
            refused.join("; ")
        ));
    };
    let steps = 1 + cpus.clamp(1, 8).ilog2();
    Reading::Value(Sourced {
        value: milliseconds / 1e3 * f64::from(steps),
        source: format!(
            "default since Linux {since}, {milliseconds} ms × (1 + log2 of the CPUs, at most 8), \
             not read: {}",
            refused[0]
        ),
    })
}

/// The default on one CPU, milliseconds, and the version that brought it.
fn default_base((major, minor): (u32, u32)) -> Option<(f64, &'static str)> {
    match (major, minor) {
        (7.., _) | (6, 15..) => Some((0.7, "6.15")),
        (6, _) | (5, _) | (4, _) | (3, _) => Some((0.75, "3.0")),
        _ => None,
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::fake::tree;
    use super::*;

    fn value(reading: &Reading<Sourced>) -> f64 {
        reading.value().unwrap().value
    }

    #[test]
    fn the_base_slice_is_read_or_named_as_the_default() {
        let file = tree(&[("sys/kernel/debug/sched/base_slice_ns", "2800000\n")]);
        let read = base_slice(file.path(), 2);
        assert_eq!(value(&read), 0.0028);
        assert_eq!(
            read.value().unwrap().source,
            "/sys/kernel/debug/sched/base_slice_ns"
        );
        let file = tree(&[("sys/kernel/debug/sched/base_slice_ns", "inf\n")]);
        assert!(base_slice(file.path(), 2).value().is_none());
        let release = |text| tree(&[("proc/sys/kernel/osrelease", text)]);
        for (text, cpus, wanted) in [
            ("6.18.44-x\n", 2, 0.0014),
            ("6.8.0-31-generic\n", 64, 0.003),
            ("5.15.0\n", 1, 0.00075),
        ] {
            let read = base_slice(release(text).path(), cpus);
            assert!((value(&read) - wanted).abs() < 1e-9, "{text}{read:?}");
            assert!(read.value().unwrap().source.contains("default"));
        }
        let unknown = base_slice(release("none\n").path(), 1);
        assert!(unknown.reason().unwrap().contains("kernel none"));
    }
}
