//! Places three profiled applications on two nodes and says why there.
//!
//! ```text
//! cargo run -p jostle-schedule --example place
//! ```

use jostle_profile as profile;
use jostle_schedule::App;
use jostle_schedule::Cluster;
use jostle_schedule::Decision;
use jostle_schedule::Jostle;
use jostle_schedule::Node;
use jostle_schedule::PlacementRequest;
use jostle_schedule::Policy;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let node = |name: &str| Node {
        name: name.into(),
        cpus: 4,
        memory_bytes: 8 << 30,
        platform: None,
        shares_cpus: false,
    };
    let mut cluster = Cluster::new([node("n1"), node("n2")])?;
    let mut policy = Jostle::new(1, false);

    for demo in ["llc-capacity", "memory-bandwidth", "kv"] {
        let file = format!("profiles/demo-{demo}.json");
        let profile = profile::load(Path::new(&file))?;
        let app = Arc::new(App::new(&profile).with_demand(2, 1 << 30));
        let request = PlacementRequest::of(&app);
        match policy.choose(&request, &cluster) {
            Decision::Place(choice) => {
                let decision = policy.explain(&request, &cluster, &choice);
                println!("{demo} on {}: {}", decision.node, decision.deciding.why);
                for resident in choice.start(&mut cluster, &app, request.demand)? {
                    let at = cluster.resident(resident).ok_or("it has just started")?;
                    policy.changed(&cluster, at.node, request.now);
                }
            }
            other => println!("{demo} waits: {other:?}"),
        }
    }
    Ok(())
}
