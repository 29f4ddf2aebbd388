//! The one function that says what pressure costs.

use super::company::CPU;
use super::company::Pressure;
use super::lanes::LaneSet;
use super::responses::Curve;
use super::responses::Responses;
use super::unexplained::ResidualSpread;
use jostle_profile::resource::Resource;

/// What is believed of a performance: the logarithm of the fraction of the
/// undisturbed level, and its variance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    pub ln: f32,
    pub variance: f32,
}

impl Expected {
    /// The same with the variance that profiles do not explain.
    pub fn widened(mut self, unexplained: ResidualSpread) -> Expected {
        self.variance += unexplained.variance(f64::from(self.ln)) as f32;
        self
    }

    /// Fraction of the undisturbed performance: 0–1, or more for one that waits beside
    /// neighbours that keep other CPUs awake.
    pub fn performance(self) -> f64 {
        f64::from(self.ln).exp()
    }

    /// 95 % interval of the same; where no gain is expected within 0–1.
    pub fn ci95(self) -> [f64; 2] {
        let half = 1.96 * f64::from(self.variance).sqrt();
        let ln = f64::from(self.ln);
        let high = (ln + half).exp();
        let most = if ln > 0.0 { high } else { 1.0 };
        [(ln - half).exp(), high.min(most)]
    }

    /// Chance that performance is at least `threshold` (fraction), by a
    /// logistic stand-in for the normal distribution function
    /// (Φ(z) ≈ 1/(1 + e^(−1.702 z)), within 0.0095).
    pub fn chance_of(self, threshold_ln: f32) -> f32 {
        let z = (self.ln - threshold_ln) / (self.variance + 1e-8).sqrt();
        1.0 / (1.0 + quick_exp(-1.702 * z))
    }

    /// [`Self::performance`] to six digits in a third of the time.
    pub fn quick_performance(self) -> f32 {
        quick_exp(self.ln)
    }
}

/// eˣ within 4 parts in a million, for x held within ±87: 2ⁿ · 2ᶠ with f within
/// ±½ by the first six terms of its Taylor series.
#[inline]
pub fn quick_exp(x: f32) -> f32 {
    let binary = x.clamp(-87.0, 87.0) * std::f32::consts::LOG2_E;
    // Rounds to the nearest whole number: what is added pushes the fraction out
    // of the mantissa.
    const PUSH: f32 = 12_582_912.0;
    let whole = (binary + PUSH) - PUSH;
    let f = (binary - whole) * std::f32::consts::LN_2;
    let fraction =
        1.0 + f * (1.0 + f * (0.5 + f * (1.0 / 6.0 + f * (1.0 / 24.0 + f * (1.0 / 120.0)))));
    let scale = f32::from_bits(((whole as i32 + 127) << 23) as u32);
    fraction * scale
}

/// Variance of a pressure, squared points, up to which a curve is taken to be
/// straight within reach of it.
const STRAIGHT: f32 = 1.0;

