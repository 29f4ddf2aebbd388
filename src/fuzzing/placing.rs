//! What schedulers are given: events, nodes, scenarios, windows.

use super::finite;
use jostle_schedule::Cluster;
use jostle_schedule::NodesFile;
use jostle_schedule::POLICIES;
use jostle_schedule::PolicyOptions;
use jostle_schedule::Stream;
use jostle_schedule::admission::ADMISSIONS;
use jostle_schedule::admission::AdmissionOptions;
use jostle_schedule::admission::Gate;
use jostle_schedule::admission::TrainingOptions;
use jostle_schedule::admission::WranglerModel;
use jostle_schedule::admission::train_on_text;
use jostle_simulate as simulate;
use jostle_simulate::ScenarioFile;
use jostle_simulate::Summary;
use serde_json::Value;
use std::path::Path;

/// Most events of one input: what more would show, few show too.
const MOST_EVENTS: usize = 64;

/// The first byte chooses policy and admission, events follow.
pub fn stream(data: &[u8]) {
    let Some((choice, lines)) = data.split_first() else {
        return;
    };
    let Ok(lines) = std::str::from_utf8(lines) else {
        return;
    };
    let choice = usize::from(*choice);
    let kind = &POLICIES[choice % POLICIES.len()];
    let policy = (kind.make)(&PolicyOptions {
        seed: 1,
        strict: kind.supports_strict && choice.is_multiple_of(2),
    });
    let admission = &ADMISSIONS[choice / POLICIES.len() % ADMISSIONS.len()];
    let admission = (admission.make)(&AdmissionOptions::default());
    let gate = Gate::new(admission.expect("it needs no file"));
    let cluster = Cluster::new([]).unwrap_or_default();
    let mut stream = Stream::new(cluster, policy, choice >= 128).with_gate(gate);
    for line in lines.lines().take(MOST_EVENTS) {
        let jobs = stream.jobs();
        for answer in stream.handle(line) {
            let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
            let kind = answer["answer"]
                .as_str()
                .expect("an answer says what it is");
            if kind == "error" {
                assert_eq!(jobs, stream.jobs(), "a refused line changed something");
            }
        }
    }
}

/// A nodes file.
pub fn nodes(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(file) = NodesFile::parse(Path::new("nodes.toml"), text) else {
        return;
    };
    finite::check("a nodes file", &(&file.nodes, &file.demands));
    let Ok(mut cluster) = Cluster::new(file.nodes.iter().map(|entry| entry.node.clone())) else {
        return;
    };
    for (name, demand) in &file.demands {
        let app = jostle_schedule::App::bare(name, Default::default());
        if let Ok(app) = demand.applied(app, &mut cluster) {
            finite::check("an application", &app);
        }
    }
}

/// A scenario, which is also run where it is small.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(table) = text.parse::<toml::Table>() else {
        return;
    };
    let path = Path::new("/nonexistent/scenario.toml");
    let Ok(file) = ScenarioFile::parse(path, text) else {
        return;
    };
    if !is_small(&toml::Value::Table(table)) {
        return;
    }
    match file {
        ScenarioFile::Jobs(scenario) => {
            let Ok(workload) = scenario.workload(1) else {
                return;
            };
            for policy in &scenario.policies {
                for admission in &scenario.admissions {
                    let settings = scenario.settings(policy, admission, 1);
                    let Ok(run) = simulate::run(&workload, &settings) else {
                        continue;
                    };
                    finite::check("an outcome", &run.0);
                    finite::check("a summary", &Summary::of(&[run]));
                }
            }
        }
        ScenarioFile::Cloud(scenario) => {
            if let Ok(outcome) = scenario.run(1) {
                finite::check("an outcome", &outcome);
            }
        }
        ScenarioFile::Consolidation(scenario) => {
            if let Ok(outcome) = scenario.run(1) {
                finite::check("an outcome", &outcome);
            }
        }
    }
}

/// Whether every whole number is: a run of a million jobs shows nothing new.
fn is_small(value: &toml::Value) -> bool {
    match value {
        toml::Value::Integer(number) => (-100..=100).contains(number),
        toml::Value::Array(list) => list.len() <= 20 && list.iter().all(is_small),
        toml::Value::Table(table) => table.len() <= 30 && table.values().all(is_small),
        _ => true,
    }
}

/// Windows to learn from, or a model that was learned.
pub fn windows(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let model = match text.trim_start().starts_with('{') {
        true => WranglerModel::from_json(text, "model.json"),
        false => train_on_text(text, "windows.csv", TrainingOptions::default()),
    };
    let Ok(model) = model else {
        return;
    };
    finite::check("a model", &model);
    let written = model.to_json();
    WranglerModel::from_json(&written, "model.json").expect("what was written can be read");
}
