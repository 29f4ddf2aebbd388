//! What applications are like that nothing is known of: the spread of those that
//! were profiled.

use super::caused::STREAMS;
use super::caused::Streams;
use super::caused::USES_A_DISK;
use super::caused::caused_of;
use super::cpu::CpuNeed;
use super::cpu::MOST_KEPT;
use super::cpu::TypicalCpu;
use super::cpu::believed;
use super::isotonic::Knot;
use super::spread::LEAST;
use super::spread::Spread;
use super::unexplained::Unexplained;
use jostle_profile::ResourceEntry;
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
    /// ln that a source on a CPU of its own keeps beside applications that use no disk,
    /// by resource id: the median.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub streams: BTreeMap<String, f64>,
    /// Seconds that a request to a disk takes from the CPU that serves the disk's
    /// interrupts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_seconds: Option<Spread>,
    /// Standard deviation of ln performance that profiles do not explain, where
    /// applications have CPUs of their own and where they share one: from
    /// recorded co-locations.
    #[serde(default)]
    pub unexplained: Unexplained,
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
    pub(super) disk: DiskNoise,
}

/// What an application asks of disks, and what it does to others by that.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskNoise {
    /// Requests in a second.
    pub requests: Option<f64>,
    /// ln that sources on CPUs of their own kept, all out, and its variance.
    pub streams: Vec<(&'static str, f64, f64)>,
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
    /// The entry itself, where what its source lost is still to be corrected.
    pub uncorrected: Option<Box<ResourceEntry>>,
}

