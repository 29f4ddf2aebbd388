//! Sizes of caches from where the access time rises.

use super::Stop;
use super::Watch;
use jostle_host::machine::Machine;
use jostle_host::machine::calibration::Knee;
use jostle_host::machine::calibration::Size;
use jostle_host::machine::calibration::WALK_SHARE;
use jostle_host::machine::format_bytes;
use jostle_host::sys::cpus::set_affinity;
use jostle_kernels::tlb;
use jostle_kernels::walk::Lines;
use jostle_profile::reading::Reading;
use std::time::Duration;
use std::time::Instant;

/// Sizes tried per doubling.
const PER_OCTAVE: usize = 6;
/// A rise is where the time grows faster than this per doubling of the size,
/// natural logarithm, seen over [`WINDOW`] octaves.
const SLOPE: f64 = 0.13;
const WINDOW: f64 = 0.5;
/// A rise of less than this, natural logarithm, is no knee.
const LEAST_RISE: f64 = 0.18;
/// Told and measured sizes further apart than this are worth a sentence.
const APART: f64 = 1.3;

const SMALLEST_BYTES: u64 = 4 << 10;
const LARGEST_BYTES: u64 = 1 << 30;
/// What lies behind the last cache must show as a plateau of its own.
const BEYOND_LLC: u64 = 4;
/// Accesses of one walk: few enough that some walks end before anything
/// interrupts them.
const STEPS: u64 = 10_000;
/// Walks over one size in one sweep: cheap ones more often.
const WALKS: usize = 5;
const CHEAP_WALKS: usize = 15;
const CHEAP_BYTES: u64 = 4 << 20;
/// Sweeps over all sizes at most.
const MOST_SWEEPS: usize = 8;

/// Access time over one size, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    pub size: u64,
    pub nanoseconds: f64,
}

/// Sizes of the data caches of `cpu`, measured within `length`
/// unless `watch` stops it.
pub(super) fn sizes(
    machine: &Machine,
    cpu: usize,
    memory_bytes: u64,
    length: Duration,
    watch: &dyn Watch,
) -> Result<Vec<Size>, Stop> {
    // A thread of its own: only it is bound to the CPU.
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let _ = set_affinity(0, &[cpu]);
                let mut sizes = cache_sizes(machine, cpu, memory_bytes, length, watch)?;
                sizes.extend(tlb_size(machine));
                Ok(sizes)
            })
            .join()
            .expect("measuring does not panic")
    })
}

/// Entries of the second-level data TLB; `None` where nobody says how many, and the
/// source measures them itself.
fn tlb_size(machine: &Machine) -> Option<Size> {
    let told = *machine.tlb_entries.value()?;
    let measured = match tlb::measure_rise() {
        Err(failure) => Reading::unavailable(failure.0),
        Ok(rise) => Reading::Value(Knee {
            size: rise.entries,
            before_ns: rise.before_ns,
            after_ns: rise.after_ns,
        }),
    };
    let apart = measured
        .value()
        .and_then(|knee| difference("TLB", told, knee.size, "entries"));
    Some(Size {
        difference: apart,
        ..Size::new("TLB", "entries", Reading::Value(told), measured)
    })
}

