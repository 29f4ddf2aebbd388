//! The metrics there are: one table. A new one is a row here and an arm in
//! [`super::start`].

use super::binary::Binary;
use super::error::Reason;
use super::feed::Feed;
use super::file::Tail;
use super::io::Bytes;
use super::load;
use super::load::Read;
use super::printed::Source;
use super::prometheus;
use super::tracepoint;
use crate::counters::tracefs::tracefs;
use crate::error::Error;
use crate::error::Result;
use crate::near;
use jostle_host::sys::perf;
use jostle_host::sys::probe;
use jostle_profile::Resolution;
use std::path::Path;
use std::sync::Arc;

/// A metric that was asked for, its words understood.
pub(super) enum Request {
    Progress,
    /// What stands in the file that `JOSTLE_PROGRESS` names.
    Published,
    Auto,
    Uprobe(String),
    Tracepoint(String),
    Io(&'static Bytes),
    Ips,
    Cpi,
    Runs,
    Load(Read),
    /// Where the numbers are printed, the expression that finds them, and where
    /// they go.
    Printed(Source, String, Arc<Feed>),
    Prometheus(String),
    Exec(String),
}

/// One kind of metric, as it is shown to people.
pub struct MetricKind {
    /// How it begins.
    pub name: &'static str,
    /// How it is written after `--metric`.
    pub syntax: &'static str,
    pub unit: &'static str,
    /// `higher`, `lower` or `--direction`.
    pub better: &'static str,
    /// What one reading is.
    pub window_rule: &'static str,
    /// How finely in time it can be read.
    pub resolution: Resolution,
    /// What it costs; the profile has the numbers.
    pub cost: &'static str,
    /// The targets it is for.
    pub targets: &'static str,
    available: fn() -> Result<(), Reason>,
    parse: fn(&str) -> Result<Request>,
}

impl MetricKind {
    /// Why there is no such metric on this machine, if there is none. Some of
    /// it is tried out, which takes a few milliseconds.
    pub fn unavailable(&self) -> Option<String> {
        (self.available)().err().map(|reason| reason.to_string())
    }
}

/// All of them.
pub const METRICS: &[MetricKind] = &[
    MetricKind {
        name: "progress",
        syntax: "progress",
        unit: "operations per second",
        better: "higher",
        window_rule: "growth of the count that the target publishes on a shared page",
        resolution: Resolution::Turn,
        cost: "one memory read at each end of a window",
        targets: "any that publishes a page; all demos",
        available: || Ok(()),
        parse: |rest| nothing("progress", rest).map(|()| Request::Progress),
    },
    MetricKind {
        name: "progress:shm",
        syntax: "progress:shm",
        unit: "operations per second",
        better: "higher",
        window_rule: "growth of the count that the target publishes in the file that JOSTLE_PROGRESS names",
        resolution: Resolution::Turn,
        cost: "one read of 64 bytes at each end of a window",
        targets: "any that publishes by JOSTLE_PROGRESS, which every command is given",
        available: || Ok(()),
        parse: |rest| nothing("progress:shm", rest).map(|()| Request::Published),
    },
    MetricKind {
        name: "progress:auto",
        syntax: "progress:auto",
        unit: "calls per second",
        better: "higher",
        window_rule: "calls of the function that was found, at least 200 in a window",
        resolution: Resolution::Turn,
        cost: "at most 2 % of a CPU for a trap into the kernel per call; one to three seconds to find the function, more where runs are short or few functions are called",
        targets: "any; a command is started again when it ends",
        available: || {
            let breakpoints = probe::breakpoint_cost().map(drop);
            let both = breakpoints.and_then(|()| probe::uprobe_cost(&[]).map(drop));
            both.map_err(Reason::Probe)
        },
        parse: |rest| nothing("progress:auto", rest).map(|()| Request::Auto),
    },
    MetricKind {
        name: "progress:uprobe",
        syntax: "progress:uprobe:BINARY:SYMBOL[,BINARY:SYMBOL…]",
        unit: "calls per second",
        better: "higher",
        window_rule: "calls of the function, at least 200 in a window",
        resolution: Resolution::Turn,
        cost: "a trap into the kernel per call (two, where the first instruction is not a push), measured at the start",
        targets: "any",
        available: || {
            let cost = probe::uprobe_cost(&[]);
            cost.map(drop).map_err(Reason::Probe)
        },
        parse: |rest| match rest.split(',').all(|part| Binary::split(part).is_some()) {
            true => Ok(Request::Uprobe(rest.into())),
            false => Err(Reason::UprobeSyntax.wrong(&format!("progress:uprobe:{rest}"))),
        },
    },
    MetricKind {
        name: "progress:tracepoint",
        syntax: "progress:tracepoint:CATEGORY:NAME",
        unit: "events per second",
        better: "higher",
        window_rule: "events of the kernel in the target's threads, at least 200 in a window",
        resolution: Resolution::Turn,
        cost: "counting per event, measured at the start",
        targets: "any",
        available: || Ok(tracefs(Path::new("/")).map(drop)?),
        parse: |rest| tracepoint::parse(rest).map(|_| Request::Tracepoint(rest.into())),
    },
    MetricKind {
        name: "progress:io",
        syntax: "progress:io[:read|:write|:disk-read|:disk-write]",
        unit: "bytes per second",
        better: "higher",
        window_rule: "growth over all processes of the target, at least 200 reads and writes in a window",
        resolution: Resolution::Print,
        cost: "one read of /proc/PID/io per process at each end of a window",
        targets: "any",
        available: || {
            let account = std::fs::read_to_string("/proc/self/io");
            account.map(drop).map_err(Reason::NoIoAccount)
        },
        parse: |rest| {
            let word = if rest.is_empty() { "" } else { ":" };
            Bytes::parse(&format!("progress:io{word}{rest}")).map(Request::Io)
        },
    },
    MetricKind {
        name: "ips",
        syntax: "ips",
        unit: "instructions per second",
        better: "higher",
        window_rule: "instructions in user mode per second of wall time",
        resolution: Resolution::Turn,
        cost: "one read of a counter per thread at each end of a window",
        targets: "any",
        available: || perf::why_no_instructions().map_or(Ok(()), |why| Err(Reason::Probe(why))),
        parse: |rest| nothing("ips", rest).map(|()| Request::Ips),
    },
    MetricKind {
        name: "cpi",
        syntax: "cpi",
        unit: "cycles per instruction",
        better: "lower",
        window_rule: "cycles ÷ instructions in user mode, counted by one group",
        resolution: Resolution::Turn,
        cost: "one read of two counters per thread at each end of a window",
        targets: "any",
        available: || perf::why_no_instructions().map_or(Ok(()), |why| Err(Reason::Probe(why))),
        parse: |rest| nothing("cpi", rest).map(|()| Request::Cpi),
    },
    MetricKind {
        name: "throughput",
        syntax: "throughput",
        unit: "answers per second",
        better: "higher",
        window_rule: "successful answers to --load per second, at least 200 requests in a window",
        resolution: Resolution::Request,
        cost: "none but the load itself",
        targets: "any that --load can send to",
        available: || Ok(()),
        parse: |rest| nothing("throughput", rest).map(|()| Request::Load(Read::Throughput)),
    },
    MetricKind {
        name: "latency",
        syntax: "latency:pNN|mean",
        unit: "seconds",
        better: "lower",
        window_rule: "percentile of --load's requests by their intended times: 200 at least, 2 beyond it",
        resolution: Resolution::Request,
        cost: "none but the load itself",
        targets: "any that --load can send to",
        available: || Ok(()),
        parse: |rest| of_load("latency", rest),
    },
    MetricKind {
        name: "goodput",
        syntax: "goodput:TIME",
        unit: "answers within TIME per second",
        better: "higher",
        window_rule: "successful answers to --load within the bound per second, at least 200 requests in a window",
        resolution: Resolution::Request,
        cost: "none but the load itself",
        targets: "any that --load can send to",
        available: || Ok(()),
        parse: |rest| of_load("goodput", rest),
    },
    MetricKind {
        name: "runs",
        syntax: "runs",
        unit: "seconds",
        better: "lower",
        window_rule: "one run of the command from start to end",
        resolution: Resolution::Run,
        cost: "none in the target",
        targets: "a command that ends by itself",
        available: || Ok(()),
        parse: |rest| nothing("runs", rest).map(|()| Request::Runs),
    },
    MetricKind {
        name: "stdout",
        syntax: "stdout:REGEX",
        unit: "as printed",
        better: "--direction",
        window_rule: "mean (--kind value) or growth per second (--kind rate) of at least 4 numbers",
        resolution: Resolution::Print,
        cost: "none but the pipe the target prints to",
        targets: "a command",
        available: || Ok(()),
        parse: |rest| {
            let feed = Feed::new(&format!("stdout:{rest}"), rest)?;
            Ok(Request::Printed(Source::Stdout, rest.into(), feed))
        },
    },
    MetricKind {
        name: "file",
        syntax: "file:PATH:REGEX",
        unit: "as written",
        better: "--direction",
        window_rule: "as for stdout, of what is added to the file or rewritten",
        resolution: Resolution::Print,
        cost: "one look at the file every 10 ms",
        targets: "any",
        available: || Ok(()),
        parse: |rest| match rest.split_once(':') {
            Some((path, pattern)) if !path.is_empty() => {
                let feed = Feed::new(&format!("file:{rest}"), pattern)?;
                let source = Source::File(Tail::new(path.as_ref()));
                Ok(Request::Printed(source, pattern.into(), feed))
            }
            _ => Err(Reason::FileSyntax.wrong(&format!("file:{rest}"))),
        },
    },
    MetricKind {
        name: "prometheus",
        syntax: "prometheus:URL:METRIC[{LABEL=\"VALUE\",…}][:pNN]",
        unit: "as exposed; a counter per second",
        better: "higher for counters and gauges (--direction), lower for percentiles",
        window_rule: "counter: growth per second; gauge: mean; histogram: percentile of what the window added",
        resolution: Resolution::Print,
        cost: "the server writes one page per reading, a tenth of the time at most",
        targets: "any with a page of metrics over http",
        available: || Ok(()),
        parse: |rest| {
            prometheus::check(rest)?;
            Ok(Request::Prometheus(rest.into()))
        },
    },
    MetricKind {
        name: "exec",
        syntax: "exec:CMD",
        unit: "as printed",
        better: "--direction",
        window_rule: "mean (--kind value) or growth per second (--kind rate) over the runs of a shell command; it finds the target's pid in $JOSTLE_PID",
        resolution: Resolution::Print,
        cost: "one run after another, one every --probe-interval at most",
        targets: "any",
        available: || Ok(()),
        parse: |rest| match rest.trim().is_empty() {
            true => Err(Reason::ExecSyntax.wrong("exec")),
            false => Ok(Request::Exec(rest.into())),
        },
    },
];

fn of_load(name: &str, rest: &str) -> Result<Request> {
    match load::parse(&format!("{name}:{rest}"))? {
        Some(read) => Ok(Request::Load(read)),
        None => Err(
            Reason::Unknown("latency:p99, latency:mean, goodput:200us".into())
                .wrong(&format!("{name}:{rest}")),
        ),
    }
}

fn nothing(name: &str, rest: &str) -> Result<()> {
    match rest.is_empty() {
        true => Ok(()),
        false => Err(Error::request(format!(
            "--metric {name}:{rest}: unknown; {name} takes no further words, and there are {}",
            all_syntaxes()
        ))),
    }
}

fn all_syntaxes() -> String {
    let all: Vec<&str> = METRICS.iter().map(|kind| kind.syntax).collect();
    all.join(", ")
}

/// Understands what was written after `--metric`.
pub(super) fn parse(text: &str) -> Result<Request> {
    let fits = |kind: &&MetricKind| {
        let rest = text.strip_prefix(kind.name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    match METRICS
        .iter()
        .filter(fits)
        .max_by_key(|kind| kind.name.len())
    {
        Some(kind) => {
            let rest = &text[kind.name.len()..];
            (kind.parse)(rest.strip_prefix(':').unwrap_or(rest))
        }
        None => {
            let head = text.split(':').next().unwrap_or(text);
            let names = METRICS.iter().map(|kind| kind.name);
            Err(Error::request(format!(
                "--metric {text}: unknown{}; there are {} (`jostle metrics` explains them)",
                near::hint(head, names, ""),
                all_syntaxes()
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_metrics_are_named() {
        let wrong = [
            "",
            "p99",
            "stdout",
            "stdouts:(x)",
            "ips:3",
            "progress:x",
            "progress:uprobe",
            "progress:uprobe:x",
            "progress:tracepoint:x",
            "progress:io:x",
            "file",
            "file:x",
            "file::(x)",
            "file:/x:y",
            "prometheus",
            "prometheus:x",
            "latency",
            "latency:99",
            "goodput:0",
            "throughput:x",
            "exec",
            "exec: ",
        ];
        for name in wrong {
            let Err(error) = parse(name) else {
                panic!("{name} was accepted");
            };
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().starts_with("--metric"), "{error}");
        }
    }

    #[test]
    fn every_metric_is_described() {
        for kind in METRICS {
            for text in [
                kind.syntax,
                kind.unit,
                kind.better,
                kind.window_rule,
                kind.cost,
            ] {
                assert!(!text.is_empty(), "{}", kind.name);
            }
            assert!(kind.syntax.starts_with(kind.name));
            if let Some(reason) = kind.unavailable() {
                assert!(!reason.is_empty(), "{}", kind.name);
            }
        }
    }

    /// The engine is linear: what makes others take years is over at once.
    #[test]
    fn expressions_cannot_explode() {
        let Ok(Request::Printed(_, _, feed)) = parse("stdout:^(a+)+$") else {
            panic!("this is an expression with a group");
        };
        let line = [&b"a".repeat(4000)[..], b"!\n"].concat();
        let begin = std::time::Instant::now();
        for at in 1..=50 {
            crate::workload::OutputSink::chunk(&*feed, &line, at * 1_000_000_000);
        }
        assert!(begin.elapsed() < std::time::Duration::from_secs(30));
        assert_eq!(feed.lock().matched, 0);
        assert_eq!(feed.lock().lines, 50);
    }
}
