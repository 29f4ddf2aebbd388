//! `jostle list`: the sources, and where each runs on this machine.

use super::output;
use super::select;
use crate::report;
use jostle_host::inject::placement::Refusal;
use jostle_host::inject::plan::plan;
use jostle_host::machine::Machine;
use jostle_measure::error::Result;
use jostle_profile::cpulist::format_list;
use jostle_profile::resource::Resource;
use serde::Serialize;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also say what each source does, and what it does not prove
    #[arg(long)]
    long: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    resource: &'static str,
    domain: &'static str,
    pressure_unit: &'static str,
    summary: &'static str,
    /// Beside a target on the CPU that would be its default.
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<jostle_profile::Placement>,
    /// `available`, `not-shared` or `unavailable`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    doc: &'static str,
}

pub fn run(args: Args) -> Result<()> {
    let machine = Machine::detect();
    let limits = select::LimitArgs::default().resolve(&machine, None)?;
    let target: Vec<usize> = machine.quietest_cpu().into_iter().collect();
    let slices = select::default_slices();
    let rows: Vec<Row> = Resource::ALL
        .iter()
        .map(|&resource| {
            let planned = plan(&machine, resource, &target, &limits, slices);
            let (status, placement, reason) = match planned {
                Ok(plan) => ("available", Some(plan.placement), None),
                Err(Refusal::NotShared(reason)) => ("not-shared", None, Some(reason)),
                Err(Refusal::Unavailable(reason)) => ("unavailable", None, Some(reason)),
            };
            Row {
                resource: resource.id(),
                domain: resource.row().domain.as_str(),
                pressure_unit: resource.row().pressure_unit,
                summary: resource.row().summary,
                placement,
                status,
                reason,
                doc: jostle_kernels::source(resource).doc,
            }
        })
        .collect();
    match args.json {
        true => output::json(&rows),
        false => output::text(&table(&rows, &target, args.long)),
    }
}

fn table(rows: &[Row], target: &[usize], long: bool) -> String {
    let mut text = format!(
        "Sources of interference, and where each runs beside a target on CPU {}:\n\n",
        format_list(target)
    );
    for row in rows {
        let place = match &row.placement {
            Some(placement) => format!(
                "{}, CPU {}",
                report::mode(placement.mode),
                format_list(&placement.cpus)
            ),
            None => row.status.replace('-', " "),
        };
        text += &format!(
            "{:<18} {:<14} {place:<22} {}\n",
            row.resource, row.domain, row.summary
        );
        if let Some(reason) = &row.reason {
            text += &format!("{:18} ({reason})\n", "");
        }
        if long {
            text += &format!("\n{}\n", report::wrap("    ", row.doc, 76));
        }
    }
    text
}
