//! Filter and prioritize: which nodes are refused, and what each of the others is worth.
//!
//! Only what is known speaks against a node. A pod without a profile, a node that the
//! API server has not, an agent that is silent: none of them is a reason.

use super::decisions::Decision;
use super::decisions::NodeReason;
use super::decisions::Verb;
use super::protocol::ANNOTATION;
use super::protocol::Pod;
use super::world::World;
use jostle_schedule::App;
use jostle_schedule::NodeId;
use jostle_schedule::Worth;
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Instant;

/// What a node loses where a resident misses its QoS now and the newcomer applies
/// pressure: a quarter of a program.
const MISSED: f32 = 0.25;
/// Pressure from which on a newcomer counts as applying some, points.
const SOME_PRESSURE: f32 = 5.0;

/// The best score of extender v1.
const BEST: u8 = 10;
/// The score of a node of which nothing is known, beside others that are known.
const NEUTRAL: u8 = 5;
/// Value, as performance plus the chance of QoS, that is one point of the score.
const VALUE_PER_POINT: f32 = 1.0 / 9.0;
/// Differences of value below this do not decide.
const VALUE_STEP: f32 = 1.0 / 8192.0;

/// Reasons in words per decision; the rest is told in short.
const MOST_REASONS: usize = 50;

/// Which nodes are refused, in the order asked.
pub struct Filtered {
    /// In words; `None` for those that pass.
    pub refused: Vec<Option<String>>,
    pub decision: Decision,
}

/// What each node is worth, in the order asked.
pub struct Scored {
    pub scores: Vec<u8>,
    pub decision: Decision,
}

/// A node that was asked about.
#[derive(Clone, Copy)]
struct Candidate {
    /// Its place in the question.
    at: usize,
    id: NodeId,
    worth: Worth,
    /// A resident misses its QoS now, and the newcomer would add pressure.
    missed: bool,
}

impl World {
    /// Refuses nodes where a resident misses its QoS now and `pod` would add pressure;
    /// where that is so on all of them, none is refused. With `strict`, refuses what
    /// `jostle schedule --strict` refuses as well: nodes where somebody who is expected
    /// to keep its QoS is then expected to lose it, and all of them if need be.
    ///
    /// Without `strict`, expectations refuse nothing: on a full cluster, a node whose
    /// residents have little left to lose is the best place for a pod that would cost
    /// others more.
    pub fn filter(&mut self, pod: &Pod, names: &[&str], strict: bool, now: Instant) -> Filtered {
        self.forget_assumed(pod);
        let mut decision = self.decision(Verb::Filter, pod, names, now);
        let mut refused = vec![None; names.len()];
        let Some(app) = self.newcomer(pod, &mut decision) else {
            return Filtered { refused, decision };
        };
        let candidates = self.candidates(&app, names, now, &mut decision);
        let breaks = |it: &&Candidate| it.missed || (strict && it.worth.breaks);
        let bad: Vec<Candidate> = candidates.iter().filter(breaks).copied().collect();
        if bad.len() == names.len() && !strict {
            decision.why = "every node would break a QoS target, so that none is refused".into();
            return Filtered { refused, decision };
        }
        for (count, candidate) in bad.iter().enumerate() {
            let name = names[candidate.at];
            let reason = match count < MOST_REASONS {
                true => self.reason(&app, candidate, name, now),
                false => "a QoS target would be broken".into(),
            };
            decision.reason(name, &reason);
            refused[candidate.at] = Some(reason);
        }
        decision.refused = bad.len();
        decision.why = match bad.len() {
            0 => "no QoS target is known to break on any of them".into(),
            some => format!("{some} of {} nodes would break a QoS target", names.len()),
        };
        Filtered { refused, decision }
    }

    /// Scores every node from 0 to 10: 10 for the best, and for each other a point
    /// less per ninth of value lost. The pod is then taken to be on its way there.
    pub fn prioritize(&mut self, pod: &Pod, names: &[&str], now: Instant) -> Scored {
        self.forget_assumed(pod);
        let mut decision = self.decision(Verb::Prioritize, pod, names, now);
        let Some(app) = self.newcomer(pod, &mut decision) else {
            let scores = vec![0; names.len()];
            return Scored { scores, decision };
        };
        let candidates = self.candidates(&app, names, now, &mut decision);
        let better = |a: &&Candidate, b: &&Candidate| -> Ordering {
            let worth = a.value().total_cmp(&b.value());
            worth.then_with(|| names[b.at].cmp(names[a.at]))
        };
        let Some(best) = candidates.iter().max_by(better).copied() else {
            decision.why = "none of the nodes is known; all get the same score".into();
            let scores = vec![NEUTRAL; names.len()];
            return Scored { scores, decision };
        };
        let mut scores = vec![NEUTRAL; names.len()];
        for candidate in &candidates {
            let lost = (best.value() - candidate.value()) / VALUE_PER_POINT;
            scores[candidate.at] = (f32::from(BEST - 1) - lost.round()).max(0.0) as u8;
        }
        scores[best.at] = BEST;
        let others = candidates.iter().filter(|it| it.at != best.at);
        let next = others.max_by(better).copied();
        self.explain(&app, &best, next.as_ref(), names, &mut decision);
        self.assume(pod, names[best.at], now);
        Scored { scores, decision }
    }

