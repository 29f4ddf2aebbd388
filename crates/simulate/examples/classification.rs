//! How far off inferred scores are on synthetic applications, and how long
//! classification takes as the training set grows.
//!
//! `cargo run --profile bench -p jostle-simulate --example classification [accuracy|speed]`

use jostle_schedule::classify::Cell;
use jostle_schedule::classify::Classifier;
use jostle_schedule::classify::Known;
use jostle_schedule::classify::Method;
use jostle_schedule::classify::Shown;
use jostle_schedule::classify::Table;
use jostle_schedule::classify::evaluate;
use jostle_schedule::classify::evaluate::Accuracy;
use jostle_schedule::classify::evaluate::Bundles;
use jostle_schedule::classify::evaluate::Reveal;
use jostle_simulate::Structure;
use jostle_simulate::scored;
use jostle_simulate::scores;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use std::time::Instant;

const TESTED: usize = 200;
const LIMITS: Option<[f64; 2]> = Some([0.0, 100.0]);

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("accuracy") => accuracy(),
        Some("speed") => speed(),
        _ => {
            accuracy();
            speed();
        }
    }
}

/// Rows with normal errors of standard deviation `noise`.
fn table(rows: &[Vec<f64>], columns: usize, noise: f64, rng: &mut ChaCha8Rng) -> Table {
    let mut table = Table::new(columns, LIMITS);
    for row in rows {
        let cells = row[..columns].iter().enumerate().map(|(column, score)| {
            let normal: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
            let value = (score + noise * normal).clamp(0.0, 100.0);
            (column, Known::Value { value, sd: noise })
        });
        table.push(cells.collect()).expect("scores are numbers");
    }
    table
}

fn accuracy() {
    let columns = 2 * scored().len();
    println!(
        "structure | applications | noise | measured | method | mean | p50 | p90 | worst | <5 | <10 | <20 | rank | in 95 %"
    );
    let structures = [
        ("kinds", Structure::Kinds),
        ("3 qualities", Structure::Qualities(3)),
        ("2 qualities", Structure::Qualities(2)),
        ("1 quality", Structure::Qualities(1)),
    ];
    for (name, structure) in structures {
        for count in [50, 200, 1000, 5000] {
            for noise in [0.0, 5.0, 10.0] {
                let all = scores(structure, count + TESTED, 1);
                let mut rng = ChaCha8Rng::seed_from_u64(5);
                let training = table(&all[..count], columns, noise, &mut rng);
                let tested = table(&all[count..], columns, noise, &mut rng);
                // Tolerated and caused of a resource are measured together.
                let resources = columns / 2;
                let pairs = Bundles {
                    measured: (0..resources).map(|at| vec![at, at + resources]).collect(),
                    free: Vec::new(),
                };
                let single = Bundles::single(columns);
                let ways = [
                    ("2 entries at random", &single, Reveal::Random(2)),
                    ("2 most telling entries", &single, Reveal::Telling(2)),
                    ("2 most telling resources", &pairs, Reveal::Telling(2)),
                    ("all entries but one", &single, Reveal::AllButOne),
                ];
                for (how, bundles, reveal) in ways {
                    for method in Method::ALL {
                        // The others are there to be compared on the main ways.
                        let usual = (noise, count) == (5.0, 1000);
                        if !(usual
                            || method == Method::Mixture
                                && matches!(reveal, Reveal::Random(_) | Reveal::Telling(_)))
                        {
                            continue;
                        }
                        let truth = &all[count..];
                        let judged = evaluate::held_out(
                            &training, &tested, truth, bundles, reveal, method, 1,
                        );
                        let of = Accuracy::of(&judged);
                        println!(
                            "{name} | {count} | {noise} | {how} | {method} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.0}",
                            of.mean,
                            of.p50,
                            of.p90,
                            of.worst,
                            of.under_5_percent,
                            of.under_10_percent,
                            of.under_20_percent,
                            of.rank_correlation.unwrap_or(f64::NAN),
                            of.coverage_percent,
                        );
                    }
                }
            }
        }
    }
}

fn speed() {
    const COLUMNS: usize = 18;
    println!("applications | method | training, ms | one application, ms | next measurement, ms");
    for count in [100, 300, 1000, 3000, 10_000] {
        let all = scores(Structure::Kinds, count + TESTED, 1);
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let training = table(&all[..count], COLUMNS, 5.0, &mut rng);
        let tested = table(&all[count..], COLUMNS, 5.0, &mut rng);
        for method in Method::ALL {
            let start = Instant::now();
            let classifier = Classifier::train(&training, method, &Shown::Count(2), 1);
            let trained = start.elapsed();
            let known: Vec<&[Cell]> = tested.rows().iter().map(|row| &row[3..5]).collect();
            let start = Instant::now();
            for known in &known {
                classifier.complete(known).expect("cells of a table");
            }
            let one = start.elapsed() / known.len() as u32;
            let candidates: Vec<_> = (0..COLUMNS).map(|at| classifier.candidate(&[at])).collect();
            let wanted: Vec<usize> = (0..COLUMNS).collect();
            let start = Instant::now();
            classifier.next(known[0], &candidates, &wanted);
            let next = start.elapsed();
            let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
            println!(
                "{count} | {method} | {:.1} | {:.4} | {:.1}",
                ms(trained),
                ms(one),
                ms(next)
            );
        }
    }
}