/// Performance under `pressure`: the product over the `counted` resources of
/// what the pressure costs. Every prediction of this library comes through here.
///
/// On most resources that is the sensitivity curve, averaged over what the
/// pressure may be (Gauss–Hermite, three points), so that the cap at 100 and the
/// bends of a curve count as far as they are within reach. On a CPU that is
/// shared it is what the scheduler leaves ([`CpuNeed`]); where no need is known
/// it is the curve of `cpu-time`, like any other.
///
/// [`CpuNeed`]: super::cpu::CpuNeed
#[inline]
pub fn performance(responses: &Responses, pressure: &Pressure, counted: LaneSet) -> Expected {
    let mut expected = Expected::default();
    let mut left = counted;
    if let (Some(need), Some(cpu)) = (&responses.cpu, &pressure.cpu)
        && counted.contains(CPU)
    {
        (expected.ln, expected.variance) = need.on(cpu);
        // Company makes nobody faster.
        expected.ln = expected.ln.min(0.0);
        left.remove(CPU);
    }
    // The share of the time in which others have the CPU in turns of milliseconds.
    let in_turns = pressure.cpu.as_ref().map(|cpu| cpu.others.min(1.0));
    let (mut disk, mut cache) = (Expected::default(), Expected::default());
    for curve in &responses.curves {
        let lane = curve.lane();
        if !left.contains(lane) {
            continue;
        }
        let points = match in_turns {
            Some(share) if lane == L2 => pressure.points[lane].max(100.0 * share),
            _ => pressure.points[lane],
        };
        let (ln, variance) = averaged(curve, points, pressure.variance[lane]);
        let group = match lane {
            _ if DISK.contains(&lane) => Some(&mut disk),
            _ if CACHE.contains(&lane) => Some(&mut cache),
            _ => None,
        };
        if let Some(costliest) = group {
            if ln <= costliest.ln {
                *costliest = Expected { ln, variance };
            }
            continue;
        }
        expected.ln += ln;
        expected.variance += variance;
    }
    if let Some(own) = responses.disk.filter(|_| left.contains(DISK[1])) {
        let ln = -(1.0 + own.requests * pressure.disk_wait).ln();
        if ln < disk.ln {
            let variance = (ln * WAITS_DIFFER).powi(2);
            disk = Expected { ln, variance };
        }
    }
    if left.contains(CACHE[0]) {
        let kept = match in_turns {
            Some(share) => EVICTED_IN_TURNS * share,
            None if counted.contains(CPU) => EVICTED_IN_TURNS * pressure.cached.min(1.0),
            None => EVICTED_BESIDE * pressure.cached.min(1.0),
        };
        let ln = kept * responses.without_cache;
        if ln < cache.ln {
            let variance = (ln * EVICTIONS_DIFFER).powi(2);
            cache = Expected { ln, variance };
        }
    }
    expected.ln += disk.ln + cache.ln;
    expected.variance += disk.variance + cache.variance;
    if pressure.serving > 0.0 && pressure.interrupts.0 < 0.0 && left.contains(DISK[1]) {
        let (ln, variance) = interrupted(responses, pressure);
        expected.ln += ln;
        expected.variance += variance;
    }
    if left.contains(MEMORY) {
        let awake = pressure.awake.min(1.0);
        expected.ln += responses.gains.0 * awake;
        expected.variance += responses.gains.1 * awake * awake;
    }
    expected
}

/// What the interrupts of others' disks cost: the time in which the application
/// wants its CPU grows, the time in which it rests does not. Where it is not known
/// whether they come to its CPU, the mean.
fn interrupted(responses: &Responses, pressure: &Pressure) -> (f32, f32) {
    let (ln, variance) = pressure.interrupts;
    let demand = responses.cpu.map_or(1.0, |need| need.demand);
    let there = -(1.0 + demand * ((-ln).exp() - 1.0)).ln();
    let chance = pressure.serving.min(1.0);
    let open = chance * (1.0 - chance) * there * there;
    (chance * there, chance * demand * demand * variance + open)
}

/// By how much of it, in logarithms, waiting for a disk differed from what is
/// computed: fio with reads of 4 and 16 KiB, and with flushed writes, beside dd with
/// reads of 64 KiB to 1 MiB.
const WAITS_DIFFER: f32 = 0.4;

/// What an application loses of all that it would lose without the last-level cache,
/// beside another that keeps its data there as well, on CPUs of their own. From 0 to 0.15 the
/// mean error over the pairs of `profiles/epyc-night` is the same to 0.2 points.
const EVICTED_BESIDE: f32 = 0.1;
/// The same on a shared CPU, beside anybody who has it in turns. It depends on what unseen
/// neighbours take meanwhile: by the same profiles 0 has the least mean error over those pairs,
/// 0.4 over those of `profiles/epyc-busy`; with 0.2 it is within 0.2 points of the least for both.
const EVICTED_IN_TURNS: f32 = 0.2;
/// Standard deviation of that from pair to pair, in parts of it. With it the predicted intervals
/// hold 91 and 97 % of what was measured in the pairs of `profiles/epyc-night`.
const EVICTIONS_DIFFER: f32 = 0.8;

/// All that run on one machine meet here, so that what is nobody's resource counts once.
const MEMORY: usize = Resource::MemoryCapacity as usize;

/// Two sources on one device: what either costs is the same waiting, so that the
/// costlier counts alone.
const DISK: [usize; 2] = [
    Resource::StorageCapacity as usize,
    Resource::StorageBandwidth as usize,
];

/// Whoever has the CPU for some milliseconds replaces what is in this cache, also those
/// beside whom a source in turns of a fraction of a millisecond loses nothing.
const L2: usize = Resource::L2Capacity as usize;

