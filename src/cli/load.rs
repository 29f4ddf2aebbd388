//! `jostle load`: requests for a server, and the flags it shares with `profile`.

use super::duration::parse_duration;
use super::interrupt;
use super::output;
use super::requests::RequestArgs;
use super::select;
use clap::ValueEnum;
use jostle_host::machine::Machine;
use jostle_load::Arrivals;
use jostle_load::Drive;
use jostle_load::Generator;
use jostle_load::LatencyTarget;
use jostle_load::LoadPlan;
use jostle_load::LoadSpec;
use jostle_load::Pace;
use jostle_load::TIMING_BOUND;
use jostle_load::Trial;
use jostle_load::Url;
use jostle_load::Window;
use jostle_load::find_capacity;
use jostle_load::nap;
use jostle_load::parse_rate;
use jostle_load::place;
use jostle_load::report;
use jostle_measure::console;
use jostle_measure::console::note;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use std::fmt::Display;
use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::time::Instant;

/// Requests and connections; the same for `load` and `profile`.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Load")]
pub struct TrafficArgs {
    /// Connections to the server [default: 50]
    #[arg(long, value_parser = number(1..=10_000usize), value_name = "N", requires = "load")]
    connections: Option<usize>,
    /// Requests under way on one connection at most [default: 1]
    #[arg(long, value_parser = number(1..=1024usize), value_name = "N", requires = "load")]
    pipeline: Option<usize>,
    /// Inter-arrival distribution of the requests [default: poisson]
    #[arg(long, value_enum, requires = "load")]
    arrivals: Option<ArrivalsArg>,
    /// Time in which the rate is reached, before anything is measured
    #[arg(long, value_parser = parse_duration, value_name = "TIME", requires = "load")]
    ramp: Option<Duration>,
    /// Different keys asked for [default: 100000]
    #[arg(long, value_parser = number(1..=1_000_000_000u64), value_name = "N", requires = "load")]
    keys: Option<u64>,
    /// Exponent of the Zipf distribution of the keys; 0: all alike [default: 0]
    #[arg(long, value_parser = number(0.0..=10.0f64), value_name = "S", requires = "load")]
    zipf: Option<f64>,
    /// Bytes of each value [default: 64]
    #[arg(long, value_parser = number(0..=16usize << 20), value_name = "N", requires = "load")]
    value_bytes: Option<usize>,
    /// Share of the requests that read [default: 90]
    #[arg(long, value_parser = number(0.0..=100.0f64), value_name = "PERCENT", requires = "load")]
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
    /// Requests not answered within this time, from the intended time, count
    /// as failed [default: 1s]
    #[arg(long, value_parser = server_wait, value_name = "TIME", requires = "load")]
    timeout: Option<Duration>,
    /// Longest wait for the server [default: 10s]
    #[arg(long, value_parser = server_wait, value_name = "TIME", requires = "load")]
    connect_timeout: Option<Duration>,
    #[command(flatten)]
    requests: RequestArgs,
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

/// Reads a number within `range`, both ends included.
fn number<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> std::result::Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("give {} to {}", range.start(), range.end())),
    }
}

fn server_wait(text: &str) -> std::result::Result<Duration, String> {
    let range = Duration::from_millis(1)..=Duration::from_secs(60);
    let time = Some(parse_duration(text)?).filter(|time| range.contains(time));
    time.ok_or("give 1ms to 60s".into())
}

