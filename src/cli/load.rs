//! `jostle load`: requests for a server, and the flags it shares with `profile`.

use super::duration::parse_duration;
use super::interrupt;
use super::output;
use crate::console;
use crate::console::note;
use crate::error::Error;
use crate::error::Result;
use crate::machine::Machine;
use clap::ValueEnum;
use jostle_load::Arrivals;
use jostle_load::Drive;
use jostle_load::Generator;
use jostle_load::LatencyTarget;
use jostle_load::LoadPlacement;
use jostle_load::LoadPlan;
use jostle_load::LoadSpec;
use jostle_load::Pace;
use jostle_load::TIMING_BOUND;
use jostle_load::Trial;
use jostle_load::Url;
use jostle_load::Window;
use jostle_load::find_capacity;
use jostle_load::parse_rate;
use jostle_load::place;
use jostle_load::report;
use std::io::IsTerminal;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

/// Requests and connections; the same for `load` and `profile`.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Load")]
pub struct TrafficArgs {
    /// Connections to the server [default: 50]
    #[arg(long, value_name = "N", requires = "load")]
    connections: Option<usize>,
    /// Requests under way on one connection at most [default: 1]
    #[arg(long, value_name = "N", requires = "load")]
    pipeline: Option<usize>,
    /// How the moments of the requests lie [default: poisson]
    #[arg(long, value_enum, requires = "load")]
    arrivals: Option<ArrivalsArg>,
    /// Time in which the rate is reached, before anything is measured
    #[arg(long, value_parser = parse_duration, value_name = "TIME", requires = "load")]
    ramp: Option<Duration>,
    /// Different keys asked for [default: 100000]
    #[arg(long, value_name = "N", requires = "load")]
    keys: Option<u64>,
    /// Exponent of the Zipf distribution of the keys; 0: all alike [default: 0]
    #[arg(long, value_name = "S", requires = "load")]
    zipf: Option<f64>,
    /// Bytes of each value [default: 64]
    #[arg(long, value_name = "N", requires = "load")]
    value_bytes: Option<usize>,
    /// Share of the requests that read [default: 90]
    #[arg(long, value_name = "PERCENT", requires = "load")]
    reads: Option<f64>,
    /// Set every key once before anything is measured [default: yes]
    #[arg(
        long,
        value_enum,
        value_name = "YES|NO",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "yes",
        requires = "load"
    )]
    prefill: Option<YesNo>,
    /// An answer later than this, from the intended moment, is none
    /// [default: 1s]
    #[arg(long, value_parser = parse_duration, value_name = "TIME", requires = "load")]
    timeout: Option<Duration>,
    /// Longest wait for the server [default: 10s]
    #[arg(long, value_parser = parse_duration, value_name = "TIME", requires = "load")]
    connect_timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ArrivalsArg {
    Poisson,
    Uniform,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum YesNo {
    Yes,
    No,
}

fn within<T: PartialOrd + std::fmt::Display>(flag: &str, value: T, low: T, high: T) -> Result<T> {
    match value >= low && value <= high {
        true => Ok(value),
        false => Err(Error::request(format!(
            "{flag} {value}: give {low} to {high}"
        ))),
    }
}

impl TrafficArgs {
    fn spec(&self, url: &str, closed: bool, seed: u64) -> Result<LoadSpec> {
        let url = Url::parse(url).map_err(|error| Error::request(format!("--load: {error}")))?;
        self.refuse_without_effect(&url, closed)?;
        let usual = LoadSpec::new(url);
        let times = [
            ("--timeout", self.timeout),
            ("--connect-timeout", self.connect_timeout),
        ];
        for (flag, time) in times {
            if let Some(time) = time
                && !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&time)
            {
                return Err(Error::request(format!("{flag}: give 1ms to 60s")));
            }
        }
        Ok(LoadSpec {
            connections: match self.connections {
                Some(number) => within("--connections", number, 1, 10_000)?,
                None => usual.connections,
            },
            pipeline: match self.pipeline {
                Some(number) => within("--pipeline", number, 1, 1024)?,
                None => usual.pipeline,
            },
            arrivals: match self.arrivals {
                Some(ArrivalsArg::Uniform) => Arrivals::Uniform,
                _ => Arrivals::Poisson,
            },
            ramp: self.ramp.unwrap_or(usual.ramp),
            keys: match self.keys {
                Some(number) => within("--keys", number, 1, 1_000_000_000)?,
                None => usual.keys,
            },
            zipf_exponent: match self.zipf {
                Some(exponent) => within("--zipf", exponent, 0.0, 10.0)?,
                None => usual.zipf_exponent,
            },
            value_bytes: match self.value_bytes {
                Some(number) => within("--value-bytes", number, 0, 16 << 20)?,
                None => usual.value_bytes,
            },
            read_percent: match self.reads {
                Some(percent) => within("--reads", percent, 0.0, 100.0)?,
                None => usual.read_percent,
            },
            prefill: match self.prefill {
                Some(answer) => answer == YesNo::Yes,
                None => usual.prefill,
            },
            timeout: self.timeout.unwrap_or(usual.timeout),
            connect_timeout: self.connect_timeout.unwrap_or(usual.connect_timeout),
            seed,
            request_slice: Some(crate::sys::sched::request_slice),
            ..usual
        })
    }

    /// A flag that would do nothing is a misunderstanding.
    fn refuse_without_effect(&self, url: &Url, closed: bool) -> Result<()> {
        let http = [
            ("--value-bytes", self.value_bytes.is_some()),
            ("--reads", self.reads.is_some()),
            ("--prefill", self.prefill.is_some()),
        ];
        if !url.kind.has_keys()
            && let Some((flag, _)) = http.iter().find(|(_, given)| *given)
        {
            return Err(Error::request(format!(
                "{flag}: http:// only fetches, so this does nothing; leave it out"
            )));
        }
        let keys = [
            ("--keys", self.keys.is_some()),
            ("--zipf", self.zipf.is_some()),
        ];
        if !url.uses_keys()
            && let Some((flag, _)) = keys.iter().find(|(_, given)| *given)
        {
            return Err(Error::request(format!(
                "{flag}: this path names no key; put {{key}} where its number belongs, or leave \
                 the flag out"
            )));
        }
        let open = [
            ("--arrivals", self.arrivals.is_some()),
            ("--ramp", self.ramp.is_some()),
        ];
        match open.iter().find(|(_, given)| closed && *given) {
            Some((flag, _)) => Err(Error::request(format!(
                "{flag}: in a closed loop (--closed) requests follow answers, so this does \
                 nothing; leave it out"
            ))),
            None => Ok(()),
        }
    }
}

