//! Records the noise of a machine: what a target does in each of its turns while
//! a placebo takes a fifth of its CPU in slices, and nothing else is done to it.
//!
//! The target is any command that publishes its progress, `jostle demo` for
//! one. It is pinned to one CPU, and a worker of a profile plays its placebo there.
//! The format of the file is that of crates/statistics/tests/fixtures/noise.

use clap::Parser;
use jostle_host::inject::group::WorkerGroup;
use jostle_host::inject::plan::Limits;
use jostle_host::inject::plan::plan;
use jostle_host::inject::process::Host;
use jostle_host::inject::worker::Slices;
use jostle_host::machine::Machine;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::control_page::Order;
use jostle_host::sys::handover::Layout;
use jostle_host::sys::handover::Readable;
use jostle_host::sys::handover::version;
use jostle_host::sys::pages::ProgressPage;
use jostle_host::sys::process;
use jostle_host::sys::process::ChildSetup;
use jostle_host::sys::process::signal_group;
use jostle_host::sys::tape::PlannedBlock;
use jostle_host::sys::tape::Turn;
use jostle_profile::resource::Resource;
use jostle_statistics::median;
use nix::sys::signal::Signal;
use std::error::Error;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

/// One unit of the times in the file.
const UNIT_NS: u64 = 250;
/// Units that the count of a usual turn has at least, where it is that large.
const USUAL_UNITS: f64 = 2000.0;
/// How long a block of the placebo lasts; only that it is short matters.
const BLOCK: Duration = Duration::from_millis(100);
/// Time planned ahead.
const AHEAD: Duration = Duration::from_millis(400);
/// Time a target gets to publish its progress, and then to get going.
const START: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_millis(1500);
/// Turns that lost more than this share of the usual rate are counted.
const HIT: f64 = 0.15;

#[derive(Parser)]
#[command(about = "Records what a target does in each turn beside a placebo")]
struct Args {
    /// The file to write.
    out: PathBuf,
    /// How long to record.
    #[arg(long, default_value_t = 40.0)]
    seconds: f64,
    /// The CPU that the target and the placebo share.
    #[arg(long, default_value_t = 0)]
    cpu: usize,
    /// Milliseconds from slice to slice.
    #[arg(long, default_value_t = 0.5)]
    period: f64,
    /// The jostle binary; default: the one built beside this program.
    #[arg(long)]
    jostle: Option<PathBuf>,
    /// The target: a command that publishes its progress. The word `jostle` is the
    /// binary above.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What the target did between two slices.
struct Between {
    ns: u64,
    operations: u64,
}

fn main() -> Outcome<()> {
    let args = Args::parse();
    let jostle = match &args.jostle {
        Some(path) => path.clone(),
        None => beside()?,
    };
    process::set_executable(&jostle);
    let group = placebo(&args)?;
    let (host, _) = group.hosts().next().ok_or("the placebo has no worker")?;
    let mut target = start(&args, &jostle)?;
    let recorded = record(&args, host, &mut target);
    signal_group(target.id() as i32, Signal::SIGKILL)?;
    target.wait()?;
    let (turns, slice_ns) = recorded?;
    write(&args.out, &turns, slice_ns)?;
    describe(&args.out, &turns);
    Ok(())
}

fn beside() -> Outcome<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().and_then(Path::parent);
    let path = folder.map(|folder| folder.join("jostle"));
    let path = path.filter(|path| path.exists());
    path.ok_or_else(|| "no jostle beside this program; name one with --jostle".into())
}

/// A worker whose source is never let go: the placebo of each is the same.
fn placebo(args: &Args) -> Outcome<WorkerGroup> {
    let limits = Limits {
        cpus: vec![args.cpu],
        memory_bytes: 1 << 30,
        most_filled_bytes: None,
        memory_reserve_bytes: 1 << 29,
        scratch: Err("nothing is written".into()),
        scratch_bytes: 0,
        storage_pattern: Default::default(),
        llc_bytes: None,
        access: Default::default(),
        max_stall_percent: 100.0,
        network: None,
    };
    let slices = Slices::usual(Duration::from_secs_f64(args.period / 1e3));
    let machine = Machine::detect();
    let plan = plan(&machine, Resource::L1d, &[args.cpu], &limits, slices)
        .map_err(|refusal| refusal.to_string())?;
    WorkerGroup::spawn(plan, START).map_err(|error| format!("the placebo: {error}").into())
}

fn start(args: &Args, jostle: &Path) -> Outcome<Child> {
    let name = match args.command[0].as_str() {
        "jostle" => jostle,
        other => Path::new(other),
    };
    let mut command = Command::new(name);
    command.args(&args.command[1..]).stdout(Stdio::null());
    let setup = ChildSetup {
        cpus: Some(vec![args.cpu]),
        ..ChildSetup::default()
    };
    process::prepare(&mut command, setup);
    let started = command.spawn();
    started.map_err(|error| format!("{}: {error}", name.display()).into())
}

