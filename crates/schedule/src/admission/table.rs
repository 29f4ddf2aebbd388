//! Every admission by name.

use super::arq::Arq;
use super::arq::ArqOptions;
use super::control::Admission;
use super::none::NoAdmission;
use super::wrangler::Confidence;
use super::wrangler::TrainingOptions;
use super::wrangler::Wrangler;
use super::wrangler::load;
use crate::error::AdmissionError;
use std::path::PathBuf;

/// What an admission may be told when it is made.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionOptions {
    /// `arq`: classes of resource quality, 1–100.
    pub queues: usize,
    /// `arq`: shortest first within a class.
    pub sjf: bool,
    /// `arq`: higher priority first.
    pub priorities: bool,
    /// `arq`: ranges of quality lie between the least and the most seen.
    pub relative: bool,
    /// `wrangler`: its model, or windows to learn from; without either it admits all.
    pub wrangler: Option<PathBuf>,
    /// `wrangler`: veto above this confidence, 0.5–1; tuned on windows held
    /// out when absent.
    pub wrangler_confidence: Option<f64>,
    /// For what is drawn at random.
    pub seed: u64,
}

impl Default for AdmissionOptions {
    fn default() -> Self {
        AdmissionOptions {
            queues: ArqOptions::default().queues,
            sjf: false,
            priorities: false,
            relative: ArqOptions::default().relative,
            wrangler: None,
            wrangler_confidence: Some(0.7),
            seed: 0,
        }
    }
}

/// One row of the table of admissions.
pub struct AdmissionKind {
    pub name: &'static str,
    /// One line for people who choose.
    pub summary: &'static str,
    pub make: fn(&AdmissionOptions) -> Result<Box<dyn Admission>, AdmissionError>,
}

/// Every admission there is.
pub const ADMISSIONS: &[AdmissionKind] = &[
    AdmissionKind {
        name: "none",
        summary: "first come, first served",
        make: |_| Ok(Box::new(NoAdmission::new())),
    },
    AdmissionKind {
        name: "arq",
        summary: "a queue and a pool of servers per class of resource quality",
        make: |options| {
            if !(1..=100).contains(&options.queues) {
                return Err(AdmissionError::Queues(options.queues));
            }
            Ok(Box::new(Arq::new(ArqOptions {
                queues: options.queues,
                sjf: options.sjf,
                priorities: options.priorities,
                relative: options.relative,
                ..ArqOptions::default()
            })))
        },
    },
    AdmissionKind {
        name: "wrangler",
        summary: "no start where a node's counters predict that it would be slow",
        make: |options| {
            let confidence = options.wrangler_confidence;
            let training = TrainingOptions {
                confidence: confidence.map_or(Confidence::Tuned, Confidence::Above),
                seed: options.seed,
            };
            let path = options.wrangler.as_deref();
            let model = path.map(|path| load(path, training));
            Ok(Box::new(Wrangler::new(model.transpose()?)))
        },
    },
];

/// The admission called `name`.
pub fn admission_kind(name: &str) -> Option<&'static AdmissionKind> {
    ADMISSIONS.iter().find(|kind| kind.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_made_under_its_own_name_or_says_why_not() {
        let options = AdmissionOptions::default();
        for name in ["none", "arq", "wrangler"] {
            let made = (admission_kind(name).unwrap().make)(&options).unwrap();
            assert_eq!(made.name(), name);
        }
        let missing = AdmissionOptions {
            wrangler: Some("/no/such/model.json".into()),
            ..options.clone()
        };
        let wrangler = admission_kind("wrangler").unwrap();
        let error = (wrangler.make)(&missing).err().unwrap().to_string();
        assert!(error.contains("/no/such/model.json"), "{error}");
        let no_queue = AdmissionOptions {
            queues: 0,
            ..options
        };
        let arq = admission_kind("arq").unwrap();
        assert_eq!((arq.make)(&no_queue).err(), Some(AdmissionError::Queues(0)));
        assert!(admission_kind("other").is_none());
    }
}