impl TrafficArgs {
    fn spec(&self, url: &str, closed: bool, seed: u64) -> Result<LoadSpec> {
        let url: Url = url
            .parse()
            .map_err(|error| Error::request(format!("--load: {error}")))?;
        let mut usual = LoadSpec::new(url);
        self.requests.apply(&mut usual)?;
        self.refuse_without_effect(&usual, closed)?;
        Ok(LoadSpec {
            connections: self.connections.unwrap_or(usual.connections),
            pipeline: self.pipeline.unwrap_or(usual.pipeline),
            arrivals: match self.arrivals {
                Some(ArrivalsArg::Uniform) => Arrivals::Uniform,
                _ => Arrivals::Poisson,
            },
            ramp: self.ramp.unwrap_or(usual.ramp),
            keys: self.keys.unwrap_or(usual.keys),
            zipf_exponent: self.zipf.unwrap_or(usual.zipf_exponent),
            value_bytes: self.value_bytes.unwrap_or(usual.value_bytes),
            read_percent: self.reads.unwrap_or(usual.read_percent),
            prefill: self.prefill.map_or(usual.prefill, |it| it == YesNo::Yes),
            timeout: self.timeout.unwrap_or(usual.timeout),
            connect_timeout: self.connect_timeout.unwrap_or(usual.connect_timeout),
            seed,
            request_slice: Some(jostle_host::sys::sched::request_slice),
            ..usual
        })
    }

    /// A flag that would do nothing is a misunderstanding.
    fn refuse_without_effect(&self, spec: &LoadSpec, closed: bool) -> Result<()> {
        let values = (!spec.url.kind.has_keys())
            .then_some("http:// stores no values under keys, so this does nothing; leave it out");
        let keys = (!spec.uses_keys()).then_some(
            "no request names a key; put {key} where its number belongs, or leave the flag out",
        );
        let one = (!spec.keep_alive)
            .then_some("without keep-alive a connection carries one request; leave it out");
        let open = closed.then_some(
            "in a closed loop (--closed) requests follow answers, so this does nothing; leave it \
             out",
        );
        for (flag, given, reason) in [
            ("--value-bytes", self.value_bytes.is_some(), values),
            ("--reads", self.reads.is_some(), values),
            ("--prefill", self.prefill.is_some(), values),
            (
                "--pipeline",
                self.pipeline.is_some_and(|depth| depth > 1),
                one,
            ),
            ("--keys", self.keys.is_some(), keys),
            ("--zipf", self.zipf.is_some(), keys),
            ("--arrivals", self.arrivals.is_some(), open),
            ("--ramp", self.ramp.is_some(), open),
        ] {
            if let Some(reason) = reason.filter(|_| given) {
                return Err(Error::request(format!("{flag}: {reason}")));
            }
        }
        Ok(())
    }
}

/// The load that a target is profiled under.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Send requests to the target meanwhile: redis://HOST:PORT,
    /// redis+unix:///PATH, memcached://HOST:PORT or http://HOST:PORT/PATH; with TLS
    /// rediss:// or https://
    #[arg(long = "load", id = "load", value_name = "URL")]
    url: Option<String>,
    /// Requests per second, whatever the answers take, like 50k/s
    #[arg(long, value_parser = parse_rate, group = "drive", requires = "load")]
    rate: Option<f64>,
    /// Next request as soon as an answer is there
    #[arg(long, group = "drive", requires = "load")]
    closed: bool,
    /// Search for the maximum sustainable rate under --slo first; this takes time beyond
    /// the budget, 3 minutes at most
    #[arg(long, group = "drive", requires_all = ["load", "slo"])]
    find_capacity: bool,
    /// Latency target of that search, like p99:1ms
    #[arg(long, value_name = "TARGET", requires = "find_capacity")]
    slo: Option<LatencyTarget>,
    /// Profile at this share of the capacity found; several, like 30,60,90, make a
    /// profile each and a table of what is tolerated at each
    #[arg(long, value_parser = number(1.0..=100.0f64), value_delimiter = ',', value_name = "PERCENT", default_value = "70", requires = "find_capacity")]
    load_share: Vec<f64>,
    /// The capacity, where it was found before, requests per second
    #[arg(skip)]
    known: Option<f64>,
    /// CPUs of the load generator [default: away from target and sources]
    #[arg(long, value_name = "LIST", requires = "load")]
    load_cpus: Option<String>,
    #[command(flatten)]
    traffic: TrafficArgs,
}

impl LoadArgs {
    /// The shares of the capacity to profile at, percent.
    pub fn shares(&self) -> &[f64] {
        &self.load_share
    }

    /// The same load at one share; `known` is the capacity where it was found before.
    pub fn at_share(&self, percent: f64, known: Option<f64>) -> LoadArgs {
        LoadArgs {
            load_share: vec![percent],
            known,
            ..self.clone()
        }
    }

