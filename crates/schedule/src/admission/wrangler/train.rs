//! From windows to models: one per pair of node and workload, and one that all share.

use super::features::class;
use super::model::Linear;
use super::model::Pair;
use super::model::Shared;
use super::model::WranglerModel;
use super::model::causes;
use super::options::Confidence;
use super::options::TrainingOptions;
use super::platt::Sigmoid;
use super::report::Cause;
use super::report::Confusion;
use super::report::FeatureReport;
use super::report::PairReport;
use super::report::Score;
use super::report::TrainingReport;
use super::report::Used;
use super::scale::Scale;
use super::scale::scaled;
use super::scale::scales;
use super::svm::ALONE;
use super::svm::Groups;
use super::svm::Plane;
use super::svm::Rows;
use super::svm::Svm;
use super::windows::Window;
use super::windows::Windows;
use crate::error::TrainingError;
use jostle_profile::reading::Reading;
use std::collections::BTreeMap;

/// Stretches of time in which the windows to learn from are cut for the probabilities.
const FOLDS: usize = 3;

/// Windows in all, and of a pair in the first two thirds and in the last.
const LEAST_WINDOWS: usize = 30;
const LEAST_TRAINED: usize = 20;
const LEAST_TESTED: usize = 10;

/// Windows of one pair, by their place in the order of time.
#[derive(Default)]
struct Members {
    train: Vec<usize>,
    test: Vec<usize>,
}

/// Names of node and workload.
type Key<'a> = (&'a str, &'a str);

/// One machine with its probabilities, and what it said of windows that it was not
/// trained on.
struct Fitted {
    svm: Svm,
    sigmoid: Sigmoid,
    confidence: f64,
    /// Probability by row, out of fold.
    unseen: BTreeMap<usize, f64>,
}

/// Learns from the first two thirds of the time and looks at the rest.
pub(super) fn train(
    windows: Windows,
    options: TrainingOptions,
) -> Result<WranglerModel, TrainingError> {
    if let Confidence::Above(p) = options.confidence
        && !(0.5..1.0).contains(&p)
    {
        return Err(TrainingError::Confidence(p.to_string()));
    }
    let all = &windows.windows;
    let refuse = |what: String| TrainingError::Windows {
        file: windows.files.join(", "),
        what,
    };
    if all.len() < LEAST_WINDOWS {
        let unlabelled = match windows.unlabelled {
            0 => String::new(),
            count => format!(" ({count} more do not say whether the workload was slow)"),
        };
        let count = match all.len() {
            1 => "1 window is".to_string(),
            count => format!("{count} windows are"),
        };
        return Err(refuse(format!(
            "{count} too few to learn from; at least {LEAST_WINDOWS} are needed{unlabelled}"
        )));
    }
    let cut = all.len() * 2 / 3;
    let slow = all[..cut].iter().filter(|window| window.slow).count();
    if slow == 0 || slow == cut {
        let which = if slow == 0 {
            "none is slow"
        } else {
            "every one is slow"
        };
        return Err(refuse(format!(
            "of the {cut} windows to learn from (the first two thirds) {which}; both kinds \
             are needed"
        )));
    }
    let mut pairs: BTreeMap<Key, Members> = BTreeMap::new();
    for (at, window) in all.iter().enumerate() {
        let members = pairs.entry((&window.node, &window.workload)).or_default();
        match at < cut {
            true => members.train.push(at),
            false => members.test.push(at),
        }
    }
    let shared = Common::train(all, cut, options);
    let judged = shared.judge(&Members {
        train: (0..cut).collect(),
        test: (cut..all.len()).collect(),
    });
    let helps = judged.value().is_some_and(|score| score.helps);
    let (mut models, mut reports) = (Vec::new(), Vec::new());
    for (key, members) in &pairs {
        let (model, report) = pair(*key, members, &shared, helps, &windows, options);
        models.push(model);
        reports.push(report);
    }
    let report = TrainingReport {
        windows: all.len(),
        unlabelled: windows.unlabelled,
        later_third_from: Some(all[cut].time.clone()).filter(|time| !time.is_empty()),
        features: features(&windows),
        pairs: reports,
        shared: judged,
        notes: windows.notes,
        files: windows.files,
    };
    let shared = shared.into_model(helps);
    Ok(WranglerModel::new(
        windows.features,
        models,
        Some(shared),
        report,
    ))
}

