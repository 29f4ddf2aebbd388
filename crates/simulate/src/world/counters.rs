//! What an agent on a node could read there, with the noise of reading it.

use super::World;
use crate::random::standard_normal;
use jostle_profile::resource::Resource;
use jostle_schedule::NodeId;
use jostle_schedule::predict::LANES;
use rand::Rng;

/// Standard deviation of a reading.
const NOISE: f64 = 0.03;

/// Shares that follow the resources.
const SHARES: [&str; 3] = ["cpu-share", "memory-share", "residents-per-cpu"];

/// Names of what [`World::counters`] reads, in its order.
pub fn counter_names() -> Vec<&'static str> {
    generated().map(Resource::id).chain(SHARES).collect()
}

/// The resources that an agent reads, in their order.
fn generated() -> impl Iterator<Item = Resource> {
    let all = Resource::ALL.iter().copied();
    all.filter(|resource| resource.row().generated)
}

impl World<'_> {
    /// Readings of `node`, each 0–1: the true pressure per resource / 100 with
    /// noise, then the shares of CPUs and of memory asked for, and residents
    /// per CPU.
    pub fn counters(&self, node: NodeId, noise: &mut impl Rng) -> Vec<f32> {
        let (cluster, row) = (self.cluster(), self.cluster().summary(node));
        let cpus = f64::from(row.cpus.max(1));
        let memory = cluster.node(node).memory_bytes.max(1);
        let shares = [
            cluster.cpus_used(node) as f64 / cpus,
            cluster.memory_used(node) as f64 / memory as f64,
            f64::from(row.residents) / cpus,
        ];
        let pressure = self.pressure(node);
        let mut readings = Vec::with_capacity(LANES + shares.len());
        for resource in generated() {
            let read =
                f64::from(pressure[resource as usize]) / 100.0 + NOISE * standard_normal(noise);
            readings.push(read.clamp(0.0, 1.0) as f32);
        }
        readings.extend(shares.map(|share| share.clamp(0.0, 1.0) as f32));
        readings
    }
}
