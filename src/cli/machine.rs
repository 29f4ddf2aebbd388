//! `jostle machine`: what this machine is, and what calibration found.

use super::duration::parse_duration;
use super::interrupt;
use super::output;
use super::progress::Bar;
use super::select;
use crate::calibrate;
use crate::calibrate::Stop;
use crate::calibrate::press::Live;
use crate::console::note;
use crate::console::warning;
use crate::error::Error;
use crate::error::Result;
use crate::inject::stall::StallGuard;
use crate::machine::Machine;
use crate::machine::calibration::Calibration;
use crate::machine::gauge;
use crate::machine::gauge::Gauge;
use crate::machine::gauge::Gauges;
use crate::machine::saved;
use crate::machine::saved::Saved;
use crate::report;
use crate::report::Style;
use jostle_profile::cpulist::format_list;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;
use serde::Serialize;
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
    let machine = Machine::detect();
    if args.calibrate {
        return calibrated(&args, &machine);
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
    print(&machine, calibration, args.json)
}

fn calibrated(args: &Args, machine: &Machine) -> Result<()> {
    let budget = args.budget.unwrap_or(calibrate::BUDGET);
    if budget < calibrate::LEAST_BUDGET {
        return Err(Error::request(format!(
            "--budget: less than {} s is not enough to measure anything; the default is {} s",
            calibrate::LEAST_BUDGET.as_secs(),
            calibrate::BUDGET.as_secs()
        )));
    }
    let request = calibrate::Request {
        machine,
        resources: Resource::ALL,
        limits: args.limits.resolve(machine, None)?,
        budget,
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
    print(machine, Reading::Value(&calibration), args.json)?;
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

fn print(machine: &Machine, calibration: Reading<&Calibration>, as_json: bool) -> Result<()> {
    if !as_json {
        return output::text(&format!(
            "{machine}{}",
            report::calibration_text(&calibration, Style::for_stdout())
        ));
    }
    let (memory_headroom_bytes, memory_headroom_bound) = machine.memory_headroom_bytes();
    output::json(&Document {
        format: "jostle-machine/1",
        fingerprint: machine.fingerprint(),
        smt: machine.smt(),
        memory_headroom_bytes,
        memory_headroom_bound,
        machine,
        calibration,
    })
}