fn cache_sizes(
    machine: &Machine,
    cpu: usize,
    memory_bytes: u64,
    length: Duration,
    watch: &dyn Watch,
) -> Result<Vec<Size>, Stop> {
    let mut told: Vec<(String, u64)> = machine
        .caches
        .iter()
        .filter(|cache| cache.kind.holds_data() && cache.shared_cpus.contains(&cpu))
        .map(|cache| (cache.name(), cache.size_bytes))
        .collect();
    told.sort_by_key(|(_, bytes)| *bytes);
    let beyond = told.last().map_or(LARGEST_BYTES, |(_, bytes)| *bytes);
    let largest = (beyond * BEYOND_LLC)
        .min(LARGEST_BYTES)
        .min(memory_bytes / 2);
    let bytes =
        |name: &str, size, measured| Size::new(name, "bytes", Reading::Value(size), measured);
    let code = machine
        .caches
        .iter()
        .filter(|cache| !cache.kind.holds_data() && cache.shared_cpus.contains(&cpu))
        .map(|cache| {
            let why = "a walk over data shows nothing of a cache of code";
            bytes(&cache.name(), cache.size_bytes, Reading::unavailable(why))
        });
    watch.say("access time over sizes")?;
    let lines = match Lines::new(largest.max(SMALLEST_BYTES)) {
        Ok(lines) => lines,
        Err(failure) => {
            let failed = || Reading::unavailable(failure.0.clone());
            let sizes = told.iter().map(|(name, size)| bytes(name, *size, failed()));
            return Ok(sizes.chain(code).collect());
        }
    };
    let sizes: Vec<u64> = grid(SMALLEST_BYTES, lines.bytes(), 64);
    let [curve] = sweep(&sizes, length, watch, |bytes| {
        lines.warm(bytes);
        let cheap = bytes <= CHEAP_BYTES;
        [least(if cheap { CHEAP_WALKS } else { WALKS }, || {
            if cheap {
                lines.walk_ns(bytes, bytes / 64);
            }
            lines.walk_ns(bytes, STEPS)
        })]
    })?;
    let mut sizes = named(&told, &knees(&curve), "bytes", largest);
    for size in &mut sizes {
        let bytes = size
            .reported
            .value()
            .map_or(f64::INFINITY, |size| WALK_SHARE * *size as f64);
        let walk = curve.iter().find(|access| access.size as f64 >= bytes);
        size.walk_ns = walk.map(|access| access.nanoseconds);
    }
    sizes.extend(code);
    Ok(sizes)
}

/// Sizes from `low` to `high`, [`PER_OCTAVE`] per doubling, multiples of `unit`.
fn grid(low: u64, high: u64, unit: u64) -> Vec<u64> {
    let octaves = (high as f64 / low as f64).log2().max(0.0);
    let count = (octaves * PER_OCTAVE as f64).floor() as usize;
    let mut sizes: Vec<u64> = (0..=count)
        .map(|step| {
            let size = low as f64 * (step as f64 / PER_OCTAVE as f64).exp2();
            (size.round() as u64 / unit * unit).max(unit)
        })
        .collect();
    sizes.dedup();
    sizes
}

/// The least times of each size over as many sweeps as fit in `length`, at least
/// one: what disturbs a walk can only make it longer, and a disturbance lasts,
/// so that the tries of one size must lie apart.
fn sweep<const CURVES: usize>(
    sizes: &[u64],
    length: Duration,
    watch: &dyn Watch,
    mut measure: impl FnMut(u64) -> [f64; CURVES],
) -> Result<[Vec<Access>; CURVES], Stop> {
    let began = Instant::now();
    let unknown = |&size| Access {
        size,
        nanoseconds: f64::INFINITY,
    };
    let mut curves = [(); CURVES].map(|()| sizes.iter().map(unknown).collect::<Vec<Access>>());
    for sweep in 1..=MOST_SWEEPS {
        for (index, &size) in sizes.iter().enumerate() {
            watch.check()?;
            for (curve, read) in curves.iter_mut().zip(measure(size)) {
                curve[index].nanoseconds = curve[index].nanoseconds.min(read);
            }
        }
        let expected = began.elapsed() * (sweep as u32 + 1) / sweep as u32;
        if expected > length {
            break;
        }
    }
    Ok(curves.map(|curve| rising(&curve)))
}

