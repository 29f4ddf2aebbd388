//! What is remembered of every node: the quality of its units, and how many
//! free units there are of each sort.

use super::encode::intensity;
use super::history::Flow;
use super::history::History;
use super::lsh::BUCKETS;
use super::lsh::DIRECTIONS;
use super::lsh::Lsh;
use super::lsh::MAGNITUDES;
use super::lsh::UNDISTURBED;
use crate::app::STEPS_PER_POINT;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::summary::NodeSummary;
use crate::predict::Lanes;

/// What a free unit of `node` bears from the other units, in points per
/// resource: the mean over the M − 1 others (Tarcil, equation 7.3).
pub fn contention(cluster: &Cluster, node: NodeId) -> Lanes<f32> {
    let others = cluster.summary(node).cpus.saturating_sub(1).max(1);
    let scale = 1.0 / (others as f32 * STEPS_PER_POINT as f32);
    cluster
        .caused_by_units(node)
        .map(|steps| steps as f32 * scale)
}

/// Quality of a free unit of `node`, U_H (Tarcil, equation 7.4); 1 = nobody
/// disturbs it.
pub fn unit_quality(cluster: &Cluster, node: NodeId) -> f64 {
    1.0 - intensity(&contention(cluster, node))
}

/// One node as it was when last looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cell {
    quality: f64,
    version: u32,
    free: u32,
    /// CPUs that are up.
    units: u32,
    /// Index into the counts; platform and bucket.
    bucket: u32,
}

impl Cell {
    fn current(&self, summary: &NodeSummary) -> bool {
        self.version == summary.version
            && self.free == summary.free_cpus
            && self.bucket as usize / BUCKETS == summary.platform.index()
    }
}

/// Which buckets hold units that suit a job.
#[derive(Clone, Copy, Debug)]
pub struct Suitable {
    /// Per bin of magnitude: whether it suits at all.
    pub bins: [bool; MAGNITUDES.len()],
    /// Per bin: whether only the direction below suits.
    pub one_direction: [bool; MAGNITUDES.len()],
    pub direction: usize,
}

impl Suitable {
    fn contains(&self, bucket: usize) -> bool {
        if bucket == UNDISTURBED {
            return true;
        }
        let (bin, direction) = (bucket / DIRECTIONS, bucket % DIRECTIONS);
        self.bins[bin] && (!self.one_direction[bin] || direction == self.direction)
    }
}

/// Counts of free units by platform and bucket, kept as nodes change. A node of
/// which no change is told is noticed when it is sampled, or when the sweep
/// comes by: some nodes at every decision.
#[derive(Clone, Debug)]
pub struct Buckets {
    pub lsh: Lsh,
    cells: Vec<Cell>,
    free: Vec<u32>,
    /// Free units by platform and bin; the last bin is of undisturbed ones.
    by_bin: Vec<[u32; MAGNITUDES.len() + 1]>,
    history: Vec<History>,
    since: f64,
    sweep: usize,
    /// Units that are not broken, free or not, as far as was noticed.
    units: u64,
}

/// Nodes looked after at every decision.
const SWEEP: usize = 2;

impl Buckets {
    pub fn new(seed: u64) -> Self {
        Buckets {
            lsh: Lsh::new(seed),
            cells: Vec::new(),
            free: Vec::new(),
            by_bin: Vec::new(),
            history: Vec::new(),
            since: 0.0,
            sweep: 0,
            units: 0,
        }
    }

    /// Brings the tables in line with the size of `cluster`, and some nodes
    /// with their state.
    pub fn sync(&mut self, cluster: &Cluster, now: f64) {
        if self.cells.len() != cluster.len() {
            self.rebuild(cluster, now);
        }
        for _ in 0..SWEEP.min(cluster.len()) {
            self.sweep = (self.sweep + 1) % cluster.len();
            self.quality(cluster, NodeId(self.sweep as u32), now);
        }
    }

    fn rebuild(&mut self, cluster: &Cluster, now: f64) {
        let platforms = cluster.platforms().len();
        self.cells.clear();
        self.free = vec![0; platforms * BUCKETS];
        self.units = 0;
        self.by_bin = vec![Default::default(); platforms];
        self.history = vec![History::default(); platforms * BUCKETS];
        self.since = now;
        for node in cluster.ids() {
            let cell = self.cell_of(cluster, node);
            self.units += u64::from(cell.units);
            self.count(cell, true);
            self.cells.push(cell);
        }
    }

