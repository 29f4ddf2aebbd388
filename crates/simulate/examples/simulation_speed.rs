//! How many events a second the simulator handles, and how long each policy
//! takes for a scenario: `cargo run --profile bench --example
//! simulation_speed -- SCENARIO [POLICY…]`. One run at a time; drawing the workload is not counted.

use jostle_schedule::POLICIES;
use jostle_simulate::Scenario;
use jostle_simulate::run;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let scenario = arguments.next().ok_or("name a scenario file")?;
    let scenario = Scenario::load(Path::new(&scenario))?;
    let mut policies: Vec<String> = arguments.collect();
    if policies.is_empty() {
        policies = POLICIES.iter().map(|kind| kind.name.into()).collect();
    }
    let workload = scenario.workload(1)?;
    println!(
        "{}: {} jobs, {} nodes",
        scenario.name,
        workload.jobs.len(),
        workload.nodes.len()
    );
    println!(
        "{:<18} {:>10} {:>9} {:>13}",
        "policy", "events", "seconds", "events/s"
    );
    for policy in policies {
        let settings = scenario.settings(&policy, "none", 1);
        // The best of three: what else runs here only adds.
        let mut best: Option<(u64, f64)> = None;
        for _ in 0..3 {
            let (outcome, timing) = run(&workload, &settings)?;
            let seconds = timing.total_seconds;
            if best.is_none_or(|(_, least)| seconds < least) {
                best = Some((outcome.events, seconds));
            }
        }
        if let Some((events, seconds)) = best {
            println!(
                "{policy:<18} {events:>10} {seconds:>9.3} {:>13.0}",
                events as f64 / seconds
            );
        }
    }
    Ok(())
}
