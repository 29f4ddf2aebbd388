//! How far off inferred entries are, and whether their intervals hold.

use super::classifier::Classifier;
use super::guess::Z95;
use super::model::Method;
use super::select::Candidate;
use super::table::Cell;
use super::table::Known;
use super::table::Table;
use super::trials::Shown;
use super::trials::miss;
use jostle_statistics::rank_correlation;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use serde::Serialize;

/// One entry that was hidden, and what was inferred.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    pub row: usize,
    pub column: usize,
    pub actual: Known,
    pub inferred: f64,
    pub ci95: [f64; 2],
}

impl Judged {
    /// Distance from what is known: 0 within a range.
    pub fn error(&self) -> f64 {
        miss(self.actual, self.inferred)
    }

    /// Whether the interval holds what is known: reaches its range, or its value
    /// give or take its own error.
    fn inside(&self) -> bool {
        let [low, high] = self.ci95;
        match self.actual {
            Known::Value { value, sd } => {
                let half = if value < self.inferred {
                    self.inferred - low
                } else {
                    high - self.inferred
                };
                (value - self.inferred).abs() <= half.hypot(Z95 * sd) + 1e-9
            }
            Known::Range {
                low: from,
                high: to,
            } => low <= to && from <= high,
        }
    }

    fn value(&self) -> Option<f64> {
        match self.actual {
            Known::Value { value, .. } => Some(value),
            Known::Range { .. } => None,
        }
    }
}

/// What is measured of an application before the rest is inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reveal {
    /// So many bundles at random.
    Random(usize),
    /// So many bundles, each the one that tells most given those before it.
    Telling(usize),
    /// Everything but one bundle, each in turn: what is left when nearly all is
    /// known.
    AllButOne,
}

/// Columns that are measured together, and those that come for nothing.
#[derive(Clone, Debug, Default)]
pub struct Bundles {
    pub measured: Vec<Vec<usize>>,
    pub free: Vec<usize>,
}

impl Bundles {
    /// Every column by itself.
    pub fn single(columns: usize) -> Self {
        Bundles {
            measured: (0..columns).map(|column| vec![column]).collect(),
            free: Vec::new(),
        }
    }

    /// What hyper-parameters and intervals are validated with.
    fn shown(&self, table: &Table, reveal: Reveal) -> Shown {
        let rows = table.rows().len().max(1);
        let known: usize = table.rows().iter().map(Vec::len).sum();
        let share = known as f64 / (rows * table.columns().max(1)) as f64;
        let columns: usize = self.measured.iter().map(Vec::len).sum();
        let bundle = columns as f64 / self.measured.len().max(1) as f64;
        let count = match reveal {
            Reveal::Random(count) | Reveal::Telling(count) => {
                count as f64 * bundle + self.free.len() as f64
            }
            Reveal::AllButOne => table.columns() as f64 - bundle,
        };
        Shown::Count(((count * share).round() as usize).max(1))
    }
}

/// Every row of `table` in turn is left out, with those of the same application;
/// most of it is hidden and inferred from the other rows. Hyper-parameters and
/// intervals are found anew each time.
pub fn leave_one_out(
    table: &Table,
    applications: &[String],
    bundles: &Bundles,
    reveal: Reveal,
    method: Method,
    seed: u64,
) -> Vec<Judged> {
    let mut judged = Vec::new();
    for (row, cells) in table.rows().iter().enumerate() {
        let others = table.subset(|other| applications[other] != applications[row]);
        let classifier = Classifier::train(&others, method, &bundles.shown(&others, reveal), seed);
        let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(row as u64));
        for (shown, hidden) in splits(&classifier, cells, bundles, reveal, &mut rng) {
            judged.extend(judge(&classifier, row, &shown, &hidden));
        }
    }
    judged
}

/// The rows of `tested` are completed from those of `training`, and judged by
/// `truth`, which has all columns of the same rows.
pub fn held_out(
    training: &Table,
    tested: &Table,
    truth: &[Vec<f64>],
    bundles: &Bundles,
    reveal: Reveal,
    method: Method,
    seed: u64,
) -> Vec<Judged> {
    let classifier = Classifier::train(training, method, &bundles.shown(training, reveal), seed);
    let mut judged = Vec::new();
    for (row, cells) in tested.rows().iter().enumerate() {
        let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(row as u64));
        for (shown, hidden) in splits(&classifier, cells, bundles, reveal, &mut rng) {
            let hidden: Vec<Cell> = hidden
                .iter()
                .map(|(column, _)| (*column, Known::exact(truth[row][*column])))
                .collect();
            judged.extend(judge(&classifier, row, &shown, &hidden));
        }
    }
    judged
}

