//! Which events this machine really counts: tried on ourselves, once.

use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::perf::explain_open_error;
use jostle_host::sys::perf::paranoid;
use jostle_host::sys::perf_group::EventConfig;
use jostle_host::sys::perf_group::Group;
use jostle_host::sys::perf_group::MAX_EVENTS;
use jostle_host::sys::perf_group::OpenError;
use jostle_host::sys::perf_group::PerfTarget;
use std::collections::HashMap;
use std::io;

/// How long events are given to count something.
const PATIENCE_NS: u64 = 20_000_000;

/// What was found out about each set of events.
#[derive(Default)]
pub(super) struct Probes {
    pub known: HashMap<Vec<EventConfig>, Probed>,
}

/// How a set of events can be counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Probed {
    /// Indices of the events that can be counted together, a list per group.
    pub groups: Vec<Vec<usize>>,
    /// The others, and why.
    pub refused: Vec<(usize, String)>,
    /// Whether the kernel's own events are counted too.
    pub kernel: bool,
}

impl Probed {
    fn refuse(&mut self, events: &[usize], why: &str) {
        let refused = events.iter().map(|&index| (index, why.to_string()));
        self.refused.extend(refused);
    }
}

impl Probes {
    /// `must_count`: events that cannot stand still while we run, by index.
    pub fn probe(&mut self, events: &[EventConfig], must_count: &[usize]) -> Probed {
        if let Some(probed) = self.known.get(events) {
            return probed.clone();
        }
        let probed = probe(events, must_count);
        self.known.insert(events.to_vec(), probed.clone());
        probed
    }
}

fn probe(events: &[EventConfig], must_count: &[usize]) -> Probed {
    let mut probed = Probed {
        kernel: true,
        ..Probed::default()
    };
    let mut there = Vec::new();
    for (index, event) in events.iter().enumerate() {
        match alone(*event, &mut probed.kernel) {
            Ok(()) => there.push(index),
            Err(error) => probed.refused.push((index, explain(*event, &error))),
        }
    }
    if there.is_empty() {
        return probed;
    }
    // All together, else in pairs: the watchdog of the kernel may hold a
    // register that the group would need.
    match counts(events, &there, must_count, probed.kernel) {
        Ok(()) => probed.groups = vec![there],
        Err(Verdict::Silent(silent)) => {
            let (mute, heard): (Vec<usize>, Vec<usize>) =
                there.into_iter().partition(|index| silent.contains(index));
            let reason = "it can be opened and then counts nothing, as a hypervisor arranges it";
            probed.refuse(&mute, reason);
            if !heard.is_empty() {
                probed.groups = vec![heard];
            }
        }
        Err(Verdict::NeverRan(why)) if there.len() > 2 => {
            for pair in there.chunks(2) {
                match counts(events, pair, must_count, probed.kernel) {
                    Ok(()) => probed.groups.push(pair.to_vec()),
                    Err(verdict) => probed.refuse(pair, &verdict.words(&why)),
                }
            }
        }
        Err(Verdict::NeverRan(why)) => probed.refuse(&there, &why),
    }
    probed.refused.sort_unstable();
    probed
}

enum Verdict {
    /// These stand still.
    Silent(Vec<usize>),
    NeverRan(String),
}

impl Verdict {
    fn words(self, before: &str) -> String {
        match self {
            Verdict::Silent(_) => "it can be opened and then counts nothing".into(),
            Verdict::NeverRan(why) if why.is_empty() => before.into(),
            Verdict::NeverRan(why) => why,
        }
    }
}

fn alone(event: EventConfig, kernel: &mut bool) -> io::Result<()> {
    let open = |kernel| {
        Group::open(&[event], PerfTarget::CallingThread, kernel)
            .map(|_| ())
            .map_err(|failed: OpenError| failed.error)
    };
    match open(*kernel) {
        // Without privileges user mode may still be had.
        Err(error) if *kernel && forbidden(&error) => match open(false) {
            // It does not know one mode from the other.
            Err(second) if second.raw_os_error() == Some(libc::EINVAL) => Err(error),
            Err(second) => Err(second),
            Ok(()) => {
                *kernel = false;
                Ok(())
            }
        },
        answer => answer,
    }
}

fn forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

fn counts(
    events: &[EventConfig],
    chosen: &[usize],
    must_count: &[usize],
    kernel: bool,
) -> Result<(), Verdict> {
    let configs: Vec<EventConfig> = chosen.iter().map(|&index| events[index]).collect();
    let group = Group::open(&configs, PerfTarget::CallingThread, kernel).map_err(|failed| {
        Verdict::NeverRan(format!(
            "the CPU cannot count these {} events at once: {}",
            configs.len(),
            failed.error
        ))
    })?;
    let must: Vec<usize> = (0..chosen.len())
        .filter(|&place| must_count.contains(&chosen[place]))
        .collect();
    let mut values = [0; MAX_EVENTS];
    let deadline = monotonic_ns() + PATIENCE_NS;
    loop {
        let mut sum = 0u64;
        for number in 0..10_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
        let times = group
            .read(&mut values)
            .map_err(|error| Verdict::NeverRan(error.to_string()))?;
        let silent: Vec<usize> = must
            .iter()
            .filter(|&&place| values[place] == 0)
            .map(|&place| chosen[place])
            .collect();
        if times.running_ns > 0 && silent.is_empty() {
            return Ok(());
        }
        if monotonic_ns() >= deadline {
            return Err(match times.running_ns {
                0 => Verdict::NeverRan(
                    "it can be opened but never gets the registers it needs: somebody else holds \
                     them (another profiler, or the kernel's watchdog: sysctl -w \
                     kernel.nmi_watchdog=0)"
                        .into(),
                ),
                _ => Verdict::Silent(silent),
            });
        }
    }
}

fn explain(event: EventConfig, error: &io::Error) -> String {
    const SOFTWARE: u32 = 1;
    const FIRST_DYNAMIC: u32 = 6;
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL)
            if event.kind == SOFTWARE || event.kind >= FIRST_DYNAMIC =>
        {
            format!("the kernel does not count this here: {error}")
        }
        Some(libc::EACCES | libc::EPERM) if event.kind >= FIRST_DYNAMIC => format!(
            "it cannot be counted without the kernel's part, which is forbidden: \
             kernel.perf_event_paranoid is {}; set it to 1 or lower, or grant CAP_PERFMON",
            paranoid()
        ),
        Some(libc::EINVAL) => "this CPU has no such event".into(),
        _ => explain_open_error(error, &paranoid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_refused_and_the_rest_is_kept() {
        let task_clock = EventConfig::software(1);
        let faults = EventConfig::software(2);
        let nonsense = EventConfig::software(0xffff);
        let probed = Probes::default().probe(&[task_clock, nonsense, faults], &[0]);
        match probed.groups.first() {
            Some(group) => assert_eq!(group, &[0, 2]),
            None => crate::skip::skip("perf", format!("{:?}", probed.refused)),
        }
        assert!(probed.refused.iter().any(|(index, _)| *index == 1));
        assert!(probed.refused.iter().all(|(_, why)| !why.is_empty()));
    }
}