/// Three sources that evict the last-level cache, each in its own way: most of what
/// they cost is reading back what was evicted, which nobody pays for twice.
const CACHE: [usize; 3] = [
    Resource::LlcCapacity as usize,
    Resource::LlcBandwidth as usize,
    Resource::MemoryBandwidth as usize,
];

#[inline]
fn averaged(curve: &Curve, points: f32, uncertainty: f32) -> (f32, f32) {
    let (ln, variance, slope) = curve.at(points);
    if uncertainty <= STRAIGHT {
        return (ln, variance + slope * slope * uncertainty);
    }
    let reach = (3.0 * uncertainty).sqrt();
    let (less, less_variance, _) = curve.at(points - reach);
    let (more, more_variance, _) = curve.at(points + reach);
    let mean = (4.0 * ln + less + more) / 6.0;
    let square = |ln: f32, variance: f32| variance + (ln - mean) * (ln - mean);
    let spread =
        4.0 * square(ln, variance) + square(less, less_variance) + square(more, more_variance);
    (mean, spread / 6.0)
}

#[cfg(test)]
mod tests {
    use super::super::company::Company;
    use super::super::lanes::LANES;
    use super::super::responses::GRID;
    use super::super::responses::GRID_STEP;
    use super::*;

    #[test]
    fn quick_exp_is_the_exponential() {
        for step in -8700..=8700 {
            let x = step as f32 / 100.0;
            let (quick, exact) = (f64::from(quick_exp(x)), f64::from(x).exp());
            // Half a unit in the last place of the argument counts times x.
            let allowed = 4e-6 + f64::from(x.abs()) * 1.2e-7;
            assert!(
                (quick / exact - 1.0).abs() < allowed,
                "{x}: {quick} {exact}"
            );
        }
        assert_eq!(quick_exp(0.0), 1.0);
        assert!(quick_exp(f32::INFINITY).is_finite());
        assert!(quick_exp(-1e30) > 0.0);
    }

    #[test]
    fn who_keeps_data_in_the_cache_is_evicted_by_who_does_too() {
        let of = |per_point: f32| {
            let ln = std::array::from_fn(|step| -per_point * step as f32 * GRID_STEP);
            let curve = Curve::new(CACHE[0], ln, [0.0; GRID]);
            Responses::new(vec![curve], LaneSet::EMPTY, &[None; LANES])
        };
        let (large, small, none) = (of(0.006), of(0.0015), of(0.0));
        let counted: LaneSet = [CACHE[0]].into_iter().collect();
        let meets = |one: &Responses, other: &Responses, counted: LaneSet| {
            let both = [one, other].into_iter().map(|it| (it, counted));
            let pressure = Company::of(both).around(one, counted);
            performance(one, &pressure, counted).ln
        };
        let near = |ln: f32, expected: f32| assert!((ln - expected).abs() < 1e-6, "{ln}");
        near(meets(&large, &large, counted), -0.6 * EVICTED_BESIDE);
        // It holds half as much as one that uses all it may have.
        near(meets(&large, &small, counted), -0.6 * EVICTED_BESIDE * 0.5);
        near(meets(&small, &large, counted), -0.15 * EVICTED_BESIDE);
        near(meets(&large, &none, counted), 0.0);
        near(meets(&none, &large, counted), 0.0);
        // Its turns on one CPU.
        let shared = counted.or([CPU].into_iter().collect());
        near(meets(&large, &large, shared), -0.6 * EVICTED_IN_TURNS);
        // Caches that are not shared.
        near(meets(&large, &large, LaneSet::EMPTY), 0.0);
    }

    #[test]
    fn who_has_the_cpu_in_turns_takes_its_caches() {
        let curve = |lane, per_point: f32| {
            let ln = std::array::from_fn(|step| -per_point * step as f32 * GRID_STEP);
            Curve::new(lane, ln, [0.0; GRID])
        };
        let curves = vec![curve(L2, 0.001), curve(CACHE[0], 0.006)];
        let responses = Responses::new(curves, LaneSet::EMPTY, &[None; LANES]);
        let caches: LaneSet = [L2, CACHE[0]].into_iter().collect();
        let beside = |others| {
            let cpu = crate::predict::cpu::SharedCpu {
                level: 0.5,
                others,
                variance: 0.0,
            };
            let pressure = Pressure {
                cpu: Some(cpu),
                ..Pressure::default()
            };
            performance(&responses, &pressure, caches).ln
        };
        let all = -0.1 - 0.6 * EVICTED_IN_TURNS;
        assert!((beside(1.0) - all).abs() < 1e-6 && (beside(2.0) - all).abs() < 1e-6);
        assert!((beside(0.1) - 0.1 * all).abs() < 1e-6 && beside(0.0) == 0.0);
    }

