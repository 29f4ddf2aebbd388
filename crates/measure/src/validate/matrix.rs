//! Every source on every victim.
//!
//! A victim is the demo that is made for a resource. For each, one profile is
//! taken over all sources at 100 %: their blocks follow each other in one random
//! order, as in any profile, and so share their control and their drift.

use super::Progress;
use super::Session;
use super::report::Bars;
use super::report::Effect;
use super::report::Missing;
use super::report::Selectivity;
use super::report::Size;
use super::report::Source;
use super::report::Status;
use super::report::Victim;
use crate::error::Error;
use crate::error::Result;
use crate::experiment::demos;
use crate::experiment::place::CpuChoice;
use crate::experiment::session;
use crate::experiment::session::Request;
use crate::experiment::settings;
use crate::experiment::settings::Halves;
use crate::experiment::settings::Observer;
use crate::experiment::settings::Settings;
use crate::metric::MetricOptions;
use crate::workload::demo;
use crate::workload::hooks::Hooks;
use jostle_host::inject::worker::Slices;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Intensity;
use jostle_profile::resource::Resource;
use jostle_profile::resource::SwitchCost;
use jostle_statistics::ByNumber;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use std::collections::BTreeMap;
use std::time::Duration;

/// Settle time between arms of victims that have no page cache to fill again.
const LONGEST_SETTLE: Duration = Duration::from_millis(80);
/// Memory that `memory-capacity` takes from those: switches cost time in
/// proportion.
const FILLED_BYTES: u64 = 256 << 20;
/// How many times another victim's share of the time one gets from which all
/// memory has to be taken for an effect.
const FILLING_WEIGHT: f64 = 2.5;
/// The same for victims that live from a device, whose noise is ten times that of
/// a core, and for those that live from what all cores share.
const DEVICE_WEIGHT: f64 = 1.8;
const SHARED_WEIGHT: f64 = 1.2;
/// Pressure that must have arrived for a source to count as harmless, percent.
const LEAST_REACHED: f64 = 90.0;
/// The same for a source whose intensity is a rate, since its effect at full
/// pressure is extrapolated.
const LEAST_REACHED_RATE: f64 = 50.0;
/// Less than this shows nothing: sources and victim have to be started.
const LEAST: Duration = Duration::from_secs(3);

/// What the victims showed.
#[derive(Debug, Default)]
pub struct Matrix {
    pub victims: Vec<Victim>,
    pub effects: Vec<Effect>,
    pub missing: Vec<Missing>,
}

/// Profiles one victim after the other, in random order, until all are known
/// or the budget is spent.
pub fn measure(
    session: &Session<'_>,
    sources: &[Source],
    slices: Slices,
    rng: &mut ChaCha8Rng,
    progress: Progress<'_>,
) -> Result<Matrix> {
    let of = |resource: &Resource| sources.iter().find(|known| known.resource == resource.id());
    let can_press = |resource: &Resource| of(resource).is_none_or(|s| s.status == Status::Measured);
    // What cannot press beside a target has no cells; the report says why where
    // it speaks of it.
    let (mut order, refused): (Vec<Resource>, Vec<Resource>) = session
        .request
        .victims
        .iter()
        .partition(|victim| can_press(victim));
    let mut pressing = session.request.resources.clone();
    pressing.retain(can_press);
    order.shuffle(rng);
    // What is left over elsewhere is of most use where memory is filled.
    order.sort_by_key(|victim| fills(session, *victim));
    let mut found = Matrix::default();
    for victim in refused {
        let reason = of(&victim).and_then(|source| source.reason.clone());
        found.victims.push(judge(victim, &[], reason));
    }
    for (index, &victim) in order.iter().enumerate() {
        session.check()?;
        let weights: f64 = order[index..].iter().map(|v| weight(session, *v)).sum();
        let budget = session.left().mul_f64(weight(session, victim) / weights);
        let mut watch = Watch {
            spent: &|| session.spent(),
            victim,
            progress,
        };
        let profile = match budget < LEAST {
            true => Err(Error::environment(format!(
                "{:.1} s of the budget were left for it; give more with --budget",
                budget.as_secs_f64()
            ))),
            false => request(session, victim, &pressing, slices, budget, index)
                .and_then(|request| session::profile(session.machine, request, &mut watch)),
        };
        session.check()?;
        take(victim, &pressing, profile, &mut found);
    }
    // In the order of the resources, whatever the order of the measurement.
    let rank = |name: &str| Resource::ALL.iter().position(|known| known.id() == name);
    found.victims.sort_by_key(|victim| rank(&victim.resource));
    found
        .effects
        .sort_by_key(|effect| (rank(&effect.source), rank(&effect.victim)));
    found
        .missing
        .sort_by_key(|cell| (rank(&cell.source), rank(&cell.victim)));
    Ok(found)
}

