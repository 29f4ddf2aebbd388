//! Who else might want the place.

use super::node_view::NodeView;
use super::place::newcomer;
use super::value::Weights;
use crate::app::App;
use crate::cluster::Cluster;
use crate::cluster::summary::NodeSummary;
use std::sync::Arc;

/// A few recent newcomers, standing for those to come.
#[derive(Clone, Debug, Default)]
pub struct RecentNewcomers {
    gathering: Vec<Arc<App>>,
    current: Vec<Arc<App>>,
    seen: u32,
    epoch: u32,
}

/// How many stand for all.
const SAMPLE: usize = 8;

/// One of so many newcomers is taken into the next sample.
const EVERY: u32 = 8;

impl RecentNewcomers {
    pub fn note(&mut self, app: &Arc<App>) {
        self.seen += 1;
        if self.seen % EVERY == 1 {
            self.gathering.push(app.clone());
        }
        if self.gathering.len() == SAMPLE {
            self.current = std::mem::take(&mut self.gathering);
            self.epoch += 1;
        }
    }

    /// `apps` stand for all from now on.
    pub fn stand_for(&mut self, apps: Vec<Arc<App>>) {
        let same = |(a, b): (&Arc<App>, &Arc<App>)| Arc::ptr_eq(a, b);
        let stay = apps.len() == self.current.len();
        if !stay || !apps.iter().zip(&self.current).all(same) {
            self.current = apps;
            self.epoch += 1;
        }
    }

    /// Which of `count` newcomers stand for all after [`Self::note`] of each.
    pub fn sample(count: usize) -> impl Iterator<Item = usize> {
        let (every, sample) = (EVERY as usize, SAMPLE);
        // The last of a sample is taken at the first of its `every`.
        let complete = (count + every - 1) / (every * sample);
        let first = complete.saturating_sub(1) * every * sample;
        let taken = if complete == 0 { 0 } else { sample };
        (0..taken).map(move |at| first + at * every)
    }

    /// Changes when another sample stands for all.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Mean value that they would have on the node of `row`.
    pub fn at(&self, summary: &NodeSummary, view: &NodeView, weights: &Weights) -> f32 {
        if self.current.is_empty() {
            return 0.0;
        }
        let sum: f32 = self
            .current
            .iter()
            .map(|app| newcomer(app, summary, view, weights).value)
            .sum();
        sum / self.current.len() as f32
    }

    /// How scarce places are, 0–1: the share of units that is taken.
    pub fn scarcity(&self, cluster: &Cluster) -> f32 {
        let total = cluster.units().total().max(1) as f32;
        1.0 - cluster.units().len() as f32 / total
    }
}
