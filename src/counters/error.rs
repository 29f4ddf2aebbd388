//! Why an event cannot be counted here.

use crate::os;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Os(#[from] os::Error),
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