/// Whether all memory has to be filled for an effect on `victim`.
fn fills(session: &Session<'_>, victim: Resource) -> bool {
    victim.row().switch_cost == SwitchCost::FillsMemory && !session.request.quick
}

fn weight(session: &Session<'_>, victim: Resource) -> f64 {
    match victim.row().domain {
        _ if fills(session, victim) => FILLING_WEIGHT,
        Domain::BlockDevice | Domain::NetworkDevice => DEVICE_WEIGHT,
        Domain::LlcGroup | Domain::NumaNode | Domain::Machine => SHARED_WEIGHT,
        _ => 1.0,
    }
}

/// What is asked about one victim.
fn request(
    session: &Session<'_>,
    victim: Resource,
    pressing: &[Resource],
    slices: Slices,
    budget: Duration,
    index: usize,
) -> Result<Request> {
    let demo = demo::made_for(victim);
    let mut limits = session.limits();
    let spec = demos::target(demo.name, &limits, None)?;
    let target_cpus = match demo.cpus {
        1 => vec![session.target],
        count => demos::cpus(session.machine, count)?.cpus,
    };
    let fills = fills(session, victim);
    if !fills {
        limits.most_filled_bytes = Some(FILLED_BYTES);
    }
    Ok(Request {
        spec,
        name: None,
        labels: BTreeMap::new(),
        keep_command: true,
        resources: pressing.to_vec(),
        any_resources: false,
        target_cpus,
        cpu_choice: CpuChoice::asked("--cpus"),
        limits,
        slice_period: Some(Duration::from_nanos(slices.period_ns)),
        share: slices.share,
        metric: None,
        metric_options: MetricOptions::default(),
        load: None,
        interrupt: session.request.interrupt.clone(),
        counters: None,
        calibration: session.request.calibration.clone(),
        calibration_ignored: None,
        hooks: Hooks::default(),
        settings: Settings {
            budget,
            quick: session.request.quick,
            seed: session.request.seed.wrapping_add(index as u64),
            halves: Halves::Tolerated,
            full_only: true,
            longest_settle: if fills { Duration::MAX } else { LONGEST_SETTLE },
            qos: 1.0 - Bars::default().cross_talk_percent / 100.0,
            ..Settings::default()
        },
        past: None,
        checkpoint: None,
    })
}

/// Keeps what a victim's profile showed.
fn take(victim: Resource, pressing: &[Resource], profile: Result<Profile>, found: &mut Matrix) {
    let profile = match profile {
        Ok(profile) => profile,
        Err(error) => {
            let reason = error.to_string();
            for source in pressing {
                found.missing.push(Missing {
                    source: source.to_string(),
                    victim: victim.to_string(),
                    reason: reason.clone(),
                });
            }
            found.victims.push(judge(victim, &[], Some(reason)));
            return;
        }
    };
    let from = found.effects.len();
    for &source in pressing {
        let Some(entry) = profile.resources.get(source.id()) else {
            continue;
        };
        match effect(source, victim, entry) {
            Some(effect) => found.effects.push(effect),
            None => found.missing.push(Missing {
                source: source.to_string(),
                victim: victim.to_string(),
                reason: entry.reason.clone().unwrap_or_default(),
            }),
        }
    }
    let own = profile.resources.get(victim.id());
    let reason = own.and_then(|own| own.reason.clone());
    found
        .victims
        .push(judge(victim, &found.effects[from..], reason));
}

