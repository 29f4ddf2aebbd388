//! In what a plan differs from the table of docs/method.md, in a few lines: said
//! before anything is stressed.

use super::plan::Plans;
use super::plan::Request;
use jostle_host::inject::WorkerPlan;
use jostle_host::inject::placement::Refusal;
use jostle_host::inject::placement::place;
use jostle_host::machine::Machine;
use jostle_host::machine::format_bytes;
use jostle_profile::cpulist::format_list;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;
use std::collections::BTreeMap;

/// More names than this are counted.
const NAMED: usize = 4;

/// One line each for the target's CPUs, sources that are closer to the target
/// than they should be, and what limits cut off. Nothing where all is as usual.
pub(super) fn lines(machine: &Machine, request: &Request, plans: &Plans) -> Vec<String> {
    let all = [
        target(request),
        crowded(request, plans),
        cut_off(machine, request, plans),
    ];
    all.into_iter().flatten().collect()
}

fn target(request: &Request) -> Option<String> {
    let choice = &request.cpu_choice;
    if request.target_cpus.len() == 1 && choice.advice.is_none() && !choice.looked {
        return None;
    }
    let mut line = format!(
        "target on CPU{} {}: {}",
        plural(&request.target_cpus),
        format_list(&request.target_cpus),
        choice.because
    );
    if let Some(advice) = &choice.advice {
        line += &format!("; {advice}");
    }
    Some(line)
}

/// Resources that should have a CPU of their own and have none.
fn crowded(request: &Request, plans: &Plans) -> Option<String> {
    let ready = plans.ready.iter();
    let names: Vec<&str> = ready
        .filter(|(resource, _)| !close(*resource))
        .filter(|(_, plan)| meets(request, plan))
        .map(|(resource, _)| resource.id())
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "the sources may use no other CPU{} than the target's for {}",
            plural(&request.target_cpus),
            listed(&names)
        )
    })
}

fn plural(cpus: &[usize]) -> &'static str {
    if cpus.len() == 1 { "" } else { "s" }
}

/// Whether a source runs on a CPU of the target.
fn meets(request: &Request, plan: &WorkerPlan) -> bool {
    let mut cpus = plan.placement.cpus.iter();
    cpus.any(|cpu| request.target_cpus.contains(cpu))
}

/// Whether a source of `resource` belongs as close to the target as possible.
fn close(resource: Resource) -> bool {
    matches!(
        resource.row().domain,
        Domain::LogicalCpu | Domain::PhysicalCore | Domain::L2Group
    )
}

fn cut_off(machine: &Machine, request: &Request, plans: &Plans) -> Option<String> {
    let mut parts = Vec::new();
    let allowed = &machine.allowed_cpus;
    let workers = &request.limits.cpus;
    let fewer: Vec<String> = plans
        .ready
        .iter()
        .filter(|(resource, plan)| !close(*resource) && !meets(request, plan))
        .filter_map(|(resource, plan)| {
            let usual = place(machine, *resource, &request.target_cpus, allowed).ok()?;
            let (usual, planned) = (usual.cpus.len(), plan.placement.cpus.len());
            (planned < usual).then(|| format!("{resource} on {planned} of {usual} CPUs"))
        })
        .collect();
    if !fewer.is_empty() {
        let fewer: Vec<&str> = fewer.iter().map(String::as_str).collect();
        let only = format_list(workers);
        parts.push(format!(
            "the sources may use CPU{} {only} alone: {}",
            plural(workers),
            listed(&fewer)
        ));
    }
    let memory = |(resource, _): &(Resource, _)| *resource == Resource::MemoryCapacity;
    let (headroom, bound) = machine.memory_headroom_bytes();
    if plans.ready.iter().any(memory) && headroom < machine.memory.available_bytes {
        parts.push(format!(
            "memory-capacity takes {} at most: {bound}",
            format_bytes(request.limits.memory_bytes)
        ));
    }
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (resource, refusal) in &plans.unavailable {
        // Nobody expects traffic to a peer that was not named.
        let network = resource.parse() == Ok(Resource::NetworkBandwidth);
        if let (Refusal::Unavailable(reason), false) = (refusal, network) {
            missing.entry(reason).or_default().push(resource);
        }
    }
    let missing = missing.iter();
    parts.extend(missing.map(|(reason, names)| format!("no {}: {reason}", listed(names))));
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn listed(names: &[&str]) -> String {
    match names.len() > NAMED {
        true => format!(
            "{} and {} more",
            names[..NAMED - 1].join(", "),
            names.len() - (NAMED - 1)
        ),
        false => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::plan::tests::request;
    use jostle_host::inject::slice::PERIODS;
    use jostle_host::machine::fake;
    use jostle_profile::reading::Reading;

    fn said(machine: &Machine, request: &Request) -> Vec<String> {
        lines(machine, request, &request.plans(machine, PERIODS[0]))
    }

    #[test]
    fn nothing_is_said_where_all_is_as_usual() {
        for machine in [fake::cores(2, 1), fake::cores(4, 2)] {
            assert_eq!(said(&machine, &request(&machine, &[1])), [""; 0]);
        }
    }

    #[test]
    fn a_target_on_all_cpus_and_its_company() {
        let machine = fake::cores(2, 1);
        let lines = said(&machine, &request(&machine, &[0, 1]));
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("CPUs 0-1: asked for with --cpus"));
        let crowded = &lines[1];
        assert!(crowded.contains("CPUs than the target's for llc-capacity"));
    }

    #[test]
    fn advice_on_a_target_that_may_be_moved() {
        let machine = fake::cores(4, 1);
        let mut request = request(&machine, &[2]);
        request.cpu_choice.advice = Some("pin it".into());
        let lines = said(&machine, &request);
        assert!(
            lines.len() == 1 && lines[0].ends_with("; pin it"),
            "{lines:?}"
        );
    }

    #[test]
    fn limits_that_cut_something_off() {
        let mut machine = fake::cores(8, 1);
        let mut request = request(&machine, &[1]);
        request.limits.cpus = vec![0, 3];
        request.limits.scratch = Err("no disk".into());
        machine.cgroup.memory_headroom_bytes = Reading::Value(5 << 30);
        let lines = said(&machine, &request);
        assert_eq!(lines.len(), 1, "{lines:?}");
        for part in [
            "CPUs 0,3 alone: llc-capacity on 2 of 4 CPUs",
            "memory-capacity takes 4 GiB at most",
            "no storage-capacity, storage-bandwidth: no disk",
        ] {
            assert!(lines[0].contains(part), "{part}: {lines:?}");
        }
        assert!(!lines[0].contains("network"));
        // Sources that may use the target's CPU alone.
        request.limits.cpus = vec![1];
        let lines = said(&machine, &request);
        assert!(
            lines[0].contains("no other CPU than the target's"),
            "{lines:?}"
        );
        assert!(!lines[1].contains("llc-capacity"), "{lines:?}");
    }
}
