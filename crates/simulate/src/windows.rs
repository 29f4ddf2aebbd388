//! What nodes looked like just before jobs started there, and which of the
//! jobs then straggled: what Wrangler is trained on.

use crate::engine;
use crate::engine::Scheduler;
use crate::engine::Start;
use crate::error::SimulationError;
use crate::run::schedulers;
use crate::settings::Settings;
use crate::statistics::median;
use crate::statistics::sorted;
use crate::workload::Workload;
use crate::world::counters::counter_names;
use std::io::Write;

/// A job straggles when it takes more than this times the median, each in
/// seconds per second of its work (Wrangler's β).
const BETA: f64 = 1.3;

/// One start.
#[derive(Clone, Debug, PartialEq)]
struct Window {
    node: String,
    /// Which application started.
    app: String,
    counters: Vec<f32>,
    straggler: bool,
}

/// Labelled windows of one run, in the order of the starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Windows(Vec<Window>);

/// Runs `workload` once as `settings` say, and labels every start by what came
/// of it. A start that a fault undid has no label and is left out.
///
/// # Errors
///
/// As [`run`](super::run).
pub fn windows(workload: &Workload, settings: &Settings) -> Result<Windows, SimulationError> {
    labelled(workload, settings, &mut schedulers(settings)?)
}

/// [`windows`] with agents made by `scheduler`, which is given a seed for each.
pub(crate) fn labelled(
    workload: &Workload,
    settings: &Settings,
    scheduler: &mut dyn FnMut(u64) -> Result<Scheduler, SimulationError>,
) -> Result<Windows, SimulationError> {
    let (outcome, _, starts) = engine::run(workload, settings, scheduler, true)?;
    let mut record_of = vec![None; workload.jobs.len()];
    for record in &outcome.jobs {
        record_of[record.job as usize] = Some(record);
    }
    let mut last = vec![0; workload.jobs.len()];
    for (at, start) in starts.iter().enumerate() {
        last[start.job as usize] = at;
    }
    let label = |(at, start): (usize, &Start)| {
        let record = record_of[start.job as usize].filter(|_| last[start.job as usize] == at)?;
        let took = (record.finished - start.seconds) / record.ideal_seconds;
        Some((start.clone(), took))
    };
    let labelled: Vec<_> = starts.iter().enumerate().filter_map(label).collect();
    let limit = BETA * median(&sorted(labelled.iter().map(|(_, took)| *took)));
    let windows = labelled.into_iter().map(|(start, took)| Window {
        node: workload.nodes[start.node.index()].name.clone(),
        app: workload.jobs[start.job as usize].phases[0]
            .estimate
            .name()
            .into(),
        counters: start.counters,
        straggler: took > limit,
    });
    Ok(Windows(windows.collect()))
}

impl Windows {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many of the jobs straggled.
    pub fn stragglers(&self) -> usize {
        self.0.iter().filter(|window| window.straggler).count()
    }

    /// Writes the columns `node`, `workload`, one per counter (each 0–1), and `straggler`
    /// (0 or 1), with a header.
    ///
    /// # Errors
    ///
    /// When `out` cannot be written to.
    pub fn write_csv(&self, out: impl Write) -> std::io::Result<()> {
        let mut csv = csv::Writer::from_writer(out);
        let counters = counter_names();
        csv.write_record([&["node", "workload"], &counters[..], &["straggler"]].concat())?;
        for window in &self.0 {
            csv.write_field(&window.node)?;
            csv.write_field(&window.app)?;
            for counter in &window.counters {
                csv.write_field(counter.to_string())?;
            }
            csv.write_record([u8::from(window.straggler).to_string()])?;
        }
        csv.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted() {
        let windows = Windows(vec![Window {
            node: "a,\"b".into(),
            app: "c".into(),
            counters: vec![0.5; counter_names().len()],
            straggler: true,
        }]);
        let mut csv = Vec::new();
        windows.write_csv(&mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        let quoted = csv.contains("\n\"a,\"\"b\",c,0.5,");
        assert!(quoted && csv.ends_with(",1\n"), "{csv}");
    }
}