/// The least of several tries.
fn least(tries: usize, mut measure: impl FnMut() -> f64) -> f64 {
    (0..tries).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

/// A curve that never falls: the time over a size is at most that over any
/// larger one. Noise only adds, so the smaller reading is the better one, where
/// a least-squares fit would share the noise out.
fn rising(curve: &[Access]) -> Vec<Access> {
    let mut least = f64::INFINITY;
    let mut curve = curve.to_vec();
    for access in curve.iter_mut().rev() {
        least = least.min(access.nanoseconds);
        access.nanoseconds = least;
    }
    curve
}

/// The rises of a curve of ascending sizes, from plateau to plateau.
pub fn knees(curve: &[Access]) -> Vec<Knee> {
    let curve = rising(curve);
    let octave = |i: usize| (curve[i].size as f64).log2();
    let time = |i: usize| curve[i].nanoseconds.max(1e-3).ln();
    // A step between neighbours belongs to a rise when the time grows fast over
    // the window around it.
    let steps = curve.len().saturating_sub(1);
    let steep: Vec<bool> = (0..steps)
        .map(|step| {
            let middle = (octave(step) + octave(step + 1)) / 2.0;
            let inside = |i: &usize| (octave(*i) - middle).abs() <= WINDOW / 2.0 + 1e-6;
            let first = (0..=step).find(inside).unwrap_or(step);
            let last = (step + 1..curve.len()).rfind(inside).unwrap_or(step + 1);
            let own = time(step + 1) - time(step);
            own > 0.0 && (time(last) - time(first)) > SLOPE * (octave(last) - octave(first))
        })
        .collect();
    let mut found: Vec<(usize, usize)> = Vec::new();
    for step in (0..steps).filter(|&step| steep[step]) {
        match found.last_mut() {
            // A short halt is no plateau.
            Some((_, end)) if octave(step) - octave(*end) < WINDOW => *end = step + 1,
            _ => found.push((step, step + 1)),
        }
    }
    found
        .into_iter()
        .filter(|&(from, to)| time(to) - time(from) >= LEAST_RISE)
        .map(|(from, to)| {
            let half = (time(from) + time(to)) / 2.0;
            let after = (from..=to).find(|&i| time(i) >= half).unwrap_or(to).max(1);
            let (low, high) = (time(after - 1), time(after));
            let share = if high > low {
                ((half - low) / (high - low)).clamp(0.0, 1.0)
            } else {
                1.0
            };
            let at = octave(after - 1) + share * (octave(after) - octave(after - 1));
            Knee {
                size: at.exp2().round() as u64,
                before_ns: curve[from].nanoseconds,
                after_ns: curve[to].nanoseconds,
            }
        })
        .collect()
}

/// Gives each told structure, ascending by size, the knee that is its own: the
/// nearest one that lies above the knee of the structure before and nearer than
/// the structure after.
fn named(told: &[(String, u64)], knees: &[Knee], unit: &str, largest: u64) -> Vec<Size> {
    let mut before = 0u64;
    told.iter()
        .enumerate()
        .map(|(index, (name, size))| {
            let middle = |next: u64| (*size as f64 * next as f64).sqrt() as u64;
            let after = told
                .get(index + 1)
                .map_or(u64::MAX, |(_, next)| middle(*next));
            let apart = |knee: &&Knee| (knee.size as f64 / *size as f64).ln().abs();
            let own = knees
                .iter()
                .filter(|knee| before < knee.size && knee.size < after)
                .min_by(|a, b| apart(a).total_cmp(&apart(b)));
            before = own.map_or(*size, |knee| knee.size);
            let measured = own.map_or(no_knee(unit, largest), |knee| Reading::Value(*knee));
            Size {
                difference: own.and_then(|knee| difference(name, *size, knee.size, unit)),
                ..Size::new(name, unit, Reading::Value(*size), measured)
            }
        })
        .collect()
}

fn no_knee(unit: &str, largest: u64) -> Reading<Knee> {
    Reading::unavailable(format!(
        "the access time shows no knee up to {}",
        amount(largest, unit)
    ))
}

fn difference(name: &str, told: u64, measured: u64, unit: &str) -> Option<String> {
    let ratio = measured as f64 / told as f64;
    if (1.0 / APART..=APART).contains(&ratio) {
        return None;
    }
    let (told, measured) = (amount(told, unit), amount(measured, unit));
    let why = match ratio < 1.0 {
        true => {
            "the rest is not to be had: others hold it, or a hypervisor tells what the host \
             has and not what a guest gets"
        }
        false => "more is available than reported, or the machine was too busy to measure it",
    };
    Some(format!(
        "{name}: the machine reports {told}, the access time rises at {measured}; {why}"
    ))
}

/// `size` in words, to two digits behind the point at most.
pub fn amount(size: u64, unit: &str) -> String {
    match unit {
        "bytes" => format_bytes(size),
        _ => format!("{size} {unit}"),
    }
}