    #[test]
    fn reading_back_what_was_evicted_is_paid_once() {
        let curve = |lane, per_point: f32| {
            let ln = std::array::from_fn(|step| -per_point * step as f32 * GRID_STEP);
            Curve::new(lane, ln, [0.0; GRID])
        };
        let curves = vec![curve(CACHE[0], 0.003), curve(CACHE[2], 0.002)];
        let responses = Responses::new(curves, LaneSet::EMPTY, &[None; LANES]);
        let mut pressure = Pressure::default();
        pressure.points[CACHE[0]] = 100.0;
        pressure.points[CACHE[2]] = 100.0;
        let beside: LaneSet = CACHE.into_iter().collect();
        let in_turns = beside.or([CPU].into_iter().collect());
        for counted in [beside, in_turns] {
            let kept = performance(&responses, &pressure, counted).ln;
            assert!((kept + 0.3).abs() < 1e-6);
        }
    }

    #[test]
    fn interrupts_cost_who_is_where_they_arrive() {
        let disk: LaneSet = [DISK[1]].into_iter().collect();
        let pressure = |serving| Pressure {
            interrupts: (0.75f32.ln(), 0.0),
            serving,
            ..Pressure::default()
        };
        let mut responses = Responses::default();
        let kept = |responses: &Responses, serving| {
            performance(responses, &pressure(serving), disk).performance()
        };
        assert!((kept(&responses, 1.0) - 0.75).abs() < 1e-6);
        assert_eq!(kept(&responses, 0.0), 1.0);
        assert!((kept(&responses, 0.5) - 0.75f64.sqrt()).abs() < 1e-6);
        let unsure = performance(&responses, &pressure(0.5), disk).variance;
        assert!((unsure.sqrt() - 0.5 * -0.75f32.ln()).abs() < 1e-6);
        // Who rests three quarters of the time runs a third longer of one quarter.
        responses.cpu = crate::predict::CpuNeed::of(Some((0.25, 0.0)), None, None);
        assert!((kept(&responses, 1.0) - 12.0 / 13.0).abs() < 1e-6);
    }

    #[test]
    fn who_waits_gains_beside_who_keeps_other_cpus_awake() {
        let need = |demand| crate::predict::CpuNeed::of(Some((demand, 0.0)), None, None);
        let waits = Responses {
            gains: (0.08, 0.0001),
            cpu: need(0.4),
            ..Responses::default()
        };
        let other = |demand| Responses {
            cpu: need(demand),
            ..Responses::default()
        };
        let beside = |neighbour: &Responses, counted: LaneSet| {
            let both = [&waits, neighbour].into_iter().map(|it| (it, counted));
            let pressure = Company::of(both).around(&waits, counted);
            performance(&waits, &pressure, counted)
        };
        let apart: LaneSet = [MEMORY].into_iter().collect();
        let found = beside(&other(1.0), apart);
        assert!((found.ln - 0.08).abs() < 1e-6 && found.ci95()[1] > found.performance());
        assert!((beside(&other(0.5), apart).ln - 0.04).abs() < 1e-6);
        // On a CPU that they share nobody keeps another one awake.
        let shared: LaneSet = [CPU, MEMORY].into_iter().collect();
        assert!(beside(&other(1.0), shared).ln <= 0.0);
    }

    #[test]
    fn chances_are_those_of_the_normal_distribution() {
        let of = |z: f32| {
            let expected = Expected {
                ln: 0.0,
                variance: 0.01,
            };
            f64::from(expected.chance_of(-0.1 * z))
        };
        for (z, exact) in [(0.0, 0.5), (1.0, 0.8413), (1.645, 0.95), (-1.96, 0.025)] {
            assert!((of(z) - exact).abs() < 0.0096, "{z}");
        }
    }
}