    fn cell_of(&self, cluster: &Cluster, node: NodeId) -> Cell {
        let summary = cluster.summary(node);
        let contention = contention(cluster, node);
        let bucket = summary.platform.index() * BUCKETS + self.lsh.bucket(&contention);
        Cell {
            quality: 1.0 - intensity(&contention),
            version: summary.version,
            free: summary.free_cpus,
            units: if summary.up { summary.cpus } else { 0 },
            bucket: bucket as u32,
        }
    }

    fn count(&mut self, cell: Cell, in_: bool) {
        let bucket = cell.bucket as usize;
        let bin = (bucket % BUCKETS) / DIRECTIONS;
        for count in [
            &mut self.free[bucket],
            &mut self.by_bin[bucket / BUCKETS][bin],
        ] {
            *count = match in_ {
                true => *count + cell.free,
                false => *count - cell.free,
            };
        }
    }

    /// Reads what [`Self::quality`] will read, to have it near.
    #[inline]
    pub fn touch(&self, node: NodeId) -> u32 {
        self.cells[node.index()].version
    }

    /// Quality of a free unit of `node` now; counts it anew if it has changed.
    ///
    /// # Panics
    ///
    /// Unless [`Self::sync`] has seen this cluster.
    #[inline]
    pub fn quality(&mut self, cluster: &Cluster, node: NodeId, now: f64) -> f64 {
        let cell = self.cells[node.index()];
        if cell.current(cluster.summary(node)) {
            return cell.quality;
        }
        self.recount(cluster, node, now)
    }

    #[cold]
    fn recount(&mut self, cluster: &Cluster, node: NodeId, now: f64) -> f64 {
        let (old, new) = (self.cells[node.index()], self.cell_of(cluster, node));
        self.count(old, false);
        self.count(new, true);
        self.units = self.units + u64::from(new.units) - u64::from(old.units);
        self.cells[node.index()] = new;
        if new.free > old.free {
            self.history[new.bucket as usize].freed(new.free - old.free, now);
        }
        new.quality
    }

    /// Takes note of a change of `node`.
    pub fn changed(&mut self, cluster: &Cluster, node: NodeId, now: f64) {
        match self.cells.len() == cluster.len() {
            true => {
                self.quality(cluster, node, now);
            }
            false => self.rebuild(cluster, now),
        }
    }

    /// Units that are up, free or not.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Free units on the `platforms` in buckets that suit.
    pub fn free(&self, platforms: impl Iterator<Item = usize>, suitable: &Suitable) -> u64 {
        let mut free = 0;
        for platform in platforms {
            let bins = &self.by_bin[platform];
            free += u64::from(bins[MAGNITUDES.len()]);
            for (bin, all) in bins[..MAGNITUDES.len()].iter().enumerate() {
                let first = platform * BUCKETS + bin * DIRECTIONS;
                free += u64::from(match (suitable.bins[bin], suitable.one_direction[bin]) {
                    (false, _) => 0,
                    (true, false) => *all,
                    (true, true) => self.free[first + suitable.direction],
                });
            }
        }
        free
    }

    /// As [`Flow::wait`] for `units` from buckets that suit.
    pub fn wait(
        &mut self,
        platforms: impl Iterator<Item = usize>,
        suitable: &Suitable,
        units: u32,
        now: f64,
    ) -> Option<(f64, f64)> {
        let mut flow = Flow::default();
        for platform in platforms {
            for bucket in (0..BUCKETS).filter(|bucket| suitable.contains(*bucket)) {
                flow.add(&mut self.history[platform * BUCKETS + bucket], now);
            }
        }
        flow.wait(units, now - self.since)
    }

    /// Counts per platform and bucket of all nodes, from nothing.
    #[cfg(test)]
    pub fn recounted(&self, cluster: &Cluster) -> Vec<u32> {
        let mut fresh = vec![0; cluster.platforms().len() * BUCKETS];
        for node in cluster.ids() {
            let cell = self.cell_of(cluster, node);
            fresh[cell.bucket as usize] += cell.free;
        }
        fresh
    }

    #[cfg(test)]
    pub fn counts(&self) -> &[u32] {
        &self.free
    }
}
