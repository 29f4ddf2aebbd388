//! How much faster an application gets with more CPUs or more nodes.

use jostle_profile::ScalingCurve;
use jostle_profile::ScalingFacts;
use jostle_statistics::ByNumber;

/// Speed-ups relative to one CPU and to one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// `(cpus, speed-up)`, ascending in both; from one CPU at 1.
    cpus: Vec<(f64, f64)>,
    /// `(nodes, speed-up)`, likewise.
    nodes: Vec<(f64, f64)>,
    measured: Option<Box<Measured>>,
}

/// What a profile says beside the speed-ups.
#[derive(Clone, Debug, PartialEq)]
struct Measured {
    /// Ends of the 95 % intervals by CPUs.
    low: Vec<(f64, f64)>,
    high: Vec<(f64, f64)>,
    /// Largest number of CPUs that was measured.
    most_cpus: u32,
    /// Whether one CPU more is one copy more.
    copies: bool,
}

impl Scaling {
    /// Points are sorted; repeated or non-positive places are dropped, and a
    /// speed-up is never taken to fall with more resources.
    pub fn new(cpus: Vec<(f64, f64)>, nodes: Vec<(f64, f64)>) -> Self {
        Scaling {
            cpus: ordered(cpus),
            nodes: ordered(nodes),
            measured: None,
        }
    }

    /// What a profile holds; `None` where it knows no size but 1. Copies stand for
    /// nodes; where there is no curve by CPUs they stand for CPUs too, as each was
    /// measured on a CPU of its own.
    pub fn measured(facts: &ScalingFacts) -> Option<Self> {
        let known = |curve: &Option<ScalingCurve>| {
            let curve = curve.as_ref();
            curve
                .filter(|curve| curve.known().any(|(size, _)| size > 1))
                .cloned()
        };
        let (cpus, instances) = (known(&facts.cpus), known(&facts.instances));
        let copies = cpus.is_none();
        let by_cpus = cpus.or(instances.clone())?;
        let points = |curve: &ScalingCurve, of: fn(&jostle_profile::Speedup) -> f64| {
            let known = curve.known();
            let points = known.map(|(size, speedup)| (f64::from(size), of(speedup)));
            points.collect::<Vec<_>>()
        };
        let instances = instances.map(|curve| points(&curve, |it| it.value));
        let scaling = Scaling::new(
            points(&by_cpus, |it| it.value),
            instances.unwrap_or_default(),
        );
        Some(Scaling {
            measured: Some(Box::new(Measured {
                low: ordered(points(&by_cpus, |it| it.ci95[0])),
                high: ordered(points(&by_cpus, |it| it.ci95[1])),
                most_cpus: by_cpus.known().map(|(size, _)| size).max().unwrap_or(1),
                copies,
            })),
            ..scaling
        })
    }

    /// The 95 % interval of [`Self::by_cpus`], where it was measured.
    pub fn interval_by_cpus(&self, cpus: f64) -> Option<[f64; 2]> {
        let measured = self.measured.as_ref()?;
        Some([between(&measured.low, cpus), between(&measured.high, cpus)])
    }

    /// Largest number of CPUs that was measured, if any was.
    pub fn most_measured(&self) -> Option<u32> {
        self.measured.as_ref().map(|measured| measured.most_cpus)
    }

    /// Whether a CPU more is a copy more, and not a thread more.
    pub fn by_copies(&self) -> bool {
        self.measured
            .as_ref()
            .is_some_and(|measured| measured.copies)
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

/// Ascending, from 1 at 1, never falling.
fn ordered(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.retain(|(at, speed)| at.is_finite() && speed.is_finite() && *at > 1.0);
    points.push((1.0, 1.0));
    points.sort_by_number(|it| it.0);
    points.dedup_by_key(|point| point.0);
    let mut most = 0.0f64;
    for point in &mut points {
        most = most.max(point.1);
        point.1 = most;
    }
    points
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

    use jostle_profile::ScalingPoint;
    use jostle_profile::Speedup;
    use jostle_profile::SpeedupStatus;
    use jostle_profile::reading::Reading;

    fn curve(points: &[(u32, f64)]) -> ScalingCurve {
        let points = points.iter().map(|(size, value)| ScalingPoint {
            size: *size,
            speedup: match value.is_finite() {
                false => Reading::unavailable("this machine has 2 CPUs"),
                true => Reading::Value(Speedup {
                    value: *value,
                    ci95: [value - 0.1, value + 0.1],
                    status: SpeedupStatus::Measured,
                    blocks: 40,
                    alone: None,
                    unknown: Default::default(),
                }),
            },
            unknown: Default::default(),
        });
        ScalingCurve {
            recorded_at: String::new(),
            seconds: 1.0,
            metric: Reading::Value("runs".into()),
            cpus: vec![0, 1],
            points: points.collect(),
            warnings: Vec::new(),
            unknown: Default::default(),
        }
    }

    #[test]
    fn a_measured_curve_keeps_its_interval_and_its_end() {
        let mut facts = ScalingFacts {
            cpus: Some(curve(&[(1, 1.0), (2, 1.8), (4, f64::NAN)])),
            ..ScalingFacts::default()
        };
        let scaling = Scaling::measured(&facts).unwrap();
        assert!((scaling.by_cpus(2.0) - 1.8).abs() < 1e-12);
        let [low, high] = scaling.interval_by_cpus(2.0).unwrap();
        assert!((low - 1.7).abs() < 1e-12 && (high - 1.9).abs() < 1e-12);
        assert_eq!(scaling.by_cpus(4.0), scaling.by_cpus(2.0));
        assert_eq!(scaling.most_measured(), Some(2));
        assert!(!scaling.by_copies());
        assert_eq!(scaling.by_nodes(2.0), 1.0);
        // Copies alone stand for both.
        facts.instances = facts.cpus.take();
        let scaling = Scaling::measured(&facts).unwrap();
        assert!(scaling.by_copies());
        assert!((scaling.by_cpus(2.0) - 1.8).abs() < 1e-12);
        assert!((scaling.by_nodes(2.0) - 1.8).abs() < 1e-12);
        // Nothing but size 1 is no curve.
        facts.instances = Some(curve(&[(1, 1.0), (2, f64::NAN)]));
        assert_eq!(Scaling::measured(&facts), None);
    }

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