    fn decision(&self, verb: Verb, pod: &Pod, names: &[&str], now: Instant) -> Decision {
        let age = |since: Instant| now.saturating_duration_since(since).as_secs_f64();
        Decision {
            verb,
            pod: pod.title(),
            profiles_version: self.profiles.version.clone(),
            nodes: names.len(),
            api_server_age_seconds: self.informed.map(age),
            ..Decision::default()
        }
    }

    /// The application of `pod`; `None` where nothing is known of it, with the reason.
    fn newcomer(&mut self, pod: &Pod, decision: &mut Decision) -> Option<Arc<App>> {
        let name = match pod.profile() {
            Ok(Some(name)) => name,
            Ok(None) => {
                decision.why = format!("it has no annotation {ANNOTATION}; all nodes alike");
                return None;
            }
            Err(problem) => {
                decision.why = format!("{problem}; all nodes alike");
                return None;
            }
        };
        decision.profile = Some(name.into());
        let app = self.profiles.apps.get(name).cloned();
        match &app {
            Some(app) => self.refresh_newcomers(app),
            None => {
                decision.why = format!("no profile is called \"{name}\"; all nodes alike");
            }
        }
        app
    }

    fn candidates(
        &mut self,
        app: &Arc<App>,
        names: &[&str],
        now: Instant,
        decision: &mut Decision,
    ) -> Vec<Candidate> {
        let known = names.iter().enumerate();
        let known: Vec<(usize, NodeId)> = known
            .filter_map(|(at, name)| Some((at, self.node(name)?)))
            .collect();
        decision.unknown_nodes = names.len() - known.len();
        let ids: Vec<NodeId> = known.iter().map(|(_, id)| *id).collect();
        let worth = self.ranking.of(app, &self.cluster, &ids);
        let presses = app.responses.caused.iter().any(|it| *it > SOME_PRESSURE);
        let candidate = |((at, id), worth): (&(usize, NodeId), Worth)| {
            let live = self.live(names[*at]).filter(|live| live.is_fresh(now));
            Candidate {
                at: *at,
                id: *id,
                worth,
                missed: presses && live.is_some_and(|live| !live.missed.is_empty()),
            }
        };
        known.iter().zip(worth).map(candidate).collect()
    }

    fn reason(&self, app: &App, candidate: &Candidate, name: &str, now: Instant) -> String {
        let live = self.live(name).filter(|_| candidate.missed);
        if let Some((live, missed)) = live.and_then(|it| Some((it, it.missed.first()?))) {
            let age = live.age(now).as_secs_f64();
            return format!("{} (its agent, {age:.0} s ago)", missed.text);
        }
        let harmed = self.ranking.harmed(app, &self.cluster, candidate.id);
        format!(
            "{} is expected to keep {:.0} % of its performance, and {:.0} % without this pod; \
             the chance that all keep their QoS is {:.1} %",
            harmed.app,
            100.0 * harmed.after,
            100.0 * harmed.before,
            100.0 * candidate.worth.chance_of_qos
        )
    }

    fn explain(
        &self,
        app: &App,
        best: &Candidate,
        next: Option<&Candidate>,
        names: &[&str],
        decision: &mut Decision,
    ) {
        let next = next.map(|it| it.id);
        let deciding = self.ranking.why(app, &self.cluster, best.id, next);
        let expected = self.ranking.expected(app, &self.cluster, best.id);
        decision.node = Some(names[best.at].into());
        decision.resource = deciding.resource;
        decision.why = deciding.why;
        decision.expected_performance = Some(expected.performance);
        if let Some(hurt) = expected.most_hurt {
            let text = format!(
                "{} there goes from {:.0} % to {:.0} %",
                hurt.app,
                100.0 * hurt.before,
                100.0 * hurt.after
            );
            decision.reasons.push(NodeReason {
                node: names[best.at].into(),
                why: text,
            });
        }
    }
}

impl Candidate {
    /// What the pod is worth here, rounded: sums over the same residents in another order
    /// differ in their last digits, and replicas must not disagree over them.
    fn value(&self) -> f32 {
        let net = (self.worth.net / VALUE_STEP).round() * VALUE_STEP;
        net - if self.missed { MISSED } else { 0.0 }
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
