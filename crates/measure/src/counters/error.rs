//! Why something cannot be counted here.

use jostle_host::os;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Os(#[from] os::Error),
    /// In the words of whoever found out.
    #[error("{0}")]
    Other(String),
    #[error("the process has ended")]
    Ended,
    #[error("process {0} has ended")]
    ProcessEnded(i32),
    #[error("the processes have ended")]
    ProcessesEnded,
    #[error("the cgroup holds no process")]
    EmptyCgroup,
    #[error(
        "it happens inside the kernel, where counting is forbidden: kernel.perf_event_paranoid is \
         {0}; set it to 1 or lower, or grant CAP_PERFMON"
    )]
    InKernel(String),
    #[error("the CPU has too few registers to count what it divides at the same time")]
    TooFewRegisters,
    #[error("it can be opened and then counts nothing: a hypervisor keeps the energy to itself")]
    NoEnergy,
    #[error("this machine has no power/{0}/")]
    NoPowerEvent(&'static str),
    #[error(
        "the kernel shows no memory controller that counts traffic (uncore_imc, amd_umc); it has \
         {0}. Virtual machines do not see them"
    )]
    NoController(String),
    #[error("{0} does not say how many bytes its events stand for")]
    NoBytes(String),
    #[error("{0} does not say on which CPU to ask it")]
    NoCpu(String),
    #[error("{0} lies in no cgroup mount")]
    NoMount(String),
    #[error("no hierarchy with the perf_event controller is mounted")]
    NoPerfHierarchy,
    #[error("{kind}: {problem}")]
    Counterpart { kind: String, problem: os::Error },
    #[error("there is no target")]
    NoTarget,
    #[error("the target has no process")]
    NoProcess,
    #[error("no {0} hierarchy holds the target")]
    NotInHierarchy(String),
    #[error("no {0} hierarchy is mounted")]
    NotMounted(String),
    // The same words for every hierarchy: the reason is one.
    #[error(
        "the target shares its cgroup with other processes; start it in one of its own \
         (systemd-run --scope CMD), or count a whole cgroup with --cgroup"
    )]
    Shared,
    #[error(
        "no resctrl here: the CPU lacks monitoring (Intel RDT, AMD QoS, Arm MPAM), the kernel was \
         built without it, or it is not mounted (mount -t resctrl resctrl /sys/fs/resctrl)"
    )]
    NoResctrl,
    #[error("only {inside} of the target's {threads} threads are in the resctrl group /{group}")]
    PartlyInGroup {
        inside: usize,
        threads: usize,
        group: String,
    },
    #[error(
        "the target is in the resctrl group of everything else; make one for it: mkdir \
         /sys/fs/resctrl/mon_groups/NAME and write its threads to the file tasks there"
    )]
    NoGroup,
    #[error("this machine has no PMU {name}; it has {}", listed(.units))]
    NoPmu { name: String, units: Vec<String> },
    #[error("'{0}' has an empty term")]
    EmptyTerm(String),
    #[error("{pmu}/events/{event}.scale: '{scale}' is no scale")]
    Scale {
        pmu: String,
        event: String,
        scale: String,
    },
    #[error("{term}: '{text}' is not a number; write 0x3c or 60")]
    Number { term: String, text: String },
    #[error(
        "PMU {pmu} has neither an event nor a field '{field}'; its events are {}, its fields {}",
        listed(.events),
        listed(.fields)
    )]
    NoField {
        pmu: String,
        field: String,
        events: Vec<String>,
        fields: Vec<String>,
    },
    #[error("{pmu}/format/{field}: '{format}' is no format like config:0-7")]
    Format {
        pmu: String,
        field: String,
        format: String,
    },
    #[error("{pmu}/format/{field}: {value:#x} is too large for {format}")]
    TooLarge {
        pmu: String,
        field: String,
        format: String,
        value: u64,
    },
    #[error(
        "counting {threads} threads one by one would make it {reads} reads per sample, more than \
         the {most} that sampling may cost; count a cgroup instead (--cgroup)"
    )]
    TooManyReads {
        threads: usize,
        reads: usize,
        most: usize,
    },
    #[error(
        "counting needs {needed} more open files and the limit is {limit}: raise `ulimit -Hn`, \
         or count a cgroup instead (--cgroup)"
    )]
    TooManyFiles { needed: usize, limit: usize },
}

fn listed(names: &[String]) -> String {
    const SHOWN: usize = 12;
    match names.len() {
        0 => "none".into(),
        count if count > SHOWN => {
            format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN)
        }
        _ => names.join(", "),
    }
}
