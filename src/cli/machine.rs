//! `jostle machine`: what this machine is, and what calibration found.

use super::duration::parse_duration;
use super::interrupt;
use super::output;
use super::output::Destination;
use super::progress::Bar;
use super::select;
use crate::report;
use crate::report::Style;
use jostle_host::inject::stall::StallGuard;
use jostle_host::machine::Machine;
use jostle_host::machine::calibration::Calibration;
use jostle_host::machine::described;
use jostle_host::machine::differences::differences;
use jostle_host::machine::gauge;
use jostle_host::machine::gauge::Gauge;
use jostle_host::machine::gauge::Gauges;
use jostle_host::machine::saved;
use jostle_host::machine::saved::Saved;
use jostle_measure::calibrate;
use jostle_measure::calibrate::Stop;
use jostle_measure::calibrate::press::Live;
use jostle_measure::console::note;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::cpulist::format_list;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

/// From one line of --watch to the next.
const SAID_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure sizes, peaks, settle times and reporter curves anew, and save
    /// them for this machine
    #[arg(long)]
    calibrate: bool,
    /// Time for that [default: 54s]
    #[arg(long, value_parser = parse_duration, value_name = "TIME", requires = "calibrate")]
    budget: Option<Duration>,
    /// With --calibrate: show what would be injected where, and stop
    #[arg(long, requires = "calibrate")]
    dry_run: bool,
    /// Show how much of each shared resource this machine really gets, over time,
    /// until Ctrl-C or --for
    #[arg(long, conflicts_with_all = ["calibrate", "budget", "dry_run"])]
    watch: bool,
    /// With --watch: for how long
    #[arg(long = "for", value_parser = parse_duration, value_name = "TIME", requires = "watch")]
    length: Option<Duration>,
    /// With --watch: on which CPU [default: the one that devices interrupt least]
    #[arg(long, value_name = "N", requires = "watch")]
    cpu: Option<usize>,
    /// Tell what differs between two machines, as `jostle machine --json` printed
    /// them there, or between their machine files
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["calibrate", "budget", "dry_run", "watch", "length", "cpu"])]
    compare: Vec<PathBuf>,
    /// Write a page for a browser, also of --compare
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "watch", "length", "cpu"])]
    html: Option<PathBuf>,
    #[command(flatten)]
    limits: select::LimitArgs,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// What is read, and what follows from it.
#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    fingerprint: String,
    smt: bool,
    memory_headroom_bytes: u64,
    memory_headroom_bound: String,
    #[serde(flatten)]
    machine: &'a Machine,
    calibration: Reading<&'a Calibration>,
}

pub fn run(args: Args) -> Result<()> {
    let page = args.html.as_deref();
    let page = page.map(|path| output::Destination::named("--html", path));
    let page = page.transpose()?;
    if let [one, other] = &args.compare[..] {
        return compared([one, other], page, args.json);
    }
    let machine = Machine::detect();
    if args.calibrate {
        return calibrated(&args, &machine, page);
    }
    if let Some(flag) = args.limits.given() {
        return Err(Error::request(format!(
            "{flag}: only --calibrate injects anything; add it, or leave {flag} out"
        )));
    }
    let saved = saved::load(&machine);
    if args.watch {
        return watched(&args, &machine, &saved);
    }
    if let Saved::Ignored(warning) = &saved {
        warning!("{warning}");
    }
    let calibration = match &saved {
        Saved::Found(calibration) => Reading::Value(calibration.as_ref()),
        Saved::Nothing(reason) | Saved::Ignored(reason) => Reading::unavailable(reason),
    };
    print(&machine, calibration, args.json, page)
}

/// What differs between two machines.
fn compared(files: [&PathBuf; 2], page: Option<Destination>, json: bool) -> Result<()> {
    let load = |path: &PathBuf| {
        let loaded = described::load(path);
        loaded.map_err(|problem| Error::request(format!("--compare {problem}")))
    };
    let (one, other) = (load(files[0])?, load(files[1])?);
    let found = differences([&one, &other]);
    if let Some(page) = page {
        page.replace(report::differences_html(&found).as_bytes())?;
    }
    match json {
        true => output::json(&found),
        false => output::text(&report::differences_page(&found, Style::for_stdout())),
    }
}