/// What `source` costs `victim` at the highest pressure that arrived, by its
/// entry; `None` where nothing was measured.
fn effect(source: Resource, victim: Resource, entry: &ResourceEntry) -> Option<Effect> {
    // Nothing but 100 was asked for.
    let full = entry.curve.last()?;
    let lost = |kept: f64| (1.0 - kept) * 100.0;
    let ci95 = [lost(full.ci95[1]), lost(full.ci95[0])];
    let bar = Bars::default().cross_talk_percent;
    let size = match size(ci95, bar) {
        // Pressure that did not arrive was not endured.
        Size::Small if full.intensity < LEAST_REACHED => {
            let at_full = ci95.map(|loss| loss * 100.0 / full.intensity);
            let rate = source.row().intensity == Intensity::Rate;
            match size(at_full, bar) {
                Size::Small if rate && full.intensity >= LEAST_REACHED_RATE => Size::Small,
                _ => Size::Unresolved,
            }
        }
        size => size,
    };
    Some(Effect {
        source: source.to_string(),
        victim: victim.to_string(),
        blocks: full.windows as usize,
        reached_percent: full.intensity,
        loss_percent: lost(full.performance),
        ci95,
        size,
        explanation: (source != victim && size != Size::Small)
            .then(|| source.explains_cost_to(victim).map(str::to_string))
            .flatten(),
    })
}

/// Whether a victim points at its own resource, by the effects of all sources
/// on it.
fn judge(victim: Resource, effects: &[Effect], reason: Option<String>) -> Victim {
    let mut flagged: Vec<&Effect> = effects
        .iter()
        .filter(|effect| effect.size == Size::Large && effect.loss_percent > 0.0)
        .collect();
    flagged.sort_by_number(|it| -it.loss_percent);
    let own = effects.iter().find(|effect| effect.source == victim.id());
    // Two that take all of a device cannot be told apart, and need not be.
    let beaten = |own: &Effect| flagged.iter().any(|other| other.ci95[0] > own.ci95[1]);
    let selectivity = match own {
        None => Selectivity::NotMeasured,
        Some(own) => match own.size {
            Size::Large if beaten(own) => Selectivity::OtherFirst,
            Size::Large => Selectivity::OwnFirst,
            Size::Small => Selectivity::NotShownHere,
            Size::Unresolved => Selectivity::Unresolved,
        },
    };
    Victim {
        resource: victim.to_string(),
        selectivity,
        flagged: flagged.iter().map(|effect| effect.source.clone()).collect(),
        reason: reason.filter(|_| selectivity == Selectivity::NotMeasured),
    }
}

/// Judges an interval of a loss, percent, by the bar.
fn size(ci95: [f64; 2], bar: f64) -> Size {
    match ci95 {
        [low, high] if low > -bar && high < bar => Size::Small,
        [low, high] if low >= bar || high <= -bar => Size::Large,
        _ => Size::Unresolved,
    }
}

/// Says which victim is looked at.
struct Watch<'a> {
    spent: &'a dyn Fn() -> f64,
    victim: Resource,
    progress: &'a mut dyn FnMut(f64, &str),
}