fn features(windows: &Windows) -> Vec<FeatureReport> {
    let all = &windows.windows;
    let of = |(at, name): (usize, &String)| {
        let there = all.iter().filter(|window| window.values[at].is_finite());
        FeatureReport {
            name: name.clone(),
            class: class(name).into(),
            available: there.count() as f64 / all.len() as f64,
        }
    };
    windows.features.iter().enumerate().map(of).collect()
}

/// The shared model while it is compared.
struct Common<'a> {
    windows: &'a [Window],
    scales: Vec<Scale>,
    xs: Vec<Vec<f64>>,
    groups: Vec<Groups>,
    nodes: Vec<&'a str>,
    workloads: Vec<&'a str>,
    fitted: Fitted,
}

fn names<'a>(of: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut names: Vec<&str> = of.map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl<'a> Common<'a> {
    fn train(windows: &'a [Window], cut: usize, options: TrainingOptions) -> Self {
        let trained = &windows[..cut];
        let nodes = names(trained.iter().map(|it| &it.node));
        let workloads = names(trained.iter().map(|it| &it.workload));
        let place = |names: &[&str], name: &str, from: usize| match names.binary_search(&name) {
            Ok(at) => (from + at) as u32,
            Err(_) => super::svm::NO_GROUP,
        };
        let groups: Vec<Groups> = windows
            .iter()
            .map(|it| {
                let node = place(&nodes, &it.node, 1);
                [0, node, place(&workloads, &it.workload, 1 + nodes.len())]
            })
            .collect();
        // λ / λ_g with all hyper-parameters 1: parts of N nodes cost 1/N each.
        let mut freedom = vec![1.0];
        freedom.extend(nodes.iter().map(|_| nodes.len() as f64));
        freedom.extend(workloads.iter().map(|_| workloads.len() as f64));
        let scales = scales(trained.iter().map(|it| &it.values[..]));
        let xs: Vec<Vec<f64>> = (windows.iter())
            .map(|it| scaled(&scales, &it.values))
            .collect();
        let slow: Vec<bool> = windows.iter().map(|it| it.slow).collect();
        let rows = Rows {
            xs: &xs,
            slow: &slow,
            groups: &groups,
            freedom: &freedom,
        };
        let every: Vec<usize> = (0..cut).collect();
        let fitted = Fitted::train(&rows, &every, options);
        Common {
            windows,
            scales,
            groups,
            nodes,
            workloads,
            fitted,
            xs,
        }
    }

    /// What it is worth on the later windows of `members`.
    fn judge(&self, members: &Members) -> Reading<Score> {
        let probability = |row: usize| {
            let score = self.fitted.svm.score(&self.xs[row], &self.groups[row]);
            self.fitted.sigmoid.probability(score)
        };
        judge(self.windows, members, self.fitted.confidence, probability)
    }

    fn into_model(self, helps: bool) -> Shared {
        let mut parts = self.fitted.svm.parts.into_iter();
        let all = parts.next().unwrap_or_default();
        let mut named = |names: Vec<&str>| -> BTreeMap<String, Plane> {
            names
                .into_iter()
                .map(str::to_string)
                .zip(parts.by_ref())
                .collect()
        };
        let nodes = named(self.nodes);
        let workloads = named(self.workloads);
        Shared {
            scales: self.scales,
            all,
            nodes,
            workloads,
            sigmoid: self.fitted.sigmoid,
            confidence: self.fitted.confidence,
            helps,
        }
    }
}

/// The score of probabilities on the later windows of `members`.
fn judge(
    windows: &[Window],
    members: &Members,
    confidence: f64,
    probability: impl Fn(usize) -> f64,
) -> Reading<Score> {
    if members.test.len() < LEAST_TESTED {
        return Reading::unavailable(format!(
            "too little data: {} windows in the later third, {LEAST_TESTED} are needed",
            members.test.len()
        ));
    }
    let slow = members
        .train
        .iter()
        .filter(|row| windows[**row].slow)
        .count();
    let base_rate = slow as f64 / members.train.len().max(1) as f64;
    let tested = members.test.iter();
    let seen: Vec<(f64, bool)> = tested
        .map(|row| (probability(*row), windows[*row].slow))
        .collect();
    Reading::Value(Score::of(&seen, confidence, base_rate))
}