fn calibrated(args: &Args, machine: &Machine, page: Option<Destination>) -> Result<()> {
    let budget = args.budget.unwrap_or(calibrate::BUDGET);
    if budget < calibrate::LEAST_BUDGET {
        return Err(Error::request(format!(
            "--budget: less than {} s is not enough to measure anything; the default is {} s",
            calibrate::LEAST_BUDGET.as_secs(),
            calibrate::BUDGET.as_secs()
        )));
    }
    let earlier = match saved::load(machine) {
        Saved::Found(calibration) => Some(calibration),
        Saved::Nothing(_) | Saved::Ignored(_) => None,
    };
    let request = calibrate::Request {
        machine,
        resources: Resource::ALL,
        limits: args.limits.resolve(machine, None)?,
        budget,
        earlier: earlier.as_deref(),
    };
    if args.dry_run {
        return output::text(&calibrate::dry_run(&request));
    }
    // Whether the result can be kept is known before it is measured.
    let path = saved::path(&machine.fingerprint()).map_err(Error::environment)?;
    saved::prepare(&path).map_err(Error::environment)?;
    let flag = interrupt::flag()?;
    let bar = Bar::new(budget);
    let guard = Mutex::new(StallGuard::new(request.limits.max_stall_percent));
    let stalled = Mutex::new(None);
    let stop = || {
        let mut stalled = stalled.lock().expect("no holder panics");
        if stalled.is_none() {
            *stalled = guard.lock().expect("no holder panics").look();
        }
        stalled.is_some() || interrupt::raised(&flag)
    };
    let calibration = calibrate::calibrate(
        &request,
        &Live {
            stop: &stop,
            say: &|text| bar.step(text),
        },
    );
    bar.finish();
    if let Some(reason) = stalled.lock().expect("no holder panics").take() {
        return Err(Error::environment(format!(
            "{reason}; what was saved before is as it was"
        )));
    }
    let calibration = calibration.map_err(|stop| match stop {
        Stop::Interrupted => Error::Interrupted("; what was saved before is as it was".to_string()),
        Stop::Failed(reason) => Error::environment(reason),
    })?;
    saved::save(&calibration, &path).map_err(Error::environment)?;
    print(machine, Reading::Value(&calibration), args.json, page)?;
    note!("wrote {}", path.display());
    Ok(())
}

/// What `--watch` found, for programs.
#[derive(Serialize)]
struct Watched<'a> {
    format: &'static str,
    cpu: usize,
    seconds: f64,
    gauges: Vec<WatchedGauge<'a>>,
}

#[derive(Serialize)]
struct WatchedGauge<'a> {
    #[serde(flatten)]
    gauge: &'a Gauge,
    looks: usize,
    free_percent: Option<f64>,
    median_ns: Option<f64>,
}

fn watched(args: &Args, machine: &Machine, saved: &Saved) -> Result<()> {
    let calibration = match saved {
        Saved::Found(calibration) => Some(calibration.as_ref()),
        Saved::Nothing(_) | Saved::Ignored(_) => None,
    };
    let cpu = args.cpu.or_else(|| machine.quietest_cpu());
    let cpu = cpu.ok_or_else(|| Error::environment("no CPU is allowed to this process"))?;
    if !machine.allowed_cpus.contains(&cpu) {
        return Err(Error::request(format!(
            "--cpu {cpu}: this process may use CPUs {}",
            format_list(&machine.allowed_cpus)
        )));
    }
    let flag = interrupt::flag()?;
    let mut gauges = Gauges::on(machine, cpu, calibration).map_err(Error::environment)?;
    let (began, mut said) = (Instant::now(), Instant::now());
    let over = || args.length.is_some_and(|length| began.elapsed() >= length);
    let mut since = 0;
    if !args.json {
        output::text(&report::gauges_head(cpu, &gauges.gauges))?;
    }
    while !interrupt::raised(&flag) && !over() {
        let round = Instant::now();
        gauges.look().map_err(Error::environment)?;
        since += 1;
        if said.elapsed() >= SAID_EVERY && !args.json {
            output::text(&report::gauges_line(began.elapsed(), &gauges.gauges, since))?;
            (said, since) = (Instant::now(), 0);
        }
        sleep(gauge::ROUND.saturating_sub(round.elapsed()));
    }
    if !args.json {
        return output::text(&report::gauges_sum(&gauges.gauges));
    }
    let of = |gauge| WatchedGauge::of(gauge);
    output::json(&Watched {
        format: "jostle-watch/1",
        cpu,
        seconds: began.elapsed().as_secs_f64(),
        gauges: gauges.gauges.iter().map(of).collect(),
    })
}

impl<'a> WatchedGauge<'a> {
    fn of(gauge: &'a Gauge) -> WatchedGauge<'a> {
        WatchedGauge {
            gauge,
            looks: gauge.looks.len(),
            free_percent: gauge.free_percent(usize::MAX),
            median_ns: gauge.quantile(0.5),
        }
    }
}

fn print(
    machine: &Machine,
    calibration: Reading<&Calibration>,
    as_json: bool,
    page: Option<Destination>,
) -> Result<()> {
    let (memory_headroom_bytes, memory_headroom_bound) = machine.memory_headroom_bytes();
    let document = Document {
        format: described::FORMAT,
        fingerprint: machine.fingerprint(),
        smt: machine.smt(),
        memory_headroom_bytes,
        memory_headroom_bound,
        machine,
        calibration: calibration.clone(),
    };
    if let Some(page) = page {
        // As another machine would read it.
        let bytes = serde_json::to_vec(&document).map_err(Error::environment)?;
        let described = described::parse(&bytes, "this machine").map_err(Error::environment)?;
        page.replace(report::machine_html(&described).as_bytes())?;
    }
    if !as_json {
        return output::text(&format!(
            "{machine}{}",
            report::calibration_text(&calibration, Style::for_stdout())
        ));
    }
    output::json(&document)
}
