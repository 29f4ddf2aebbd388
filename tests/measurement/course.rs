//! Programs that do the same again and again, in runs or repetitions, against planted
//! truth: what they do at each place is no noise.

use crate::mock::Curve;
use crate::mock::Pace;
use crate::mock::Response;
use crate::playing::loss;
use crate::playing::noisy;
use crate::playing::playing;
use crate::playing::run;
use crate::playing::settings;
use jostle_measure::experiment::run::Halves;
use jostle_measure::experiment::run::Settings;

/// Phases of a run: a quarter of it is five times as slow as the rest, in pieces of
/// a few milliseconds to a tenth of a second.
fn uneven(place: f64) -> f64 {
    let piece = (place * 37.0) as u64;
    match piece.is_multiple_of(3) || (10..14).contains(&piece) {
        true => 0.4,
        false => 1.6,
    }
}

/// Operations of a run of 487 of which the longest take fifty times as long as the
/// shortest, most of them like those 22 before, as where records are read and then sorted.
fn unequal(place: f64) -> f64 {
    let operation = (place * 487.0 + 1e-6) as u64;
    let within = if operation < 330 {
        operation % 22
    } else {
        operation
    };
    let mixed = (within + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let part = mixed as f64 / (1u64 << 24) as f64;
    50f64.powf(part - 0.5)
}

/// Mean widths of intervals without and with the place in a run known, and how many of
/// each miss, over eight measurements of a program with phases. One that found a gain
/// that no pressure brings, and so says nothing, misses and has no width.
fn widths_and_misses(
    budget: u64,
    (endless, in_parts): (bool, bool),
    rate: f64,
    operations: f64,
    pace: Pace,
) -> ([f64; 2], [usize; 2]) {
    let found = |placed: bool, kept: f64, seed| {
        let (subjects, mut mock) = playing(&[noisy(Curve::Flat(kept))], seed);
        (mock.baseline, mock.bursts) = (rate, Some(1.0));
        (mock.runs, mock.placed) = (Some((operations, pace)), placed);
        (mock.endless, mock.in_parts) = (endless, in_parts);
        // All of the time for one level: where it goes otherwise depends on what is known.
        let settings = Settings {
            full_only: true,
            halves: Halves::Tolerated,
            ..settings(budget, seed)
        };
        let measured = run(&mut mock, &subjects, &settings);
        let curve = &measured.subjects[0].entry.curve;
        (!curve.is_empty()).then(|| loss(&measured, 0))
    };
    let (mut widths, mut missed) = ([Vec::new(), Vec::new()], [0, 0]);
    for seed in 0..8 {
        let kept = [0.9, 1.0][seed as usize % 2];
        for (known, placed) in [(0, false), (1, true)] {
            let hit = found(placed, kept, seed).is_some_and(|[_, low, high]| {
                widths[known].push(high - low);
                (low..=high).contains(&(1.0 - kept))
            });
            missed[known] += usize::from(!hit);
        }
    }
    let mean = |widths: Vec<f64>| widths.iter().sum::<f64>() / widths.len() as f64;
    (widths.map(mean), missed)
}

#[test]
fn what_a_program_does_in_every_run_is_no_noise() {
    let (widths, missed) = widths_and_misses(15, (false, false), 10e3, 8000.0, uneven);
    // Less than 0.6 of the width is almost three times the information.
    assert!(widths[1] < 0.6 * widths[0], "{widths:?}");
    assert!(missed[1] <= 2, "{missed:?}");
}

#[test]
#[ignore = "full tier: takes long"]
fn what_a_program_without_end_repeats_is_no_noise() {
    let (widths, missed) = widths_and_misses(15, (true, false), 10e3, 3000.0, uneven);
    assert!(widths[1] < 0.6 * widths[0], "{widths:?}");
    assert!(missed[1] <= 2, "{missed:?}");
}

#[test]
fn operations_that_differ_widely_are_compared_one_by_one() {
    for endless in [false, true] {
        let ways = (endless, false);
        let (widths, missed) = widths_and_misses(5, ways, 4000.0, 487.0, unequal);
        // More than twice the information.
        assert!(widths[1] < 0.65 * widths[0], "{endless}: {widths:?}");
        assert!(missed[1] <= 2, "{endless}: {missed:?}");
    }
}

#[test]
#[ignore = "full tier: takes long"]
fn operations_of_known_times_are_compared_one_by_one() {
    for endless in [false, true] {
        let ways = (endless, true);
        let (widths, missed) = widths_and_misses(10, ways, 1500.0, 487.0, unequal);
        assert!(widths[1] < 0.5 * widths[0], "{endless}: {widths:?}");
        assert!(missed[1] <= 2, "{endless}: {missed:?}");
    }
}

#[test]
#[ignore = "statistics: a minute"]
fn intervals_cover_where_operations_are_compared_one_by_one() {
    for endless in [false, true] {
        let mut missed = 0;
        for seed in 0..40_u64 {
            let kept = [0.9, 1.0][seed as usize % 2];
            let (subjects, mut mock) = playing(&[noisy(Curve::Flat(kept))], seed);
            (mock.baseline, mock.bursts) = (1500.0, Some(1.0));
            (mock.runs, mock.placed) = (Some((487.0, unequal as Pace)), true);
            (mock.endless, mock.in_parts) = (endless, true);
            let measured = run(&mut mock, &subjects, &settings(10, seed));
            let [_, low, high] = loss(&measured, 0);
            missed += usize::from(!(low..=high).contains(&(1.0 - kept)));
        }
        eprintln!("endless {endless}: {missed} of 40 intervals miss");
        assert!(missed <= 5, "endless {endless}: {missed}");
    }
}

/// Three runs in all, each block at a place of its own: two runs that were watched before
/// tell what the others cannot. How wide intervals are without and with them, and how many
/// of the latter miss, over `seeds` measurements.
fn with_whole_runs(seeds: u64) -> ([f64; 2], usize) {
    let (mut widths, mut missed) = ([0.0; 2], 0);
    for seed in 0..seeds {
        let kept = [0.9, 1.0][seed as usize % 2];
        for (known, runs) in [(0, 0), (1, 2)] {
            let (subjects, mut mock) = playing(&[noisy(Curve::Flat(kept))], seed);
            (mock.baseline, mock.bursts) = (1500.0, Some(1.0));
            (mock.runs, mock.placed) = (Some((4_870.0, unequal as Pace)), true);
            mock.in_parts = true;
            mock.watch_runs(runs, 0.1);
            let settings = Settings {
                full_only: true,
                halves: Halves::Tolerated,
                ..settings(10, seed)
            };
            let measured = run(&mut mock, &subjects, &settings);
            let [_, low, high] = loss(&measured, 0);
            widths[known] += (high - low) / seeds as f64;
            missed += usize::from(known == 1 && !(low..=high).contains(&(1.0 - kept)));
        }
    }
    (widths, missed)
}

#[test]
fn whole_runs_tell_what_few_runs_cannot() {
    let ([without, with], missed) = with_whole_runs(6);
    assert!(with < 0.7 * without, "{with} {without}");
    assert!(missed <= 1, "{missed}");
}

#[test]
#[ignore = "statistics: a minute"]
fn intervals_cover_with_whole_runs() {
    let ([without, with], missed) = with_whole_runs(40);
    eprintln!("{missed} of 40 intervals miss; widths {without:.4} without, {with:.4} with");
    assert!(missed <= 5, "{missed}");
}

/// The fewer operations a block holds, the further the mean logarithm of their rate lies
/// below that of their mean rate.
#[test]
fn a_slow_metric_loses_no_more_to_cpu_time_than_a_fast_one() {
    const CPU_TIME: usize = 6;
    let mut responses = [Response::default(); CPU_TIME + 1];
    responses[CPU_TIME] = noisy(Curve::Linear { loss: 0.5 });
    let lost = (0..6).map(|seed| {
        let (subjects, mut mock) = playing(&responses, seed);
        (mock.baseline, mock.bursts) = (160.0, Some(1.0));
        (mock.runs, mock.endless) = (Some((487.0, unequal as Pace)), true);
        let measured = run(&mut mock, &subjects, &settings(30, seed));
        loss(&measured, CPU_TIME)[0]
    });
    let lost: Vec<f64> = lost.collect();
    let mean = lost.iter().sum::<f64>() / lost.len() as f64;
    // In blocks of 16 ms it would be 0.74.
    assert!((mean - 0.5).abs() < 0.06, "{lost:?}");
}
