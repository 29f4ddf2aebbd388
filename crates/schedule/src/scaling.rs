//! How much faster an application gets with more CPUs or more nodes.

/// Speed-ups relative to one CPU and to one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// `(cpus, speed-up)`, ascending in both; from one CPU at 1.
    cpus: Vec<(f64, f64)>,
    /// `(nodes, speed-up)`, likewise.
    nodes: Vec<(f64, f64)>,
}

impl Scaling {
    /// Points are sorted; repeated or non-positive places are dropped, and a
    /// speed-up is never taken to fall with more resources.
    pub fn new(cpus: Vec<(f64, f64)>, nodes: Vec<(f64, f64)>) -> Self {
        let ordered = |mut points: Vec<(f64, f64)>| {
            points.retain(|(at, speed)| at.is_finite() && speed.is_finite() && *at > 1.0);
            points.push((1.0, 1.0));
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points.dedup_by_key(|point| point.0);
            let mut most = 0.0f64;
            for point in &mut points {
                most = most.max(point.1);
                point.1 = most;
            }
            points
        };
        Scaling {
            cpus: ordered(cpus),
            nodes: ordered(nodes),
        }
    }

    /// Amdahl's law with `serial` (fraction, 0–1) of the work not parallel.
    pub fn amdahl(serial: f64, most_cpus: u32, most_nodes: u32) -> Self {
        let serial = serial.clamp(0.0, 1.0);
        let law = |most: u32| {
            (1..=most.max(1))
                .map(|n| {
                    let n = f64::from(n);
                    (n, 1.0 / (serial + (1.0 - serial) / n))
                })
                .collect()
        };
        Scaling::new(law(most_cpus), law(most_nodes))
    }

    /// Speed-up on `cpus` of one node; straight between known points, level
    /// beyond the last.
    pub fn by_cpus(&self, cpus: f64) -> f64 {
        between(&self.cpus, cpus)
    }

    /// Speed-up on `nodes` equal nodes.
    pub fn by_nodes(&self, nodes: f64) -> f64 {
        between(&self.nodes, nodes)
    }
}

fn between(points: &[(f64, f64)], at: f64) -> f64 {
    let above = points.partition_point(|point| point.0 < at);
    match (
        above.checked_sub(1).map(|below| points[below]),
        points.get(above),
    ) {
        (None, Some(first)) => first.1 * (at / first.0).clamp(0.0, 1.0),
        (Some(last), None) => last.1,
        (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (at - a.0) / (b.0 - a.0),
        (None, None) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amdahl_and_interpolation() {
        let scaling = Scaling::amdahl(0.5, 4, 2);
        assert!((scaling.by_cpus(4.0) - 1.6).abs() < 1e-12);
        assert!((scaling.by_cpus(64.0) - 1.6).abs() < 1e-12);
        assert!((scaling.by_nodes(2.0) - 4.0 / 3.0).abs() < 1e-12);
        let straight = Scaling::new(vec![(3.0, 2.0)], vec![]);
        assert!((straight.by_cpus(2.0) - 1.5).abs() < 1e-12);
        assert_eq!(straight.by_nodes(5.0), 1.0);
    }
}