impl Population {
    /// Of what profiles add, one [`Sample`] each.
    pub fn of_samples<'a>(samples: impl Iterator<Item = &'a Sample>) -> Self {
        type Gathered = (Vec<[Knot; 5]>, Vec<(f64, f64)>);
        let mut gathered: BTreeMap<(&str, &str), Gathered> = BTreeMap::new();
        let mut needs: Vec<CpuNeed> = Vec::new();
        let samples: Vec<&Sample> = samples.collect();
        let applications = samples.len();
        let streams = beside_anybody(&samples);
        let mut population = Population {
            applications,
            request_seconds: request_seconds(&samples, &streams),
            streams,
            ..Population::default()
        };
        for sample in samples {
            needs.extend(sample.cpu);
            for entry in &sample.entries {
                let key = (entry.id.as_str(), entry.mode);
                let (curves, causes) = gathered.entry(key).or_default();
                curves.extend(entry.curve);
                let caused = match &entry.uncorrected {
                    Some(uncorrected) => {
                        let streams = population.streams_of(&entry.id, &sample.disk);
                        caused_of(&entry.id, uncorrected, None, streams)
                    }
                    None => entry.caused,
                };
                causes.extend(caused.map(|(points, sd)| (points, sd * sd)));
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
        population.cpu = typical_cpu(&needs);
        population.resources = resources;
        population
    }

    /// What a source of `id` loses beside an application with so many requests to
    /// disks, memory apart; `None` for one that does not stream and that no interrupts
    /// disturb.
    pub(super) fn streams_of(&self, id: &str, disk: &DiskNoise) -> Option<Streams> {
        let quiet = disk.requests.is_none_or(|many| many < USES_A_DISK);
        if quiet && !STREAMS.iter().any(|resource| resource.id() == id) {
            return None;
        }
        Some(Streams {
            anybody: *self.streams.get(id)?,
            interrupts: self.interrupts(disk).map_or(0.0, |(ln, _)| ln),
        })
    }

    /// ln that the interrupts of so many requests in a second leave of the CPU that
    /// serves them, and its variance: what a request costs others, but no more than
    /// sources on that CPU were seen to lose beside the application itself.
    pub(super) fn interrupts(&self, disk: &DiskNoise) -> Option<(f64, f64)> {
        let (requests, of_one) = (disk.requests?, self.request_seconds?);
        let left = (1.0 - requests * of_one.mean).max(LEAST_LEFT);
        let sd = requests * of_one.sd / left;
        let usual = (left.ln(), sd * sd);
        let seen = disk.streams.iter().filter_map(|(id, ln, variance)| {
            let anybody = self.streams.get(*id)?;
            Some(((ln - anybody).min(0.0), *variance))
        });
        let least = seen.max_by(|a, b| a.0.total_cmp(&b.0));
        Some(match least {
            Some(seen) if seen.0 > usual.0 => seen,
            _ => usual,
        })
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

fn typical_cpu(needs: &[CpuNeed]) -> Option<TypicalCpu> {
    let spread = |of: fn(&CpuNeed) -> (f32, f32)| {
        let values = needs.iter().map(of);
        let values = values.map(|(x, v)| (f64::from(x), f64::from(v)));
        Spread::of(&values.collect::<Vec<_>>())
    };
    let seldom = needs.iter().filter(|need| need.seldom_rests());
    let (believed, open) =
        believed(seldom.map(|need| (f64::from(need.kept_ln), f64::from(need.kept_variance))));
    Some(TypicalCpu {
        applications: needs.len(),
        demand: spread(|need| (need.demand, need.demand_sd.powi(2)))?.rounded(),
        kept_ln: spread(|need| (need.kept_ln.min(MOST_KEPT), need.kept_variance))?.rounded(),
        taken: spread(|need| (need.taken, 0.01))?.rounded(),
        believed: rounded(believed, 1e4),
        kept_open: rounded(open, 1e4),
    })
}

/// What interrupts leave of a CPU at least.
const LEAST_LEFT: f64 = 0.1;

fn beside_anybody(samples: &[&Sample]) -> BTreeMap<String, f64> {
    let mut kept: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let quiet = |sample: &&&Sample| sample.disk.requests.is_none_or(|many| many < USES_A_DISK);
    for sample in samples.iter().filter(quiet) {
        for (id, ln, _) in &sample.disk.streams {
            kept.entry(id).or_default().push(ln.min(0.0));
        }
    }
    let enough = kept.into_iter().filter(|(_, all)| all.len() >= LEAST);
    enough
        .map(|(id, mut all)| {
            all.sort_unstable_by(f64::total_cmp);
            (id.into(), rounded(all[all.len() / 2], 1e4))
        })
        .collect()
}

/// Least squares through 0, weighted, of what sources lost beside applications that
/// use a disk, over their requests; and how far off a single application is.
fn request_seconds(samples: &[&Sample], anybody: &BTreeMap<String, f64>) -> Option<Spread> {
    let mut seen: Vec<[f64; 3]> = Vec::new();
    let mut applications = 0;
    for sample in samples {
        let Some(requests) = sample.disk.requests.filter(|many| *many >= USES_A_DISK) else {
            continue;
        };
        applications += usize::from(!sample.disk.streams.is_empty());
        for (id, ln, variance) in &sample.disk.streams {
            if let Some(anybody) = anybody.get(*id) {
                let lost = 1.0 - (ln - anybody).min(0.0).exp();
                seen.push([requests, lost, 1.0 / variance.max(1e-4)]);
            }
        }
    }
    if applications < 2 {
        return None;
    }
    let sum = |of: &dyn Fn(&[f64; 3]) -> f64| seen.iter().map(of).sum::<f64>();
    let squares = sum(&|[requests, _, weight]| weight * requests * requests);
    let mean = sum(&|[requests, lost, weight]| weight * requests * lost) / squares;
    let left = sum(&|[requests, lost, weight]| weight * (lost - requests * mean).powi(2));
    Some(Spread {
        mean: rounded(mean, 1e8),
        sd: rounded((left / squares).sqrt(), 1e8),
    })
}

fn rounded(x: f64, steps: f64) -> f64 {
    (x * steps).round() / steps
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

    fn streaming(requests: f64, kept: f64) -> Sample {
        Sample {
            disk: noise(requests, Some(kept)),
            ..Sample::default()
        }
    }

    fn noise(requests: f64, kept: Option<f64>) -> DiskNoise {
        let streams = kept.map(|kept| ("memory-bandwidth", kept.ln(), 1e-4));
        DiskNoise {
            requests: Some(requests),
            streams: streams.into_iter().collect(),
        }
    }

    #[test]
    fn what_a_stream_loses_beside_anybody_and_by_interrupts_is_told_apart() {
        // 5 % beside anybody, and 20 µs of each request.
        let mut samples: Vec<Sample> = (0..5).map(|_| streaming(10.0, 0.95)).collect();
        samples.extend([5e3, 15e3].map(|many| streaming(many, 0.95 * (1.0 - many * 20e-6))));
        let population = Population::of_samples(samples.iter());
        let of_one = population.request_seconds.unwrap();
        assert!((of_one.mean - 20e-6).abs() < 1e-7, "{of_one:?}");
        let streams = population
            .streams_of("memory-bandwidth", &noise(10e3, None))
            .unwrap();
        assert!((streams.anybody - 0.95f64.ln()).abs() < 1e-3);
        assert!((streams.interrupts - 0.8f64.ln()).abs() < 1e-2);
        let other = population.streams_of("l2-capacity", &noise(10e3, None));
        assert_eq!(other, None);
        // What was seen beside the application itself is the most that it does.
        let interrupts = |kept| population.interrupts(&noise(10e3, Some(kept))).unwrap().0;
        assert!((interrupts(0.95 * 0.9) - 0.9f64.ln()).abs() < 1e-2);
        assert!((interrupts(0.95 * 0.5) - 0.8f64.ln()).abs() < 1e-2);
        // One alone says nothing of others.
        let population = Population::of_samples(samples[..6].iter());
        assert_eq!(population.request_seconds, None);
    }
}