/// One pair: its own model, the shared one beside it, and which of them is used.
fn pair(
    key: Key,
    members: &Members,
    shared: &Common,
    shared_helps: bool,
    windows: &Windows,
    options: TrainingOptions,
) -> (Pair, PairReport) {
    let all = &windows.windows;
    let slow = |rows: &[usize]| rows.iter().filter(|row| all[**row].slow).count();
    let separate = alone(all, members, options);
    let own = match &separate {
        Ok((model, _)) => judge(all, members, model.confidence, |row| {
            model.probability(&all[row].values)
        }),
        Err(why) => Reading::unavailable(why.clone()),
    };
    let of_shared = shared.judge(members);
    let helps = own.value().is_some_and(|score| score.helps);
    // What all share was judged on all pairs; on this one it must not do harm.
    let harmless = of_shared
        .value()
        .is_none_or(|score| score.confusion.gains());
    let (used, why) = match (helps, shared_helps && harmless) {
        (true, true) if closer(&separate, shared, all) => (Used::Separate, None),
        (_, true) => (Used::Shared, None),
        (true, false) => (Used::Separate, None),
        (false, false) => (Used::None, Some(unusable(&own, &of_shared))),
    };
    let (node, workload) = (key.0.to_string(), key.1.to_string());
    let separate = separate.ok().map(|(model, _)| model);
    let explained = match used {
        Used::Separate => separate.clone(),
        Used::Shared => Some(shared.linear(key)),
        Used::None => None,
    };
    let tested = members.test.len();
    let tested_slow = slow(&members.test);
    let report = PairReport {
        node: node.clone(),
        workload: workload.clone(),
        trained_on: members.train.len(),
        trained_slow: slow(&members.train),
        tested_on: tested,
        tested_slow,
        always_not_slow: match tested >= LEAST_TESTED {
            true => Reading::Value((tested - tested_slow) as f64 / tested as f64),
            false => Reading::unavailable("too little data"),
        },
        separate: own,
        shared: of_shared,
        used,
        why: why.clone(),
        causes: match explained {
            Some(model) => Reading::Value(causes_of(&model, members, windows)),
            None => Reading::unavailable("no model explains when it is slow"),
        },
    };
    let model = Pair {
        node,
        workload,
        separate: separate.filter(|_| used == Used::Separate),
        used,
        why,
    };
    (model, report)
}

fn unusable(own: &Reading<Score>, shared: &Reading<Score>) -> String {
    match (own.reason(), shared.reason()) {
        (Some(why), Some(_)) => why.to_string(),
        _ => "no better than always the same answer on the windows kept for judging".into(),
    }
}

/// The model of one pair alone, or why there is none.
fn alone(
    all: &[Window],
    members: &Members,
    options: TrainingOptions,
) -> Result<(Linear, BTreeMap<usize, f64>), String> {
    let rows = &members.train;
    if rows.len() < LEAST_TRAINED {
        let count = rows.len();
        return Err(format!(
            "too little data: {count} windows in the first two thirds, {LEAST_TRAINED} are needed"
        ));
    }
    let slow: Vec<bool> = rows.iter().map(|row| all[*row].slow).collect();
    let slow_first = slow[0];
    if slow.iter().all(|slow| *slow == slow_first) {
        let which = if slow_first { "always" } else { "never" };
        return Err(format!("it was {which} slow in the first two thirds"));
    }
    let scales = scales(
        rows.iter()
            .map(|row| &all[*row].values[..])
            .collect::<Vec<_>>()
            .into_iter(),
    );
    let xs: Vec<Vec<f64>> = (rows.iter())
        .map(|row| scaled(&scales, &all[*row].values))
        .collect();
    let data = Rows {
        xs: &xs,
        slow: &slow,
        groups: &vec![ALONE; xs.len()],
        freedom: &[1.0],
    };
    let every: Vec<usize> = (0..xs.len()).collect();
    let mut fitted = Fitted::train(&data, &every, options);
    let unseen = fitted
        .unseen
        .iter()
        .map(|(at, p)| (rows[*at], *p))
        .collect();
    let model = Linear {
        scales,
        plane: fitted.svm.parts.remove(0),
        sigmoid: fitted.sigmoid,
        confidence: fitted.confidence,
    };
    Ok((model, unseen))
}