impl Observer for Watch<'_> {
    fn preparing(&mut self, text: &str) {
        let text = format!("victim {}: {text}", self.victim);
        (self.progress)((self.spent)(), &text);
    }

    fn progress(&mut self, progress: settings::Progress) {
        let text = format!("victim {}: {}", self.victim, progress.note);
        (self.progress)((self.spent)(), &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_profile::CurvePoint;

    #[test]
    fn the_interval_decides() {
        assert_eq!(size([-1.0, 4.9], 5.0), Size::Small);
        assert_eq!(size([5.0, 9.0], 5.0), Size::Large);
        assert_eq!(size([-20.0, -6.0], 5.0), Size::Large, "a gain is an effect");
        assert_eq!(size([3.0, 7.0], 5.0), Size::Unresolved);
        assert_eq!(size([-30.0, 2.0], 5.0), Size::Unresolved);
    }

    fn costs(source: &str, ci95: [f64; 2]) -> Effect {
        Effect {
            source: source.into(),
            victim: "tlb".into(),
            blocks: 20,
            reached_percent: 100.0,
            loss_percent: 0.5 * (ci95[0] + ci95[1]),
            ci95,
            size: size(ci95, 5.0),
            explanation: None,
        }
    }

    #[test]
    fn what_did_not_arrive_was_not_endured() {
        let entry = |intensity, kept| {
            let mut entry = ResourceEntry::default();
            entry.curve.push(CurvePoint {
                intensity,
                requested: None,
                performance: kept,
                ci95: [kept - 0.01, kept + 0.01],
                pressure: None,
                windows: 12,
            });
            entry
        };
        let of = |intensity, kept| effect(Resource::Int, Resource::Fp, &entry(intensity, kept));
        assert_eq!(of(100.0, 1.0).unwrap().size, Size::Small);
        assert_eq!(of(92.0, 1.0).unwrap().size, Size::Small);
        // Two in a hundred at four fifths are less than five at full.
        assert_eq!(of(80.0, 0.99).unwrap().size, Size::Small);
        assert_eq!(of(40.0, 1.0).unwrap().size, Size::Unresolved);
        assert_eq!(of(60.0, 0.97).unwrap().size, Size::Unresolved);
        assert_eq!(of(80.0, 0.8).unwrap().size, Size::Large);
        let held = effect(Resource::Tlb, Resource::Fp, &entry(80.0, 1.0)).unwrap();
        assert_eq!(
            held.size,
            Size::Unresolved,
            "less of a footprint is another"
        );
        assert!(effect(Resource::Int, Resource::Fp, &ResourceEntry::default()).is_none());
    }

    #[test]
    fn a_victim_points_at_what_costs_it_most() {
        let judged = |effects: &[Effect]| judge(Resource::Tlb, effects, Some("why".into()));
        let first = judged(&[
            costs("int", [-1.0, 1.0]),
            costs("l2-capacity", [6.0, 8.0]),
            costs("tlb", [20.0, 24.0]),
        ]);
        assert_eq!(first.selectivity, Selectivity::OwnFirst);
        assert_eq!(first.flagged, ["tlb", "l2-capacity"]);
        assert_eq!(first.reason, None);
        let tied = judged(&[costs("l1d", [21.0, 30.0]), costs("tlb", [20.0, 24.0])]);
        assert_eq!(tied.selectivity, Selectivity::OwnFirst, "not told apart");
        let beaten = judged(&[costs("l1d", [25.0, 30.0]), costs("tlb", [20.0, 24.0])]);
        assert_eq!(beaten.selectivity, Selectivity::OtherFirst);
        let nothing = judged(&[costs("l1d", [25.0, 30.0]), costs("tlb", [0.0, 2.0])]);
        assert_eq!(nothing.selectivity, Selectivity::NotShownHere);
        let open = judged(&[costs("tlb", [2.0, 9.0])]);
        assert_eq!(open.selectivity, Selectivity::Unresolved);
        let missing = judged(&[costs("int", [-1.0, 1.0])]);
        assert_eq!(missing.selectivity, Selectivity::NotMeasured);
        assert_eq!(missing.reason.as_deref(), Some("why"));
    }
}
