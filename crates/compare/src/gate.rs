//! Conditions on which a build fails.

use crate::change::LEVEL;
use crate::change::Quantity;
use crate::change::ResourceChange;
use crate::known;
use crate::known::Subject;
use jostle_statistics::Difference;
use jostle_statistics::Known;
use jostle_statistics::holm;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Stands for every resource.
const ANY: &str = "*";

/// When a comparison fails; without a condition, on any regression that is shown.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    pub conditions: Vec<Condition>,
}

/// `RESOURCE.QUANTITY > +POINTS`: with a sign a change, without one the new
/// number itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// A resource, or `*`.
    pub resource: String,
    pub quantity: Quantity,
    /// Whether it fails above the limit, and not below.
    pub above: bool,
    pub limit: f64,
    /// Whether the limit is on the change, and not on the new number.
    pub of_change: bool,
}

/// What came out for one condition on one resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    pub condition: String,
    pub resource: String,
    pub outcome: Judgement,
    /// What was held against the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// Why it could not be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// Shown to be beyond the limit.
    Failed,
    /// Shown to be within it.
    Passed,
    CannotTell,
}

/// What came out for all conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GateResult {
    /// Empty where no condition was given.
    pub judged: Vec<Judged>,
}

impl GateResult {
    pub fn count(&self, outcome: Judgement) -> usize {
        self.judged
            .iter()
            .filter(|it| it.outcome == outcome)
            .count()
    }
}

/// How far a number lies from where it would have to be for the condition.
type Tested = Result<Difference, String>;

impl Gate {
    /// `absolute` tells the new number that a condition is about.
    pub(crate) fn judge(
        &self,
        resources: &[ResourceChange],
        absolute: impl Fn(&Pinned) -> Tested,
    ) -> GateResult {
        let mut pinned = Vec::new();
        for condition in &self.conditions {
            let all = condition.resource == ANY;
            let matching = resources
                .iter()
                .filter(|it| all || it.resource == condition.resource);
            let before = pinned.len();
            pinned.extend(matching.map(|it| {
                let of = Pinned {
                    condition,
                    resource: it.resource.clone(),
                };
                let tested: Tested = match (condition.of_change, it.get(condition.quantity)) {
                    (true, reading) => match reading.value() {
                        Some(change) => Ok(change.tested),
                        None => Err(reading.reason().unwrap_or("not compared").to_string()),
                    },
                    (false, _) => absolute(&of),
                };
                (of, tested)
            }));
            if pinned.len() == before {
                let of = Pinned {
                    condition,
                    resource: condition.resource.clone(),
                };
                pinned.push((of, Err("not in both profiles".into())));
            }
        }
        // One error level for all that may fail.
        let p = pinned.iter().map(|(of, tested)| match tested {
            Ok(tested) if of.condition.above => tested.p_above(of.condition.limit),
            Ok(tested) => tested.p_below(of.condition.limit),
            Err(_) => 1.0,
        });
        let corrected = holm(&p.collect::<Vec<f64>>());
        let judged = pinned.into_iter().zip(corrected);
        GateResult {
            judged: judged
                .map(|((of, tested), p)| of.judged(tested, p))
                .collect(),
        }
    }
}

/// A condition on one resource.
pub(crate) struct Pinned<'a> {
    condition: &'a Condition,
    resource: String,
}

impl Pinned<'_> {
    /// The new number as it stands.
    pub(crate) fn absolute(&self, new: &Subject) -> Tested {
        let nothing = Known {
            value: 0.0,
            ci95: [0.0, 0.0],
            freedom: 1e6,
            spread: 0.0,
        };
        let number = known::number(new, &self.resource, self.condition.quantity)?;
        Ok(Difference::between(nothing, number))
    }

    fn judged(self, tested: Tested, p: f64) -> Judged {
        let condition = self.condition.to_string();
        let tested = match tested {
            Ok(tested) => tested,
            Err(reason) => {
                return Judged {
                    condition,
                    resource: self.resource,
                    outcome: Judgement::CannotTell,
                    value: None,
                    ci95: None,
                    reason: Some(reason),
                };
            }
        };
        let limit = self.condition.limit;
        let within = match self.condition.above {
            true => tested.p_below(limit),
            false => tested.p_above(limit),
        };
        let outcome = match (p < LEVEL, within < LEVEL) {
            (true, _) => Judgement::Failed,
            (false, true) => Judgement::Passed,
            (false, false) => Judgement::CannotTell,
        };
        Judged {
            condition,
            resource: self.resource,
            outcome,
            value: Some(tested.value),
            ci95: Some(tested.ci95),
            reason: None,
        }
    }
}

impl Condition {
    /// Tolerated of any resource falls by more than `points`.
    pub fn falls_below(points: f64) -> Condition {
        Condition {
            resource: ANY.into(),
            quantity: Quantity::Tolerated,
            above: false,
            limit: -points,
            of_change: true,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.above { '>' } else { '<' };
        write!(f, "{}.{} {sign} ", self.resource, self.quantity)?;
        match self.of_change {
            true => write!(f, "{:+}", self.limit),
            false => write!(f, "{}", self.limit),
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || {
            format!(
                "'{text}' is not a condition; write for example 'l2-capacity.loss > +5' for a \
                 change by 5 points, or '*.tolerated < 20' for the new number"
            )
        };
        let at = text.find(['<', '>']).ok_or_else(usage)?;
        let (left, right) = (text[..at].trim(), text[at + 1..].trim());
        let (resource, quantity) = left.rsplit_once('.').ok_or_else(usage)?;
        let limit: f64 = right.parse().map_err(|_| usage())?;
        if !limit.is_finite() {
            return Err(usage());
        }
        let resource = resource.trim();
        if resource != ANY {
            resource
                .parse::<jostle_profile::resource::Resource>()
                .map_err(|error| error.to_string())?;
        }
        Ok(Condition {
            resource: resource.to_string(),
            quantity: quantity.trim().parse()?,
            above: text[at..].starts_with('>'),
            limit,
            of_change: right.starts_with(['+', '-']),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_as_written() {
        let read = |text: &str| text.parse::<Condition>();
        let change = read("l2-capacity.loss > +5").unwrap();
        assert!(change.of_change && change.above && change.limit == 5.0);
        assert_eq!(change.to_string(), "l2-capacity.loss > +5");
        let number = read("*.tolerated<20").unwrap();
        assert!(!number.of_change && !number.above && number.resource == "*");
        assert_eq!(
            read("cpu-time.use < -2.5").unwrap().to_string(),
            "cpu-time.use < -2.5"
        );
        for (text, named) in [
            ("l3.loss > +5", "no resource 'l3'"),
            ("l1d.speed > +5", "'speed' is not compared"),
            ("l1d.loss +5", "is not a condition"),
            ("l1d.loss > five", "is not a condition"),
            ("loss > +5", "is not a condition"),
            ("l1d.loss > +nan", "is not a condition"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