/// What is shown and what is hidden of a row.
fn splits(
    classifier: &Classifier,
    cells: &[Cell],
    bundles: &Bundles,
    reveal: Reveal,
    rng: &mut ChaCha8Rng,
) -> Vec<(Vec<Cell>, Vec<Cell>)> {
    let is_known = |bundle: &&Vec<usize>| {
        let has = |column: &usize| cells.iter().any(|(at, _)| at == column);
        bundle.iter().any(has)
    };
    let mut left: Vec<&Vec<usize>> = bundles.measured.iter().filter(is_known).collect();
    let divide = |chosen: &[&Vec<usize>]| -> (Vec<Cell>, Vec<Cell>) {
        cells.iter().partition(|(column, _)| {
            bundles.free.contains(column) || chosen.iter().any(|bundle| bundle.contains(column))
        })
    };
    match reveal {
        Reveal::Random(count) => {
            left.shuffle(rng);
            left.truncate(count);
            vec![divide(&left)]
        }
        Reveal::Telling(count) => {
            let wanted: Vec<usize> = bundles.measured.iter().flatten().copied().collect();
            let mut chosen = Vec::new();
            for _ in 0..count {
                let (known, _) = divide(&chosen);
                let candidates: Vec<Candidate> = left
                    .iter()
                    .map(|bundle| classifier.candidate(bundle))
                    .collect();
                if let Some(next) = classifier.next(&known, &candidates, &wanted) {
                    chosen.push(left.remove(next));
                }
            }
            vec![divide(&chosen)]
        }
        Reveal::AllButOne => (0..left.len())
            .map(|one| {
                let mut others = left.clone();
                others.remove(one);
                divide(&others)
            })
            .collect(),
    }
}

/// What `classifier` says of the cells `hidden` when it sees those `shown`.
fn judge(classifier: &Classifier, row: usize, shown: &[Cell], hidden: &[Cell]) -> Vec<Judged> {
    // Cells of a table are fit to be completed from.
    let Ok(guesses) = classifier.complete(shown) else {
        return Vec::new();
    };
    hidden
        .iter()
        .map(|(column, actual)| Judged {
            row,
            column: *column,
            actual: *actual,
            inferred: guesses[*column].value,
            ci95: guesses[*column].ci95,
        })
        .collect()
}

/// Errors in the units of the table, shares in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Accuracy {
    pub entries: usize,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub worst: f64,
    pub under_5_percent: f64,
    pub under_10_percent: f64,
    pub under_20_percent: f64,
    /// Spearman's, over all entries with a value; absent where one side does not
    /// vary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank_correlation: Option<f64>,
    /// Entries within their 95 % interval.
    pub coverage_percent: f64,
    /// Mean width of the intervals.
    pub width: f64,
}

impl Accuracy {
    pub fn of(judged: &[Judged]) -> Self {
        if judged.is_empty() {
            return Accuracy::default();
        }
        let mut errors: Vec<f64> = judged.iter().map(Judged::error).collect();
        errors.sort_unstable_by(f64::total_cmp);
        let count = errors.len() as f64;
        let quantile = |share: f64| errors[((count * share) as usize).min(errors.len() - 1)];
        let under =
            |most: f64| 100.0 * errors.iter().filter(|error| **error < most).count() as f64 / count;
        let inside = judged.iter().filter(|one| one.inside()).count() as f64;
        let widths = judged.iter().map(|one| one.ci95[1] - one.ci95[0]);
        Accuracy {
            entries: errors.len(),
            mean: errors.iter().sum::<f64>() / count,
            p50: quantile(0.5),
            p90: quantile(0.9),
            worst: errors[errors.len() - 1],
            under_5_percent: under(5.0),
            under_10_percent: under(10.0),
            under_20_percent: under(20.0),
            rank_correlation: correlation(judged),
            coverage_percent: 100.0 * inside / count,
            width: widths.sum::<f64>() / count,
        }
    }
}

fn correlation(judged: &[Judged]) -> Option<f64> {
    let pairs: Vec<(f64, f64)> = judged
        .iter()
        .filter_map(|one| Some((one.value()?, one.inferred)))
        .collect();
    rank_correlation(&pairs)
}
