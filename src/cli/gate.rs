//! `--admission` and what nodes read, for `jostle schedule`.

use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::node;
use jostle_profile::node::NodeState;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_DOCUMENT;
use jostle_schedule::Cluster;
use jostle_schedule::admission::ADMISSIONS;
use jostle_schedule::admission::AdmissionOptions;
use jostle_schedule::admission::Gate;
use jostle_schedule::admission::admission_kind;
use jostle_schedule::admission::node_readings;
use std::path::Path;
use std::path::PathBuf;

/// The admission `asked` for: `none`, `arq`, `wrangler` or `wrangler:MODEL`.
///
/// # Errors
/// A request error naming the flag.
pub fn admission(asked: &str, seed: u64) -> Result<Gate> {
    let wrong = |problem: String| Error::request(format!("--admission {asked}: {problem}"));
    let (name, model) = match asked.split_once(':') {
        Some((name, model)) => (name, Some(PathBuf::from(model))),
        None => (asked, None),
    };
    let Some(kind) = admission_kind(name) else {
        let names: Vec<&str> = ADMISSIONS.iter().map(|kind| kind.name).collect();
        let names = names.join(", ");
        return Err(wrong(format!("no such admission; there are {names}")));
    };
    match (name, &model) {
        ("wrangler", Some(model)) if model.as_os_str().is_empty() => {
            return Err(wrong("name a model after the colon".into()));
        }
        ("wrangler", None) => warning!(
            "--admission wrangler has no model, so that every start is admitted; \
             train one with `jostle train` and give it as wrangler:MODEL"
        ),
        (_, Some(_)) if name != "wrangler" => {
            return Err(wrong(format!("{name} takes no model")));
        }
        _ => {}
    }
    let options = AdmissionOptions {
        wrangler: model,
        wrangler_confidence: None,
        seed,
        ..AdmissionOptions::default()
    };
    let made = (kind.make)(&options).map_err(|error| wrong(error.to_string()))?;
    Ok(Gate::new(made))
}

/// Tells `gate` what agents say of nodes of `cluster`.
///
/// # Errors
/// A request error naming the flag and the file.
pub fn tell(gate: &mut Gate, files: &[PathBuf], cluster: &Cluster) -> Result<()> {
    for path in files {
        let state = state(path).map_err(|problem| {
            Error::request(format!("--node-state {}: {problem}", path.display()))
        })?;
        if cluster.id(&state.name).is_none() {
            let known: Vec<&str> = cluster.ids().map(|node| cluster.name(node)).collect();
            return Err(Error::request(format!(
                "--node-state {}: it is of node `{}`, which --nodes does not have; there are {}",
                path.display(),
                state.name,
                known.join(", ")
            )));
        }
        gate.tell(&state.name, node_readings(&state), 0.0);
    }
    Ok(())
}

fn state(path: &Path) -> std::result::Result<NodeState, String> {
    let bytes = regular::read(path, LONGEST_DOCUMENT).map_err(|error| error.to_string())?;
    node::parse(&bytes).map_err(|error| format!("it is not what an agent writes: {error}"))
}