/// The load that a target is profiled under.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Send requests to the target meanwhile: redis://HOST:PORT,
    /// redis+unix:///PATH, memcached://HOST:PORT or http://HOST:PORT/PATH
    #[arg(long = "load", id = "load", value_name = "URL")]
    url: Option<String>,
    /// Requests per second, whatever the answers take, like 50k/s
    #[arg(long, value_parser = parse_rate, group = "drive", requires = "load")]
    rate: Option<f64>,
    /// Next request as soon as an answer is there
    #[arg(long, group = "drive", requires = "load")]
    closed: bool,
    /// Search the highest rate that meets --slo first; this takes time beyond
    /// the budget
    #[arg(long, group = "drive", requires_all = ["load", "slo"])]
    find_capacity: bool,
    /// Latency target of that search, like p99:1ms
    #[arg(long, value_parser = LatencyTarget::parse, value_name = "TARGET", requires = "find_capacity")]
    slo: Option<LatencyTarget>,
    /// Profile at this share of the capacity found [default: 70]
    #[arg(long, value_name = "PERCENT", requires = "find_capacity")]
    load_share: Option<f64>,
    /// CPUs of the load generator [default: away from target and sources]
    #[arg(long, value_name = "LIST", requires = "load")]
    load_cpus: Option<String>,
    #[command(flatten)]
    traffic: TrafficArgs,
}