/// Whether the pair's own model came closer than the shared one on windows that
/// neither was trained on, within the first two thirds.
fn closer(
    separate: &Result<(Linear, BTreeMap<usize, f64>), String>,
    shared: &Common,
    all: &[Window],
) -> bool {
    let Ok((_, unseen)) = separate else {
        return false;
    };
    let error = |p: f64, row: &usize| (p - f64::from(u8::from(all[*row].slow))).powi(2);
    let (mut own, mut common) = (0.0, 0.0);
    for (row, p) in unseen {
        if let Some(other) = shared.fitted.unseen.get(row) {
            own += error(*p, row);
            common += error(*other, row);
        }
    }
    own < common
}

impl Common<'_> {
    fn linear(&self, (node, workload): Key) -> Linear {
        let mut plane = self.fitted.svm.parts[0].clone();
        if let Ok(at) = self.nodes.binary_search(&node) {
            plane.add(&self.fitted.svm.parts[1 + at]);
        }
        if let Ok(at) = self.workloads.binary_search(&workload) {
            plane.add(&self.fitted.svm.parts[1 + self.nodes.len() + at]);
        }
        Linear {
            scales: self.scales.clone(),
            plane,
            sigmoid: self.fitted.sigmoid,
            confidence: self.fitted.confidence,
        }
    }
}

/// What speaks for slow in all slow windows of a pair.
fn causes_of(model: &Linear, members: &Members, windows: &Windows) -> Vec<Cause> {
    let mut sums = vec![0.0; windows.features.len()];
    for row in members.train.iter().chain(&members.test) {
        let window = &windows.windows[*row];
        if window.slow {
            let parts = model.contributions(&window.values);
            sums.iter_mut()
                .zip(parts)
                .for_each(|(sum, part)| *sum += part);
        }
    }
    causes(&windows.features, &sums)
}

impl Fitted {
    fn train(rows: &Rows, chosen: &[usize], options: TrainingOptions) -> Fitted {
        let unseen = unseen_scores(rows, chosen, options.seed);
        let scores: Vec<f64> = unseen.iter().map(|(_, score)| *score).collect();
        let labels: Vec<bool> = unseen.iter().map(|(row, _)| rows.slow[*row]).collect();
        let sigmoid = Sigmoid::fit(&scores, &labels);
        Fitted {
            svm: Svm::train(rows, chosen, options.seed),
            sigmoid,
            confidence: match options.confidence {
                Confidence::Above(p) => p,
                Confidence::Tuned => tuned(sigmoid, &scores, &labels),
            },
            unseen: (unseen.into_iter())
                .map(|(row, score)| (row, sigmoid.probability(score)))
                .collect(),
        }
    }
}

/// A score of every window by a machine that was not trained on it: what a
/// machine says of its own training windows is too sure of itself.
fn unseen_scores(rows: &Rows, chosen: &[usize], seed: u64) -> Vec<(usize, f64)> {
    let mut scores = Vec::new();
    for fold in 0..FOLDS {
        let within = fold * chosen.len() / FOLDS..(fold + 1) * chosen.len() / FOLDS;
        let others: Vec<usize> = [&chosen[..within.start], &chosen[within.end..]].concat();
        if rows.has_both(&others) {
            let svm = Svm::train(rows, &others, seed.wrapping_add(1 + fold as u64));
            let score = |row: &usize| (*row, svm.score(&rows.xs[*row], &rows.groups[*row]));
            scores.extend(chosen[within].iter().map(score));
        }
    }
    scores
}

/// The median of the confidences, of 0.50, 0.51 … 0.95, with the best accuracy.
fn tuned(sigmoid: Sigmoid, scores: &[f64], labels: &[bool]) -> f64 {
    let right = |p: f64| {
        let sure = scores.iter().map(|score| sigmoid.probability(*score) > p);
        Confusion::of(sure.zip(labels.iter().copied())).right()
    };
    let tried: Vec<(f64, u32)> = (50..=95)
        .map(|percent| f64::from(percent) / 100.0)
        .map(|p| (p, right(p)))
        .collect();
    let best = tried.iter().map(|(_, right)| *right).max();
    let range: Vec<f64> = tried
        .iter()
        .filter(|(_, right)| Some(*right) == best)
        .map(|(p, _)| *p)
        .collect();
    range.get(range.len() / 2).copied().unwrap_or(0.7)
}
