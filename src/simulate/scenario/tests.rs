use super::*;
use std::path::Path;

fn shipped() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/scenarios");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_shipped_scenario_makes_a_workload() {
    let files = shipped();
    assert!(files.len() >= 14, "{files:?}");
    for file in files {
        let scenario = match ScenarioFile::load(&file).unwrap() {
            ScenarioFile::Jobs(scenario) => scenario,
        };
        let workload = scenario.workload(1).unwrap();
        assert!(!workload.jobs.is_empty());
        let cpus: f64 = workload.nodes.iter().map(|node| f64::from(node.cpus)).sum();
        let last = workload.jobs.last().unwrap().arrival.max(1.0);
        let asked: f64 = workload
            .jobs
            .iter()
            .map(|job| job.work_seconds * f64::from(job.demand.cpus))
            .sum();
        eprintln!(
            "{}: {} jobs, {} nodes, {cpus} cpus, load {:.2}",
            scenario.name,
            workload.jobs.len(),
            workload.nodes.len(),
            asked / cpus / last
        );
        for pair in workload.jobs.windows(2) {
            assert!(pair[0].arrival <= pair[1].arrival);
        }
        for job in &workload.jobs {
            assert!(job.work_seconds > 0.0 && job.demand.cpus >= 1);
            assert_eq!(job.phases[0].from, 0.0);
            assert!(
                job.phases
                    .windows(2)
                    .all(|pair| pair[0].from < pair[1].from)
            );
            for phase in &job.phases {
                let truth = &workload.truth.apps[phase.truth as usize];
                assert_eq!(truth.speed.len(), workload.truth.platforms.len());
                assert_eq!(truth.name, phase.estimate.name());
                assert_eq!(phase.estimate.demand(), job.demand);
            }
            assert!(usize::from(job.class) < workload.classes.len());
        }
        let mut order: Vec<&str> = Vec::new();
        for node in &workload.nodes {
            let name = node.platform.as_deref().unwrap_or_default();
            if !order.contains(&name) {
                order.push(name);
            }
        }
        let platforms: Vec<&str> = workload
            .truth
            .platforms
            .iter()
            .map(|p| p.name.as_str())
            .collect();
        assert_eq!(
            order, platforms,
            "platforms stand as in a cluster of these nodes"
        );
    }
}