impl LoadArgs {
    /// The load to send, if one was asked for; and the CPUs that sources should
    /// leave to it are in its placement.
    ///
    /// # Errors
    /// A request error naming the flag.
    pub fn plan(
        &self,
        machine: &Machine,
        target_cpus: &[usize],
        seed: u64,
    ) -> Result<Option<LoadPlan>> {
        let Some(url) = &self.url else {
            return Ok(None);
        };
        let drive = match (self.rate, self.closed, self.slo) {
            (Some(rate), ..) => Drive::Pace(Pace::Open(rate)),
            (None, true, _) => Drive::Pace(Pace::Closed),
            (None, false, Some(target)) if self.find_capacity => Drive::ShareOfCapacity {
                target,
                share: within("--load-share", self.load_share.unwrap_or(70.0), 1.0, 100.0)? / 100.0,
            },
            _ => {
                return Err(Error::request(
                    "--load: how fast? give --rate 10k/s, or --find-capacity --slo p99:1ms, or \
                     --closed",
                ));
            }
        };
        let given = self
            .load_cpus
            .as_deref()
            .map(|list| cpu_list("--load-cpus", list, machine))
            .transpose()?;
        let mut spec = self.traffic.spec(url, self.closed, seed)?;
        spec.placement = place(&machine.allowed_cpus, target_cpus, given.as_deref())?;
        Ok(Some(LoadPlan { spec, drive }))
    }
}

fn cpu_list(flag: &str, list: &str, machine: &Machine) -> Result<Vec<usize>> {
    let chosen = jostle_profile::cpulist::parse_list(list)
        .map_err(|error| Error::request(format!("{flag}: {error}")))?;
    match chosen
        .iter()
        .find(|cpu| !machine.allowed_cpus.contains(cpu))
    {
        _ if chosen.is_empty() => Err(Error::request(format!("{flag}: give for example 0"))),
        Some(cpu) => Err(Error::request(format!(
            "{flag}: CPU {cpu} is outside the allowed set {}",
            jostle_profile::cpulist::format_list(&machine.allowed_cpus)
        ))),
        None => Ok(chosen),
    }
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// redis://HOST:PORT[/DB], redis+unix:///PATH, memcached://HOST:PORT or
    /// http://HOST:PORT/PATH
    #[arg(id = "load", value_name = "URL")]
    url: String,
    /// Requests per second, whatever the answers take, like 50k/s
    /// [with --find-capacity: the first rate tried]
    #[arg(long, value_parser = parse_rate, conflicts_with = "closed")]
    rate: Option<f64>,
    /// Next request as soon as an answer is there: shows the peak throughput
    #[arg(long, conflicts_with = "find_capacity")]
    closed: bool,
    /// Search the highest rate that meets --slo
    #[arg(long, requires = "slo", conflicts_with = "length")]
    find_capacity: bool,
    /// Latency target, like p99:1ms; a bound alone, like 1ms, means p99 for
    /// --find-capacity and otherwise only counts the answers within it
    #[arg(long, value_name = "TARGET")]
    slo: Option<String>,
    /// How long [default: 10s]
    #[arg(long = "for", id = "length", value_parser = parse_duration, value_name = "TIME")]
    length: Option<Duration>,
    #[command(flatten)]
    traffic: TrafficArgs,
    /// Decides moments and keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// CPUs to send from [default: all allowed]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// How often the live line is drawn.
const LIVE: Duration = Duration::from_secs(1);

pub fn run(args: Args) -> Result<()> {
    let machine = Machine::detect();
    let target = args
        .slo
        .as_deref()
        .map(LatencyTarget::parse)
        .transpose()
        .map_err(|error| Error::request(format!("--slo: {error}")))?;
    let mut spec = args.traffic.spec(&args.url, args.closed, args.seed)?;
    let cpus = match args.cpus.as_deref() {
        Some(list) => cpu_list("--cpus", list, &machine)?,
        None => Vec::new(),
    };
    spec.placement = LoadPlacement {
        spin: machine.allowed_cpus.len() > 1,
        cpus,
        ..LoadPlacement::default()
    };
    let interrupt = interrupt::flag()?;
    if args.find_capacity {
        let target = target.ok_or_else(|| Error::request("--find-capacity: give --slo"))?;
        return capacity(&args, spec, target, &interrupt);
    }
    let pace = match (args.rate, args.closed) {
        (Some(rate), _) => Pace::Open(rate),
        (None, true) => Pace::Closed,
        (None, false) => {
            return Err(Error::request(
                "how fast? give --rate 10k/s, or --closed for the peak, or --find-capacity --slo \
                 p99:1ms",
            ));
        }
    };
    let length = args.length.unwrap_or(Duration::from_secs(10));
    if length < Duration::from_millis(100) {
        return Err(Error::request("--for: give at least 100ms"));
    }
    let ramp = spec.ramp;
    let mut generator = Generator::start(spec, &interrupt, &mut || Ok(()))?;
    generator.pace(pace);
    nap(ramp, &interrupt);
    let window = watch(&generator, length, &interrupt, !args.json)?;
    let outcome = report::LoadOutcome::new(&generator, pace, &window, target);
    match args.json {
        true => output::json(&outcome)?,
        false => output::text(&outcome.text())?,
    }
    warn(&generator, &window);
    if interrupt::raised(&interrupt) {
        return Err(Error::Interrupted(
            "; told is what was sent until then".into(),
        ));
    }
    if window.answered == 0 {
        return Err(Error::environment(format!(
            "--load {}: no request succeeded: {}",
            args.url_shown(),
            match window.failures.total() {
                0 => "none was due; give a higher --rate or a longer --for".into(),
                _ => window.failures.words(),
            }
        )));
    }
    let asked = args.slo.as_deref().is_some_and(|slo| slo.contains(':'));
    match (target, outcome.slo_met()) {
        (Some(target), Some(false)) if asked => Err(Error::Gate(format!("{target} was not met"))),
        _ => Ok(()),
    }
}

impl Args {
    /// Without the password.
    fn url_shown(&self) -> String {
        Url::parse(&self.url).map_or_else(|_| String::new(), |url| url.to_string())
    }
}

fn nap(length: Duration, interrupt: &AtomicBool) {
    let until = Instant::now() + length;
    while !interrupt::raised(interrupt) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(Duration::from_millis(50)));
    }
}