    /// Whether a load is to be sent.
    pub fn given(&self) -> bool {
        self.url.is_some()
    }

    /// The load to send, if one was asked for; and the CPUs that sources should
    /// leave to it are in its placement.
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
                share: self.load_share.first().map_or(1.0, |share| share / 100.0),
                known: self.known,
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
            .map(|list| select::allowed("--load-cpus", list, machine))
            .transpose()?;
        let mut spec = self.traffic.spec(url, self.closed, seed)?;
        spec.placement = place(&machine.allowed_cpus, target_cpus, given.as_deref())?;
        Ok(Some(LoadPlan { spec, drive }))
    }
}

/// A latency target, and whether a percentile was given with it: only then is
/// missing it a failed gate.
#[derive(Clone, Copy, Debug)]
struct Slo {
    target: LatencyTarget,
    gate: bool,
}

fn slo(text: &str) -> std::result::Result<Slo, jostle_load::ParseError> {
    let gate = text.contains(':');
    text.parse().map(|target| Slo { target, gate })
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// redis://HOST:PORT[/DB], redis+unix:///PATH, memcached://HOST:PORT or
    /// http://HOST:PORT/PATH; with TLS rediss:// or https://
    #[arg(id = "load", value_name = "URL")]
    url: String,
    /// Requests per second, whatever the answers take, like 50k/s
    /// [with --find-capacity: the first rate tried]
    #[arg(long, value_parser = parse_rate, conflicts_with = "closed")]
    rate: Option<f64>,
    /// Next request as soon as an answer is there: shows the peak throughput
    #[arg(long, conflicts_with = "find_capacity")]
    closed: bool,
    /// Search for the maximum sustainable rate under --slo; ends after 3 minutes
    /// with the best rate known
    #[arg(long, requires = "slo", conflicts_with = "length")]
    find_capacity: bool,
    /// Latency target, like p99:1ms; a bound alone, like 1ms, means p99 for
    /// --find-capacity and otherwise only counts the answers within it
    #[arg(long, value_parser = slo, value_name = "TARGET")]
    slo: Option<Slo>,
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
    let target = args.slo.map(|slo| slo.target);
    let mut spec = args.traffic.spec(&args.url, args.closed, args.seed)?;
    spec.placement.spin = machine.allowed_cpus.len() > 1;
    if let Some(list) = &args.cpus {
        spec.placement.cpus = select::allowed("--cpus", list, &machine)?;
    }
    let interrupt = interrupt::flag()?;
    if let (true, Some(target)) = (args.find_capacity, target) {
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
    let (url, ramp) = (spec.url.to_string(), spec.ramp);
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
            "; the results cover what was sent until then".into(),
        ));
    }
    if window.answered == 0 {
        return Err(Error::environment(format!(
            "--load {url}: no request succeeded: {}",
            match window.failures.total() {
                0 => "none was due; give a higher --rate or a longer --for".into(),
                _ => window.failures.to_string(),
            }
        )));
    }
    match (args.slo, outcome.slo_met()) {
        (Some(Slo { target, gate: true }), Some(false)) => {
            Err(Error::Gate(format!("{target} was not met")))
        }
        _ => Ok(()),
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
            console::raw(format_args!("\r{}\x1b[K", report::line(&window)));
        }
        let all = match sum.take() {
            Some(mut all) => {
                all.merge(&window);
                all
            }
            None => window,
        };
        if last {
            if live {
                note!("");
            }
            return Ok(all);
        }
        sum = Some(all);
    }
}

fn warn(generator: &Generator, window: &Window) {
    if let Some(late) = window.lateness(jostle_load::Percentile::P99)
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
        true => output::json(&report::CapacityOutcome {
            url: generator.spec().url.to_string(),
            connections: generator.spec().connections,
            pipeline: generator.spec().pipeline,
            capacity: &found,
        })?,
        false => output::text(&report::capacity_text(&found, target))?,
    }
    if let Some(warning) = found.warning() {
        note!("warning: {warning}");
    }
    Ok(())
}
