//! Why a metric cannot be read: all texts of the metrics that are not bound to
//! one place.

use crate::counters::tracefs::TracefsError;
use crate::error::Error;
use jostle_host::sys::probe;
use jostle_load::Percentile;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// What is wrong, behind `--metric NAME: `.
#[derive(Debug, Error)]
pub(super) enum Reason {
    #[error("the window was never begun")]
    NotBegun,
    #[error("nothing was read")]
    NothingRead,
    #[error("{value} cannot be compared as a {what}; performance must be positive")]
    NotPositive { value: f64, what: &'static str },
    #[error(
        "--kind rate, but the total went down from {from} to {to}; use --kind value for a level"
    )]
    WentDown { from: f64, to: f64 },
    #[error("unknown; there are {0}")]
    Unknown(String),

    // What is written after the name.
    #[error(
        "give progress:uprobe:BINARY:SYMBOL, for example progress:uprobe:/usr/bin/redis-server:processCommand or progress:uprobe:lib:libc:malloc"
    )]
    UprobeSyntax,
    #[error(
        "give progress:tracepoint:CATEGORY:NAME, for example progress:tracepoint:syscalls:sys_enter_sendto"
    )]
    TracepointSyntax,
    #[error("give file:PATH:REGEX, for example 'file:/var/log/app.log:([0-9.]+) req/s'")]
    FileSyntax,
    #[error(
        "give a command that prints one number, for example 'exec:redis-cli info stats | sed -n s/^instantaneous_ops_per_sec://p'"
    )]
    ExecSyntax,
    #[error("not a regular expression: {0}; for example '([0-9.]+) req/s'")]
    NoRegex(regex_lite::Error),
    #[error("the expression needs a group (…) around the number; for example '([0-9.]+) req/s'")]
    NoGroup,
    #[error(
        "{0}; give prometheus:URL:METRIC, for example 'prometheus:http://127.0.0.1:9121/metrics:redis_commands_processed_total' or 'prometheus:…:request_seconds{{path=\"/\"}}:p99'"
    )]
    Prometheus(PrometheusError),

    // Pages on which targets publish their progress.
    #[error("{target} published no progress page (a memfd named jostle-progress, or the file that JOSTLE_PROGRESS names) within {} s", limit.as_secs_f64())]
    NoPage { target: String, limit: Duration },
    #[error("{target} published nothing in the file that JOSTLE_PROGRESS names in its environment within {} s; `include/jostle_progress.h` and docs/progress.md show how", limit.as_secs_f64())]
    NothingPublished { target: String, limit: Duration },
    /// In the words of [`crate::workload::Published`].
    #[error("{0}")]
    BadPage(String),
    #[error(
        "the progress page went backwards, from {from} to {to}: a count must only grow (does another program write to the same page?)"
    )]
    Backwards { from: u64, to: u64 },

    // Files and their functions.
    #[error("{} does not exist", .0.display())]
    NoBinary(PathBuf),
    #[error("there is no program {0} in PATH")]
    NoProgram(String),
    #[error("{} is gone", .0.display())]
    Gone(PathBuf),
    #[error("the target has no file {name} mapped{hint}")]
    NotMapped { name: String, hint: String },
    #[error("cannot read {}: {error}", file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    #[error(
        "{} is a script; name the program that runs it, or lib:NAME for a file the target has mapped",
        .0.display()
    )]
    Script(PathBuf),
    #[error("{} is no ELF program or library: {problem}", file.display())]
    NoElf {
        file: PathBuf,
        problem: object::Error,
    },
    #[error(
        "{wanted} stands for {count} functions of {}; name one of them: {names}",
        file.display()
    )]
    SeveralFunctions {
        wanted: String,
        file: PathBuf,
        count: usize,
        names: String,
    },
    #[error(
        "{wanted} in {} only chooses one of several functions when the program is loaded (IFUNC) and is called once{hint}",
        file.display()
    )]
    Indirect {
        wanted: String,
        file: PathBuf,
        hint: String,
    },
    #[error(
        "{wanted} of {} has the address {address:#x}, which no executable part of the file covers (is this a file with debug symbols only?)",
        file.display()
    )]
    Uncovered {
        wanted: String,
        file: PathBuf,
        address: u64,
    },
    #[error(
        "{} calls {wanted} but does not define it; probe the library that does, for example lib:libc.so.6:{wanted}",
        file.display()
    )]
    Imported { wanted: String, file: PathBuf },
    #[error("there is no function {wanted} in {}{hint}", file.display())]
    NoFunction {
        wanted: String,
        file: PathBuf,
        hint: String,
    },

    // Counting.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    #[error("this kernel has no tracepoints of system calls")]
    NoSyscallEvents,
    /// In the words of [`jostle_host::sys::probe`].
    #[error("{0}")]
    Probe(String),
    #[error("the process has ended")]
    ProcessEnded,
    #[error("reading failed: {0}")]
    Reading(io::Error),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),

    // Progress found automatically.
    #[error("it was never seen at work")]
    NeverSeen,
    #[error("its runs are too short to be looked into: one took {:.0} ms", .0.as_secs_f64() * 1e3)]
    ShortRuns(Duration),
    #[error("the kernel's software clock cannot sample it: {0}")]
    NoSamples(io::Error),
    #[error("breakpoints of the CPU cannot be counted in it: {}", probe::why_no_breakpoint(.0))]
    NoBreakpoints(io::Error),
    #[error(
        "breakpoints of the CPU could kill it, because it cannot be traced (a debugger may be attached to it, or ptrace may be forbidden): {0}"
    )]
    NoShield(io::Error),
    #[error(
        "it hardly runs: {samples} samples within {milliseconds} ms; give it work to do, with --load for a server"
    )]
    Asleep { samples: usize, milliseconds: u128 },
    #[error(
        "none of {tried} functions is called at a useful, steady and cheap rate ({samples} samples, {unknown_percent:.0} % of them in code that belongs to no file): {refusal}"
    )]
    NoSteadyCalls {
        tried: usize,
        samples: usize,
        unknown_percent: f64,
        refusal: &'static str,
    },

    #[error(
        "no instruction is seen to be executed at {0}, and a probe within one would break the target; give one that progress:auto found in this file, or the name of a function"
    )]
    NotExecuted(String),

    // /proc/PID/io
    #[error("this kernel keeps no account of bytes: /proc/self/io: {0}")]
    NoIoAccount(io::Error),
    #[error("{0} may be read by the process's own user and root only: run jostle as one of them")]
    IoForbidden(String),
    #[error("this kernel keeps no account of bytes (CONFIG_TASK_IO_ACCOUNTING)")]
    IoUnaccounted,
    #[error("{file} lacks {keys}")]
    IoKeys { file: String, keys: String },
    #[error("the target has no process")]
    NoProcess,

    // Followed files.
    #[error("there is no file {}", .0.display())]
    NoFile(PathBuf),
    #[error("not an ordinary file; name a log or status file")]
    NotOrdinary,
    #[error("cannot read it: {0}")]
    CannotRead(io::Error),

    // Probe commands.
    #[error("cannot start /bin/sh: {0}")]
    Shell(io::Error),
    #[error("cannot start a thread to read what the probe prints")]
    ShellOutput,
    #[error("the probe failed ({status}){said}")]
    ProbeFailed {
        status: std::process::ExitStatus,
        said: String,
    },
    #[error("abandoned, since nobody waits for it")]
    Abandoned,
    #[error("the probe printed more than {0} KiB and was killed; it must print one number")]
    Floods(usize),
    #[error(
        "the probe was still running after {} s and was killed with its whole group; raise --probe-timeout if it needs longer",
        .0.as_secs_f64()
    )]
    ProbeTimeout(Duration),
    #[error("the probe printed nothing; it must print one number on standard output")]
    PrintedNothing,
    #[error("the probe printed '{0}'; the number must be finite")]
    NotFinite(String),
    #[error("the probe printed '{0}', which is not one number")]
    NotANumber(String),

    // Pages of metrics.
    #[error("{url}: {reason}")]
    Page { url: String, reason: PageError },
    #[error(transparent)]
    Select(#[from] SelectError),
    #[error("the thread that asks for the page has died")]
    ScrapeThread,
    #[error("it stood still for {0:.0} s; is the target under load?")]
    StoodStill(f64),
    #[error(
        "only {count} observations within {} s, and {percentile} needs {fewest:.0}; give more load or a lower percentile",
        limit.as_secs_f64()
    )]
    FewObservations {
        count: f64,
        limit: Duration,
        percentile: Percentile,
        fewest: f64,
    },
}