/// Sends for `length`, second by second; everything that was due in it.
fn watch(
    generator: &Generator,
    length: Duration,
    interrupt: &AtomicBool,
    live: bool,
) -> Result<Window> {
    let live = live && std::io::stderr().is_terminal();
    let end = Instant::now() + length;
    let mut sum: Option<Window> = None;
    generator.open_window();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        nap(left.min(LIVE), interrupt);
        let last = Instant::now() >= end || interrupt::raised(interrupt);
        let window = match last {
            true => generator.close_window()?,
            false => generator.next_window()?,
        };
        if live {
            console::write(format_args!("\r{}\x1b[K", report::line(&window)));
        }
        match &mut sum {
            Some(sum) => sum.merge(&window),
            None => sum = Some(window),
        }
        if last {
            break;
        }
    }
    if live {
        note!("");
    }
    sum.ok_or_else(|| Error::environment("nothing was sent"))
}

fn warn(generator: &Generator, window: &Window) {
    let late = window.lateness(jostle_load::Percentile::P99);
    if let Some(late) = late
        && late > TIMING_BOUND.as_secs_f64()
    {
        note!(
            "warning: requests were sent up to {:.0} µs late at p99 (bound {} µs), which is part \
             of every latency: the generator used {:.0} % of a CPU; give it one of its own with \
             --cpus, start jostle with chrt -f 1, or ask for a lower rate",
            late * 1e6,
            TIMING_BOUND.as_micros(),
            generator.cpu_percent()
        );
    }
    if window.missing > window.answered / 100 {
        note!(
            "warning: {} of {} answers found no value: the server does not hold all of the keys",
            window.missing,
            window.answered
        );
    }
}

fn capacity(
    args: &Args,
    spec: LoadSpec,
    target: LatencyTarget,
    interrupt: &AtomicBool,
) -> Result<()> {
    if spec.ramp > Duration::ZERO {
        return Err(Error::request(
            "--ramp: the search begins low by itself; leave it out",
        ));
    }
    let mut generator = Generator::start(spec, interrupt, &mut || Ok(()))?;
    let live = std::io::stderr().is_terminal() && !args.json;
    let mut told = |trial: &Trial, elapsed: Duration| {
        if live {
            note!(
                "{:5.1} s  {}",
                elapsed.as_secs_f64(),
                report::trial_line(trial, target)
            );
        }
    };
    let found = find_capacity(&mut generator, target, args.rate, interrupt, &mut told)?;
    match args.json {
        true => output::json(&report::CapacityOutcome::new(&generator, &found))?,
        false => output::text(&report::capacity_text(&found, target))?,
    }
    if let Some(doubt) = found.doubt() {
        note!("warning: {doubt}");
    }
    Ok(())
}
