//! The ways to predict that are compared.

use super::correction::Correction;
use super::correction::Observation;
use crate::app::App;
use crate::app::to_points;
use crate::predict::LaneSet;
use jostle_profile::Profile;
use jostle_profile::pairs::GroupPlacement;
use serde::Serialize;

/// A way to predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Losses of all resources multiply.
    Product,
    /// The costliest resource alone, beside the share of the CPU.
    Worst,
    /// Losses add, beside the share of the CPU.
    Additive,
    /// The product with a learned factor for each kind of resource.
    Corrected,
    /// Nobody costs anybody anything.
    None,
    /// Everybody gets the same share of the CPU.
    EqualSplit,
    /// The mean of what was recorded of other applications.
    MeanOfPairs,
    /// Σ |t − c|, the score of iBench: ranks, but predicts no number.
    L1,
}

impl Method {
    /// What `predict` and `schedule` use.
    pub const DEFAULT: Method = Method::Product;

    pub const ALL: [Method; 8] = [
        Method::Product,
        Method::Worst,
        Method::Additive,
        Method::Corrected,
        Method::None,
        Method::EqualSplit,
        Method::MeanOfPairs,
        Method::L1,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Method::Product => "product",
            Method::Worst => "worst",
            Method::Additive => "additive",
            Method::Corrected => "corrected",
            Method::None => "none",
            Method::EqualSplit => "equal-split",
            Method::MeanOfPairs => "mean-of-pairs",
            Method::L1 => "l1",
        }
    }

    /// In a few words.
    pub fn label(self) -> &'static str {
        match self {
            Method::Product => "product",
            Method::Worst => "worst resource",
            Method::Additive => "additive",
            Method::Corrected => "product, corrected",
            Method::None => "no interference",
            Method::EqualSplit => "equal split",
            Method::MeanOfPairs => "mean of all pairs",
            Method::L1 => "L1 ranking",
        }
    }

    /// What profiles have no part in.
    pub fn is_baseline(self) -> bool {
        matches!(
            self,
            Method::None | Method::EqualSplit | Method::MeanOfPairs | Method::L1
        )
    }
}

/// The numbers of every method that gives one. `own` is what is predicted
/// resource by resource, `learned` what was recorded of other applications.
pub(super) fn predicted<'a>(
    placement: GroupPlacement,
    members: usize,
    own: &Observation,
    learned: impl Iterator<Item = &'a Observation> + Clone,
) -> Vec<(Method, f64)> {
    let cpu = own.parts[0].exp();
    let rest = || own.lanes.iter().map(|ln| ln.exp());
    let lost: f64 = rest().map(|kept| 1.0 - kept).sum();
    let product = Correction::NONE.applied(&own.parts);
    let mut all = vec![
        (Method::Product, product),
        (Method::Worst, cpu * rest().fold(1.0, f64::min)),
        (Method::Additive, cpu * (1.0 - lost).max(0.0)),
        (
            Method::Corrected,
            Correction::learned(learned.clone()).applied(&own.parts),
        ),
        (Method::None, 1.0),
    ];
    if placement == GroupPlacement::SameCpu {
        all.push((Method::EqualSplit, 1.0 / members.max(1) as f64));
    }
    let count = learned.clone().count();
    if count > 0 {
        let sum: f64 = learned.map(|other| other.ln.exp()).sum();
        all.push((Method::MeanOfPairs, sum / count as f64));
    }
    all
}

/// −Σ |t − c| over the resources of which both are known: higher promises more.
/// `None` where no resource is.
pub(super) fn l1<'a>(
    app: &Profile,
    others: impl Iterator<Item = &'a Profile>,
    shares_cpus: bool,
) -> Option<f64> {
    let app = App::new(app);
    let others: Vec<App> = others.map(App::new).collect();
    let caused_on = |other: &App| other.caused_on(shares_cpus);
    let known = others
        .iter()
        .fold(LaneSet::ALL, |all, other| all.and(caused_on(other)));
    let both = app.tolerated_on(shares_cpus).and(known);
    let distance = |lane: usize| {
        let caused: i32 = others.iter().map(|other| other.caused[lane]).sum();
        to_points((app.tolerated[lane] - caused).abs())
    };
    let sum: f64 = both.iter().map(distance).sum();
    (!both.is_empty()).then(|| -sum / f64::from(both.len()))
}