impl Reason {
    /// Whether another attempt to find progress would end in the same way.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self,
            Reason::ShortRuns(_)
                | Reason::NoSamples(_)
                | Reason::NoBreakpoints(_)
                | Reason::NoShield(_)
                | Reason::Probe(_)
        )
    }

    /// The request must change; `name` is what follows `--metric`.
    pub(super) fn wrong(self, name: &str) -> Error {
        Error::request(format!("--metric {name}: {self}"))
    }

    /// The environment does not allow it.
    pub(super) fn failed(self, name: &str) -> Error {
        Error::environment(format!("--metric {name}: {self}"))
    }
}

/// Why `URL:METRIC` cannot be read.
#[derive(Debug, PartialEq, Error)]
pub(super) enum PrometheusError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("'{0}' is not a percentile like :p99")]
    Percentile(String),
    #[error("a metric's name must follow the address")]
    NoName,
    #[cfg(not(feature = "tls"))]
    #[error("this jostle was built without TLS (feature `tls`); use exec: with curl")]
    Https,
    #[cfg(feature = "tls")]
    #[error("{0}")]
    Trust(String),
    #[error("--metric-ca {}: this page is not asked for with https://; leave it out", .0.display())]
    NoTls(PathBuf),
    #[error("'{0}' is not an address like http://127.0.0.1:9121/metrics")]
    Address(String),
}

