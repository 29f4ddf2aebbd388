//! `jostle validate`: is the instrument true on this machine?

use super::duration::parse_duration;
use super::interrupt;
use super::output;
use super::progress;
use super::select;
use crate::report;
use crate::report::Style;
use jostle_host::inject::plan::plan;
use jostle_host::machine::Machine;
use jostle_host::machine::calibration::Calibration;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::validate::Request;
use jostle_measure::validate::validate;
use jostle_profile::cpulist::format_list;
use jostle_profile::resource::Resource;
use std::path::PathBuf;
use std::time::Duration;

/// Time taken unless told otherwise; `--quick`.
const BUDGET: Duration = Duration::from_secs(590);
const QUICK_BUDGET: Duration = Duration::from_secs(55);
/// Less gives no source a window.
const LEAST_BUDGET: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Sources to validate [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    resources: Vec<String>,
    /// Resources whose demos are the victims, the targets that every source is
    /// tried on; none leaves the matrix out [default: those of --resources]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    victims: Vec<String>,
    /// Measure the matrix alone, and no source by itself
    #[arg(long, conflicts_with = "check")]
    no_dials: bool,
    /// Within a minute: fewer levels, shorter windows
    #[arg(long)]
    quick: bool,
    /// Time to take [default: 590s; with --quick 55s]
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    budget: Option<Duration>,
    /// CPUs to run on [default: all allowed]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Measure peaks and slices at the start, even where this machine was
    /// calibrated
    #[arg(long)]
    no_machine_file: bool,
    #[command(flatten)]
    limits: select::LimitArgs,
    /// Seed of all random orders
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Exit with 1 when a bar is missed, or was not shown to hold because
    /// something could not be measured or decided
    #[arg(long)]
    check: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Show what would be injected where, and stop
    #[arg(long)]
    dry_run: bool,
}

pub fn run(args: Args) -> Result<()> {
    let machine = Machine::detect();
    let cpus = args.cpus.as_deref().map(|list| ("--cpus", list));
    let (calibration, _) = select::calibration(&machine, args.no_machine_file);
    let mut limits = args.limits.resolve(&machine, cpus)?;
    limits.llc_bytes = calibration.as_ref().and_then(Calibration::llc_bytes);
    let budget = args.budget.unwrap_or(match args.quick {
        true => QUICK_BUDGET,
        false => BUDGET,
    });
    if budget < LEAST_BUDGET {
        return Err(Error::request(format!(
            "--budget: give {} s or more",
            LEAST_BUDGET.as_secs()
        )));
    }
    let page = args
        .html
        .as_deref()
        .map(|path| output::Destination::named("--html", path))
        .transpose()?;
    let resources = select::resources(&args.resources)?;
    let victims = match &args.victims[..] {
        [] => resources.clone(),
        [none] if none == "none" => Vec::new(),
        named => named
            .iter()
            .map(|name| {
                let unknown = |error| Error::request(format!("--victims: {error}"));
                name.parse::<Resource>().map_err(unknown)
            })
            .collect::<Result<_>>()?,
    };
    let request = Request {
        resources,
        victims,
        dials: !args.no_dials,
        limits,
        budget,
        quick: args.quick,
        seed: args.seed,
        calibration,
        interrupt: interrupt::flag()?,
    };
    if args.dry_run {
        return output::text(&dry_run(&machine, &request));
    }
    let bar = progress::bar(1000, "{bar:24} {elapsed} {msg}");
    let outcome = validate(&machine, &request, &mut |share, what| {
        bar.set_position((share * 1000.0) as u64);
        bar.set_message(what.to_string());
    });
    bar.finish_and_clear();
    let validation = outcome?;
    if let Some(page) = page {
        page.replace(report::validation_html(&validation).as_bytes())?;
    }
    match args.json {
        true => output::json(&validation)?,
        false => output::text(&report::validation_page(&validation, Style::for_stdout()))?,
    }
    let failures = validation.failures();
    match args.check && !failures.is_empty() {
        true => Err(Error::Gate(format!("--check: {}", failures.join("; ")))),
        false => Ok(()),
    }
}

fn dry_run(machine: &Machine, request: &Request) -> String {
    let target: Vec<usize> = machine.quietest_cpu().into_iter().collect();
    let slices = select::default_slices();
    let mut text = select::dry_run_limits(&request.limits, request.budget);
    text += "each source alone at 0 to 100 %, then at 100 % beside the demo of each of ";
    let victims: Vec<&str> = request.victims.iter().map(|victim| victim.id()).collect();
    text += &format!("{} on CPU {}:\n", victims.join(", "), format_list(&target));
    for &resource in &request.resources {
        text += &match plan(machine, resource, &target, &request.limits, slices) {
            Ok(plan) => format!(
                "{:<18} {} on CPUs {}\n",
                resource.id(),
                report::mode(plan.placement.mode),
                format_list(&plan.placement.cpus)
            ),
            Err(refusal) => format!("{:<18} {refusal}\n", resource.id()),
        };
    }
    text
}
