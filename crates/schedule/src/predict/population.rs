//! What applications are like that nothing is known of: the spread of those that
//! were profiled.

use super::cpu::CpuNeed;
use super::cpu::TypicalCpu;
use super::isotonic::Knot;
use super::spread::Spread;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeMap;

/// Intensities at which curves are compared.
pub(super) const SEEN_AT: [f64; 5] = [20.0, 40.0, 60.0, 80.0, 100.0];

/// A population of profiled applications, by resource and placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// Profiles that it was made of.
    pub applications: usize,
    /// By resource id, then by placement mode as profiles name it.
    pub resources: BTreeMap<String, BTreeMap<String, Typical>>,
    /// How applications share a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<TypicalCpu>,
    /// ln of what sources on other CPUs keep beside an application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drag: Option<Spread>,
    /// Standard deviation of ln performance that profiles do not explain, where
    /// applications have CPUs of their own and where they share one: from
    /// recorded co-locations.
    #[serde(default)]
    pub unexplained: Unexplained,
}

/// What profiles leave open of a co-location.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unexplained {
    pub own_cpus: f64,
    pub same_cpu: f64,
}

impl Default for Unexplained {
    fn default() -> Self {
        Unexplained {
            own_cpus: 0.03,
            same_cpu: 0.05,
        }
    }
}

impl Unexplained {
    pub fn of(&self, shares_cpus: bool) -> f64 {
        match shares_cpus {
            true => self.same_cpu,
            false => self.own_cpus,
        }
    }
}

/// One resource in one placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Typical {
    /// Profiles in which the curve, and what is caused, were measured.
    pub curves: usize,
    pub causes: usize,
    /// ln of performance at 20, 40, 60, 80 and 100, and the standard deviation
    /// between applications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ln: Option<[Spread; 5]>,
    /// Points caused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caused: Option<Spread>,
}

/// What one profile adds to a population.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub(super) entries: Vec<SampleEntry>,
    pub(super) cpu: Option<CpuNeed>,
    pub(super) drag: Option<(f64, f64)>,
}

/// One resource of a profile.
#[derive(Clone, Debug)]
pub(super) struct SampleEntry {
    pub id: String,
    pub mode: &'static str,
    /// At [`SEEN_AT`].
    pub curve: Option<[Knot; 5]>,
    /// Points and their standard deviation.
    pub caused: Option<(f64, f64)>,
}

impl Population {
    /// Of what profiles add, one [`Sample`] each.
    pub fn of_samples<'a>(samples: impl Iterator<Item = &'a Sample>) -> Self {
        type Gathered = (Vec<[Knot; 5]>, Vec<(f64, f64)>);
        let mut gathered: BTreeMap<(&str, &str), Gathered> = BTreeMap::new();
        let mut needs: Vec<CpuNeed> = Vec::new();
        let mut drags: Vec<(f64, f64)> = Vec::new();
        let mut applications = 0;
        for sample in samples {
            applications += 1;
            needs.extend(sample.cpu);
            drags.extend(sample.drag);
            for entry in &sample.entries {
                let key = (entry.id.as_str(), entry.mode);
                let (curves, causes) = gathered.entry(key).or_default();
                curves.extend(entry.curve);
                causes.extend(entry.caused.map(|(points, sd)| (points, sd * sd)));
            }
        }
        let mut resources: BTreeMap<String, BTreeMap<String, Typical>> = BTreeMap::new();
        for ((id, mode), (curves, causes)) in gathered {
            let at = |step: usize| {
                let knots = curves.iter().map(|knots| knots[step]);
                Spread::of(
                    &knots
                        .map(|knot| (knot.ln, knot.variance))
                        .collect::<Vec<_>>(),
                )
            };
            let all: Option<Vec<Spread>> = (0..SEEN_AT.len()).map(at).collect();
            let ln = all.and_then(|all| <[Spread; 5]>::try_from(all).ok());
            let caused = Spread::of(&causes);
            if ln.is_none() && caused.is_none() {
                continue;
            }
            let typical = Typical {
                curves: curves.len(),
                causes: causes.len(),
                // Nothing gains from pressure: above 0 is noise.
                ln: ln.map(|ln| {
                    ln.map(|spread| {
                        Spread {
                            mean: spread.mean.min(0.0),
                            ..spread
                        }
                        .rounded()
                    })
                }),
                caused: caused.map(Spread::rounded),
            };
            let by_mode = resources.entry(id.into()).or_default();
            by_mode.insert(mode.into(), typical);
        }
        let spread = |of: fn(&CpuNeed) -> (f32, f32)| {
            let values = needs.iter().map(of);
            Spread::of(
                &values
                    .map(|(x, v)| (f64::from(x), f64::from(v)))
                    .collect::<Vec<_>>(),
            )
        };
        let cpu = || {
            Some(TypicalCpu {
                applications: needs.len(),
                demand: spread(|need| (need.demand, need.demand_sd.powi(2)))?.rounded(),
                kept_ln: spread(|need| (need.kept_ln, need.kept_variance))?.rounded(),
                taken: spread(|need| (need.taken, 0.01))?.rounded(),
            })
        };
        Population {
            applications,
            resources,
            cpu: cpu(),
            drag: Spread::of(&drags).map(Spread::rounded),
            unexplained: Unexplained::default(),
        }
    }

    /// The population that comes with this version: of the profiles recorded with
    /// it.
    pub fn bundled() -> &'static Population {
        static BUNDLED: std::sync::LazyLock<Population> = std::sync::LazyLock::new(|| {
            serde_json::from_str(include_str!("population.json")).unwrap_or_default()
        });
        &BUNDLED
    }

    /// What is typical of the resource `id` in `mode`; where no mode is named, in
    /// the one that most profiles have.
    pub(super) fn typical(&self, id: &str, mode: Option<&str>) -> Option<&Typical> {
        let modes = self.resources.get(id)?;
        match mode {
            Some(mode) => modes.get(mode),
            None => modes.values().max_by_key(|typical| typical.curves),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_population_is_read() {
        let bundled = Population::bundled();
        assert!(bundled.applications >= 10, "{}", bundled.applications);
        assert!(bundled.typical("l2-capacity", Some("same-cpu")).is_some());
        assert!(bundled.cpu.is_some());
    }
}