/// The page on which `pid` publishes its progress.
fn page(pid: u32) -> Option<File> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut entries = entries.flatten();
    let found = entries.find(|entry| {
        let path = std::fs::read_link(entry.path());
        path.is_ok_and(|path| path.to_string_lossy().contains(ProgressPage::NAME))
    });
    let options = File::options().read(true).write(true).clone();
    options.open(found?.path()).ok()
}

fn watch(host: &Host, target: &mut Child) -> Outcome<()> {
    let deadline = Instant::now() + START;
    loop {
        if let Some(ended) = target.try_wait()? {
            return Err(format!("the target ended: {ended}").into());
        }
        if let Some(page) = page(target.id()) {
            let readable = Readable {
                layout: Layout::Page,
                descriptors: vec![page.as_fd()],
            };
            host.watch(version(), &readable)
                .map_err(|error| error.to_string())?;
            break;
        }
        if Instant::now() > deadline {
            return Err("the target publishes no progress".into());
        }
        sleep(Duration::from_millis(10));
    }
    sleep(WARM_UP);
    match host.tape.sees() {
        Some(true) => Ok(()),
        _ => Err("the worker cannot read the target's progress".into()),
    }
}

/// The turns, and the usual length of a slice.
fn record(args: &Args, host: &Host, target: &mut Child) -> Outcome<(Vec<Between>, u64)> {
    watch(host, target)?;
    let tape = &host.tape;
    let period_ns = (args.period * 1e6) as u64;
    let periods = (BLOCK.as_nanos() as u64 / period_ns).max(1) as u32;
    let block_ns = u64::from(periods) * period_ns;
    let begin = monotonic_ns() + 10_000_000;
    let end = begin + (args.seconds * 1e9) as u64;
    let mut next = begin;
    let mut turns: Vec<Turn> = Vec::new();
    while monotonic_ns() < end {
        while next < end && next < monotonic_ns() + AHEAD.as_nanos() as u64 {
            let planned = tape.plan(PlannedBlock {
                busy: false,
                source: 0,
                order: Order::Control,
                begin_ns: next,
                periods,
                period_ns,
            });
            if planned.is_none() {
                break;
            }
            next += block_ns;
        }
        sleep(BLOCK / 2);
        turns.extend(tape.take());
        if let Some(ended) = target.try_wait()? {
            return Err(format!("the target ended: {ended}").into());
        }
    }
    if tape.lost() > 0 {
        return Err(format!("{} turns were lost; is the machine this busy?", tape.lost()).into());
    }
    let between = turns.windows(2).map(|two| Between {
        ns: two[1].begin.at_ns - two[0].end.at_ns,
        operations: two[1].begin.operations - two[0].end.operations,
    });
    let lengths = turns.iter().map(|turn| turn.end.at_ns - turn.begin.at_ns);
    let mut lengths: Vec<f64> = lengths.map(|ns| ns as f64).collect();
    Ok((between.collect(), median(&mut lengths) as u64))
}

fn write(out: &Path, turns: &[Between], slice_ns: u64) -> Outcome<()> {
    let mut counts: Vec<f64> = turns.iter().map(|turn| turn.operations as f64).collect();
    let usual = median(&mut counts);
    let unit_count = ((usual / USUAL_UNITS) as u64).max(1);
    let head = format!("noise unit_ns {UNIT_NS} unit_count {unit_count} slice_ns {slice_ns}\n");
    let mut bytes = head.into_bytes();
    // What rounding leaves goes to the next turn.
    let (mut ns, mut operations) = (0, 0);
    for turn in turns {
        for (rest, new, unit) in [
            (&mut ns, turn.ns, UNIT_NS),
            (&mut operations, turn.operations, unit_count),
        ] {
            *rest += new;
            let units = *rest / unit;
            *rest %= unit;
            bytes.extend((units.min(u64::from(u16::MAX)) as u16).to_le_bytes());
        }
    }
    std::fs::write(out, bytes).map_err(|error| format!("{}: {error}", out.display()).into())
}

fn describe(out: &Path, turns: &[Between]) {
    let rates = turns.iter().filter(|turn| turn.ns > 0);
    let rates: Vec<f64> = rates
        .map(|turn| turn.operations as f64 / turn.ns as f64)
        .collect();
    let usual = median(&mut rates.clone());
    let hit = rates
        .iter()
        .filter(|rate| **rate < (1.0 - HIT) * usual)
        .count();
    println!(
        "{}: {} turns, usually {:.4} operations a microsecond; {:.1} % of them lost more than {:.0} %",
        out.display(),
        turns.len(),
        1e3 * usual,
        100.0 * hit as f64 / rates.len() as f64,
        100.0 * HIT
    );
}
