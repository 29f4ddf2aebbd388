//! From windows to models: one per pair of node and workload, and one that all share.

use super::features::class;
use super::fitted::Fitted;
use super::judge::Contest;
use super::judge::LEAST_TESTED;
use super::judge::Members;
use super::judge::judge;
use super::model::Linear;
use super::model::Pair;
use super::model::Shared;
use super::model::WranglerModel;
use super::model::causes;
use super::options::Confidence;
use super::options::TrainingOptions;
use super::report::Cause;
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
use super::windows::Window;
use super::windows::Windows;
use crate::error::TrainingError;
use jostle_profile::reading::Reading;
use std::collections::BTreeMap;

/// Windows in all, and of a pair in the first two thirds.
const LEAST_WINDOWS: usize = 30;
const LEAST_TRAINED: usize = 20;

/// Names of node and workload.
type Key<'a> = (&'a str, &'a str);

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
    let helps = shared.helps(pairs.values());
    let judged = shared.judge(&Members {
        train: (0..cut).collect(),
        test: (cut..all.len()).collect(),
    });
    let judged = judged.map(|score| Score { helps, ..score });
    let separate: Vec<Separate> = (pairs.values())
        .map(|members| Separate::train(all, members, options))
        .collect();
    let common = Helpful {
        separate: separate.iter().map(|it| it.contest).sum::<Contest>().won(),
        shared: helps,
    };
    let (mut models, mut reports) = (Vec::new(), Vec::new());
    for ((key, members), separate) in pairs.iter().zip(separate) {
        let (model, report) = pair(*key, members, separate, &shared, common, &windows);
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

    fn probability(&self, row: usize) -> f64 {
        let score = self.fitted.svm.score(&self.xs[row], &self.groups[row]);
        self.fitted.sigmoid.probability(score)
    }

    /// What it is worth on the later windows of `members`.
    fn judge(&self, members: &Members) -> Reading<Score> {
        let probability = |row: usize| self.probability(row);
        judge(self.windows, members, self.fitted.confidence, probability)
    }

    /// Against always giving the more frequent answer of each pair.
    fn helps<'m>(&self, pairs: impl Iterator<Item = &'m Members>) -> bool {
        let predicted = |row: usize| self.probability(row) > self.fitted.confidence;
        let contests = pairs.map(|members| Contest::of(self.windows, members, predicted));
        contests.sum::<Contest>().won()
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

/// The model of one pair alone, judged.
struct Separate {
    trained: Result<(Linear, BTreeMap<usize, f64>), String>,
    score: Reading<Score>,
    contest: Contest,
}

impl Separate {
    fn train(all: &[Window], members: &Members, options: TrainingOptions) -> Separate {
        let trained = alone(all, members, options);
        let (score, contest) = match &trained {
            Ok((model, _)) => {
                let probability = |row: usize| model.probability(&all[row].values);
                let predicted = |row: usize| probability(row) > model.confidence;
                (
                    judge(all, members, model.confidence, probability),
                    Contest::of(all, members, predicted),
                )
            }
            Err(why) => (Reading::unavailable(why.clone()), Contest::default()),
        };
        Separate {
            trained,
            score,
            contest,
        }
    }
}

/// Which kind of model is better than constant answers over all pairs.
#[derive(Clone, Copy)]
struct Helpful {
    separate: bool,
    shared: bool,
}

/// One pair: its own model, the shared one beside it, and which of them is used. What
/// was judged on all pairs must not do harm on this one.
fn pair(
    key: Key,
    members: &Members,
    separate: Separate,
    shared: &Common,
    helpful: Helpful,
    windows: &Windows,
) -> (Pair, PairReport) {
    let all = &windows.windows;
    let slow = |rows: &[usize]| rows.iter().filter(|row| all[**row].slow).count();
    let of_shared = shared.judge(members);
    let own = separate.score;
    let own_helps = (own.value())
        .is_some_and(|score| score.helps || helpful.separate && score.confusion.gains());
    let shared_helps =
        helpful.shared && (of_shared.value()).is_none_or(|score| score.confusion.gains());
    let separate = separate.trained;
    let (used, why) = match (own_helps, shared_helps) {
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
