//! Classification: what holds whatever the table, and what planted structure
//! must give.

use jostle_schedule::classify::Candidate;
use jostle_schedule::classify::Cell;
use jostle_schedule::classify::Classifier;
use jostle_schedule::classify::Guess;
use jostle_schedule::classify::Known;
use jostle_schedule::classify::Method;
use jostle_schedule::classify::Shown;
use jostle_schedule::classify::Table;
use jostle_schedule::classify::evaluate;
use jostle_schedule::classify::evaluate::Accuracy;
use jostle_schedule::classify::evaluate::Bundles;
use jostle_schedule::classify::evaluate::Reveal;
use proptest::prelude::*;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

const LIMITS: Option<[f64; 2]> = Some([0.0, 100.0]);
const COLUMNS: usize = 12;

/// Two kinds of application, each with a quality of its own that moves half of
/// the columns, and noise.
fn planted(rows: usize, noise: f64, seed: u64) -> Vec<Vec<f64>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let row = |row: usize| -> Vec<f64> {
        let quality: f64 = rng.random_range(-1.0..1.0);
        let score = |column: usize| {
            let base = if (row + column).is_multiple_of(2) {
                70.0
            } else {
                30.0
            };
            let moved = if column < COLUMNS / 2 {
                20.0 * quality
            } else {
                0.0
            };
            base + moved + noise * rng.random_range(-1.0..1.0)
        };
        (0..COLUMNS).map(score).collect()
    };
    (0..rows).map(row).collect()
}

fn table(rows: &[Vec<f64>], sd: f64) -> Table {
    let mut table = Table::new(COLUMNS, LIMITS);
    for row in rows {
        let cells = row.iter().enumerate();
        let cells = cells.map(|(column, value)| (column, Known::Value { value: *value, sd }));
        table.push(cells.collect()).unwrap();
    }
    table
}

fn sound(guesses: &[Guess]) {
    for guess in guesses {
        let [low, high] = guess.ci95;
        assert!(low <= guess.value && guess.value <= high, "{guess:?}");
        assert!(
            (0.0..=100.0).contains(&low) && (0.0..=100.0).contains(&high),
            "{guess:?}"
        );
    }
}

#[test]
fn every_method_learns_more_than_the_means_from_two_entries() {
    let rows = planted(90, 1.0, 1);
    let (training, tested) = (table(&rows[..50], 1.0), table(&rows[50..], 1.0));
    let accuracy = |method| {
        let bundles = Bundles::single(COLUMNS);
        let reveal = Reveal::Random(2);
        let truth = &rows[50..];
        let judged = evaluate::held_out(&training, &tested, truth, &bundles, reveal, method, 1);
        Accuracy::of(&judged)
    };
    let means = accuracy(Method::Means);
    for method in [
        Method::Neighbours,
        Method::Svd,
        Method::Factors,
        Method::Mixture,
    ] {
        let found = accuracy(method);
        assert!(
            found.mean < 0.8 * means.mean,
            "{method}: {found:?} {means:?}"
        );
        assert!(found.coverage_percent > 88.0, "{method}: {found:?}");
    }
}

#[test]
fn an_uncertain_entry_counts_less_than_a_certain_one() {
    let table = table(&planted(100, 1.0, 2), 1.0);
    for method in [Method::Svd, Method::Factors, Method::Mixture] {
        let classifier = Classifier::train(&table, method, &Shown::Count(2), 1);
        let at = |sd: f64| {
            let known: [Cell; 2] = [
                (
                    6,
                    Known::Value {
                        value: 70.0,
                        sd: 2.0,
                    },
                ),
                (0, Known::Value { value: 88.0, sd }),
            ];
            classifier.complete(&known).unwrap()[2].value
        };
        // The second entry says that the quality is high.
        let (certain, uncertain) = (at(2.0), at(40.0));
        assert!(certain > uncertain + 5.0, "{method}: {certain} {uncertain}");
    }
}

#[test]
fn a_range_is_used_as_what_it_is() {
    let table = table(&planted(100, 1.0, 3), 1.0);
    let base = (
        6,
        Known::Value {
            value: 70.0,
            sd: 2.0,
        },
    );
    let above = |low: f64| (0, Known::Range { low, high: 100.0 });
    for method in [Method::Svd, Method::Factors, Method::Mixture] {
        let classifier = Classifier::train(&table, method, &Shown::Count(2), 1);
        let at = |cells: &[Cell]| classifier.complete(cells).unwrap()[2].value;
        let without = at(&[base]);
        let (vague, telling) = (at(&[base, above(10.0)]), at(&[base, above(82.0)]));
        assert!((vague - without).abs() < 4.0, "{method}: {vague} {without}");
        assert!(telling > without + 5.0, "{method}: {telling} {without}");
    }
}