/// Why there is no page.
#[derive(Debug, Error)]
pub(super) enum PageError {
    #[error("not a page of metrics: line {0} is not UTF-8")]
    Utf8(usize),
    #[error("not a page of metrics: line {number}: {reason}: '{start}'")]
    Line {
        number: usize,
        reason: FormatError,
        start: String,
    },
    #[error("the server answered with status {0}; is the path right?")]
    Status(u16),
    #[error(
        "no complete answer within {} s; raise --probe-timeout if the page takes that long",
        .0.as_secs_f64()
    )]
    Timeout(Duration),
    #[error("the page is larger than {0} MiB")]
    TooLarge(u64),
    #[error("{0}")]
    Io(io::Error),
    #[error("nobody answers")]
    NobodyAnswers,
    #[error("{0}")]
    Other(ureq::Error),
}

impl PageError {
    /// Whether it may come yet: nobody listens, or the server just starts or
    /// ends.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, PageError::Io(_) | PageError::NobodyAnswers)
    }
}

/// Why a line is not in the text format of Prometheus.
#[derive(Debug, PartialEq, Error)]
pub(super) enum FormatError {
    #[error("a TYPE line needs a name and a type")]
    TypeLine,
    #[error("there is no type {0}")]
    Type(String),
    #[error("there is no value")]
    NoValue,
    #[error("'{0}' is not a value")]
    Value(String),
    #[error("'{0}' is not a time")]
    Time(String),
    #[error("'{0}' follows the time")]
    Behind(String),
    #[error("a name begins with a letter or _")]
    Name,
    #[error("label {0} needs =\"…\"")]
    Label(String),
    #[error("labels end with }}")]
    Brace,
    #[error("a \\ in a label is followed by \\, \" or n")]
    Escape,
    #[error("a label's value has no closing quote")]
    Quote,
}

/// Why nothing on a page is the metric.
#[derive(Debug, PartialEq, Error)]
pub(super) enum SelectError {
    #[error("there is no metric {name} on the page{hint}")]
    NoMetric { name: String, hint: String },
    #[error("no series fits {wanted}; there are {there}")]
    NoSeries { wanted: String, there: String },
    #[error("several series are called {name}; add labels to name one: {series}")]
    Several { name: String, series: String },
    #[error("{0} is neither a histogram nor a summary: leave the percentile out")]
    NoPercentiles(String),
    #[error("{name} is a summary without that percentile; it has {there}")]
    NoSuchPercentile { name: String, there: String },
    #[error("{name} is a {what}: add a percentile ({name}:p99) or read {name}_count")]
    NeedsPercentile { name: String, what: &'static str },
    #[error("{series} is {value}")]
    NotFinite { series: String, value: f64 },
    #[error("{series} is {value}: nothing was observed lately")]
    NothingObserved { series: String, value: f64 },
    #[error("a bucket's bound is {0:?}")]
    Bound(Option<String>),
    #[error("the histogram has no bucket le=\"+Inf\"")]
    NoLastBucket,
    #[error("the histogram has no finite bucket")]
    NoFiniteBucket,
}
