//! From readings and profiles to the state of the node: what is used, what is caused,
//! and how much pressure more everybody tolerates.

use jostle_profile::Profile;
use jostle_profile::node::LeastTolerated;
use jostle_profile::node::NodeResource;
use jostle_profile::node::ProfileSummary;
use jostle_profile::node::WorkloadReadings;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;
use std::collections::BTreeMap;

/// What the sums of a node are made of.
pub(super) struct Resident<'a> {
    pub(super) name: &'a str,
    pub(super) profile: Option<&'a ProfileSummary>,
    pub(super) readings: &'a WorkloadReadings,
}

/// The machine, as far as shares refer to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) cpus: usize,
    pub(super) memory_bytes: u64,
}

/// The scores of a profile that are compared on a node.
pub(super) fn summary(name: &str, profile: &Profile, fingerprint: &str) -> ProfileSummary {
    let mut summary = ProfileSummary {
        name: name.into(),
        recorded_at: profile.conditions.recorded_at.clone(),
        of_this_machine: profile.machine.fingerprint == fingerprint,
        tolerated: BTreeMap::new(),
        caused: BTreeMap::new(),
        used_percent: BTreeMap::new(),
    };
    for (id, entry) in &profile.resources {
        if let Some(score) = &entry.tolerated {
            summary.tolerated.insert(id.clone(), score.score);
        }
        if let Some(score) = &entry.caused {
            summary.caused.insert(id.clone(), score.score);
        }
    }
    let quantities = profile
        .usage
        .iter()
        .flat_map(|usage| usage.quantities.values());
    for quantity in quantities.filter_map(Reading::value) {
        if let (Some(id), Some(share)) = (&quantity.resource, quantity.share.value()) {
            // Several quantities may be of one resource: bytes read and written.
            let sum = summary.used_percent.entry(id.clone()).or_default();
            *sum += share.percent;
        }
    }
    summary
}

/// Every resource of the table, over all residents.
pub(super) fn resources(residents: &[Resident], size: Size) -> BTreeMap<String, NodeResource> {
    let of = |resource: &Resource| {
        (
            resource.id().to_string(),
            resource_of(*resource, residents, size),
        )
    };
    Resource::ALL.iter().map(of).collect()
}

fn resource_of(resource: Resource, residents: &[Resident], size: Size) -> NodeResource {
    let id = resource.id();
    let tolerated = |it: &Resident| it.profile?.tolerated.get(id).copied();
    let caused = |it: &Resident| it.profile?.caused.get(id).copied();
    let known: Vec<f64> = residents.iter().filter_map(caused).collect();
    let total: f64 = known.iter().sum();
    let nobody = |what: &str| match residents.is_empty() {
        true => "no workload runs here".to_string(),
        false => format!("no resident's profile says what it {what}"),
    };
    let tolerant = residents.iter().filter_map(|it| Some((it, tolerated(it)?)));
    let least = tolerant.clone().min_by(|(_, a), (_, b)| a.total_cmp(b));
    // What all others cause: a resident does not disturb itself.
    let left = tolerant.map(|(it, score)| score - (total - caused(it).unwrap_or(0.0)));
    let headroom = left.min_by(f64::total_cmp);
    let without = residents
        .iter()
        .filter(|it| tolerated(it).is_none() || caused(it).is_none());
    NodeResource {
        used_percent: used(resource, residents, size).into(),
        caused: match known.is_empty() {
            true => Reading::unavailable(nobody("causes")),
            false => Reading::Value(total),
        },
        least_tolerated: match least {
            Some((resident, score)) => Reading::Value(LeastTolerated {
                score,
                workload: resident.name.into(),
            }),
            None => Reading::unavailable(nobody("tolerates")),
        },
        headroom: match headroom {
            Some(points) => Reading::Value(points),
            None => Reading::unavailable(nobody("tolerates")),
        },
        residents_without_score: without.count() as u64,
    }
}

/// Share of the peak that is used by all, percent.
fn used(resource: Resource, residents: &[Resident], size: Size) -> Result<f64, String> {
    let live = |of: &dyn Fn(&WorkloadReadings) -> Option<f64>, peak: f64| {
        let readings: Vec<f64> = residents.iter().filter_map(|it| of(it.readings)).collect();
        match readings.is_empty() || peak <= 0.0 {
            true => Err("no workload's use could be read".to_string()),
            false => Ok(100.0 * readings.iter().sum::<f64>() / peak),
        }
    };
    match resource {
        Resource::CpuTime => live(
            &|it| it.cpu_percent.value().map(|percent| percent / 100.0),
            size.cpus as f64,
        ),
        Resource::MemoryCapacity => live(
            &|it| it.memory_bytes.value().copied(),
            size.memory_bytes as f64,
        ),
        _ => {
            let share = |it: &Resident| it.profile?.used_percent.get(resource.id()).copied();
            let known: Vec<f64> = residents.iter().filter_map(share).collect();
            match known.is_empty() {
                true => Err("no resident's profile says how much of it is used".into()),
                false => Ok(known.iter().sum()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(tolerated: f64, caused: f64) -> ProfileSummary {
        ProfileSummary {
            name: "x".into(),
            recorded_at: String::new(),
            of_this_machine: true,
            tolerated: [("l2-capacity".to_string(), tolerated)].into(),
            caused: [("l2-capacity".to_string(), caused)].into(),
            used_percent: BTreeMap::new(),
        }
    }

    fn readings(cpu: Option<f64>) -> WorkloadReadings {
        let none = || Reading::unavailable("not read");
        WorkloadReadings {
            seconds: 10.0,
            cpu_percent: cpu.map_or_else(none, Reading::Value),
            run_queue_delay_percent: none(),
            memory_bytes: none(),
            disk_read_bytes_per_second: none(),
            disk_written_bytes_per_second: none(),
            network_received_bytes_per_second: none(),
            network_sent_bytes_per_second: none(),
            psi_cpu_some_percent: none(),
            psi_memory_some_percent: none(),
            psi_io_some_percent: none(),
            cycles_per_instruction: none(),
        }
    }

    const SIZE: Size = Size {
        cpus: 4,
        memory_bytes: 1 << 30,
    };

    #[test]
    fn headroom_leaves_out_what_a_resident_causes_itself() {
        let (a, b) = (profile(60.0, 50.0), profile(90.0, 20.0));
        let readings = readings(Some(100.0));
        let resident = |name, profile| Resident {
            name,
            profile,
            readings: &readings,
        };
        let all = [
            resident("a", Some(&a)),
            resident("b", Some(&b)),
            resident("c", None),
        ];
        let resources = resources(&all, SIZE);
        let l2 = &resources["l2-capacity"];
        assert_eq!(l2.caused.value(), Some(&70.0));
        // a: 60 − 20 = 40; b: 90 − 50 = 40 as well.
        assert_eq!(l2.headroom.value(), Some(&40.0));
        assert_eq!(l2.least_tolerated.value().unwrap().workload, "a");
        assert_eq!(l2.residents_without_score, 1);
        assert_eq!(resources["cpu-time"].used_percent.value(), Some(&75.0));
        let why = resources["tlb"].headroom.reason().unwrap();
        assert!(why.contains("no resident's profile"), "{why}");
        assert!(resources["memory-capacity"].used_percent.reason().is_some());
    }

    #[test]
    fn nobody_is_no_zero() {
        let resources = resources(&[], SIZE);
        assert_eq!(resources.len(), Resource::ALL.len());
        for resource in resources.values() {
            assert!(resource.caused.reason().unwrap().contains("no workload"));
        }
    }
}