#[test]
fn the_most_telling_measurement_is_the_one_that_others_follow() {
    // Column 1 is what columns 2 to 11 are; column 0 is by itself.
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let rows: Vec<Vec<f64>> = (0..80)
        .map(|_| {
            let (own, shared) = (rng.random_range(0.0..100.0), rng.random_range(10.0..90.0));
            let follows = (1..COLUMNS).map(|_| shared + rng.random_range(-3.0..3.0));
            std::iter::once(own).chain(follows).collect()
        })
        .collect();
    let classifier = Classifier::train(&table(&rows, 1.0), Method::Mixture, &Shown::Count(1), 1);
    let candidates: Vec<Candidate> = (0..2)
        .map(|column| classifier.candidate(&[column]))
        .collect();
    let wanted: Vec<usize> = (0..COLUMNS).collect();
    assert_eq!(classifier.next(&[], &candidates, &wanted), Some(1));
    let known = [(1, Known::exact(50.0))];
    assert_eq!(classifier.next(&known, &candidates[..1], &wanted), Some(0));
    assert_eq!(classifier.next(&known, &[], &wanted), None);
}

#[test]
fn an_application_unlike_all_others_is_noticed() {
    let table = table(&planted(60, 1.0, 5), 1.0);
    let classifier = Classifier::train(&table, Method::Mixture, &Shown::Count(2), 1);
    for row in table.rows() {
        assert!(!classifier.is_unlike_any(row));
    }
    // High where one kind is high, and where the other one is.
    let foreign: Vec<Cell> = (6..COLUMNS)
        .map(|column| (column, Known::exact(95.0)))
        .collect();
    assert!(classifier.is_unlike_any(&foreign));
    assert!(!classifier.is_unlike_any(&[]));
}

#[test]
fn tables_refuse_what_is_no_number_and_name_the_place() {
    let mut table = Table::new(3, LIMITS);
    let refused = |table: &mut Table, cells: Vec<Cell>| table.push(cells).unwrap_err().to_string();
    let nan = vec![(1, Known::exact(f64::NAN))];
    assert_eq!(refused(&mut table, nan), "row 0, column 1 is NaN");
    let error = vec![(
        1,
        Known::Value {
            value: 1.0,
            sd: -1.0,
        },
    )];
    assert_eq!(
        refused(&mut table, error),
        "row 0, column 1 has the error -1"
    );
    let range = vec![(
        0,
        Known::Range {
            low: 60.0,
            high: 20.0,
        },
    )];
    assert_eq!(
        refused(&mut table, range),
        "row 0, column 0 has the range 60 to 20"
    );
    let twice = vec![(2, Known::exact(1.0)), (2, Known::exact(2.0))];
    assert_eq!(refused(&mut table, twice), "row 0 has column 2 twice");
    let beyond = vec![(3, Known::exact(1.0))];
    assert!(refused(&mut table, beyond).starts_with("column 3 of 3"));
    assert!(table.rows().is_empty());
}

#[test]
fn degenerate_tables_give_sound_answers() {
    let one = vec![vec![(0, Known::exact(40.0)), (3, Known::exact(100.0))]];
    let constant: Vec<Vec<Cell>> = (0..9)
        .map(|_| {
            (0..COLUMNS)
                .map(|column| (column, Known::exact(100.0)))
                .collect()
        })
        .collect();
    // Rows without anything, a column that nobody knows, and one of ranges only.
    let sparse: Vec<Vec<Cell>> = (0..12)
        .map(|row| match row % 3 {
            0 => Vec::new(),
            1 => vec![(1, Known::exact(f64::from(row)))],
            _ => vec![
                (
                    2,
                    Known::Range {
                        low: 60.0,
                        high: f64::INFINITY,
                    },
                ),
                (4, Known::exact(7.0)),
            ],
        })
        .collect();
    for rows in [Vec::new(), one, constant, sparse] {
        let mut table = Table::new(COLUMNS, LIMITS);
        for row in rows {
            table.push(row).unwrap();
        }
        for method in Method::ALL {
            let classifier = Classifier::train(&table, method, &Shown::Count(1), 1);
            sound(&classifier.complete(&[]).unwrap());
            sound(&classifier.complete(&[(1, Known::exact(55.0))]).unwrap());
            let range = Known::Range {
                low: f64::NEG_INFINITY,
                high: 3.0,
            };
            sound(&classifier.complete(&[(2, range)]).unwrap());
        }
    }
}

fn cell() -> impl Strategy<Value = Option<Known>> {
    prop_oneof![
        3 => Just(None),
        3 => (0.0..100.0f64, 0.0..30.0f64).prop_map(|(value, sd)| Some(Known::Value { value, sd })),
        1 => Just(Some(Known::exact(100.0))),
        1 => (0.0..90.0f64, 1.0..50.0f64)
            .prop_map(|(low, width)| Some(Known::Range { low, high: low + width })),
    ]
}

fn row() -> impl Strategy<Value = Vec<Cell>> {
    prop::collection::vec(cell(), 5).prop_map(|cells| {
        let cells = cells.into_iter().enumerate();
        cells
            .filter_map(|(column, cell)| Some((column, cell?)))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_table_gives_sound_answers_that_repeat(
        rows in prop::collection::vec(row(), 0..12),
        known in row(),
    ) {
        let mut table = Table::new(5, LIMITS);
        for row in rows {
            table.push(row).unwrap();
        }
        for method in Method::ALL {
            let train = || Classifier::train(&table, method, &Shown::Count(2), 7);
            let guesses = train().complete(&known).unwrap();
            sound(&guesses);
            prop_assert_eq!(guesses, train().complete(&known).unwrap());
        }
    }
}
