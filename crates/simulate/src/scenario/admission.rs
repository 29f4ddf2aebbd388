//! Which admissions run before the policy, and their options.

use super::keys::Keys;
use super::source::Source;
use crate::error::Problem;
use crate::error::ScenarioError;
use jostle_schedule::admission::ADMISSIONS;
use jostle_schedule::admission::AdmissionOptions;
use toml::Value;

type Result<T> = std::result::Result<T, ScenarioError>;

/// Most queues of ARQ.
const QUEUES: usize = 100;

/// The admissions named, in the order given; first come, first served when
/// none is.
pub fn admissions(source: &Source, keys: &Keys) -> Result<Vec<String>> {
    let wrong = |problem| Err(source.wrong("admission", problem));
    let given = match &keys.admission {
        None => return Ok(vec!["none".into()]),
        Some(Value::Array(several)) => several.as_slice(),
        Some(one) => std::slice::from_ref(one),
    };
    if given.is_empty() {
        return wrong(Problem::Empty("name at least one, or leave it out".into()));
    }
    let known = || ADMISSIONS.iter().map(|kind| kind.name);
    let mut admissions: Vec<String> = Vec::new();
    for value in given {
        let Some(name) = value.as_str() else {
            return wrong(Problem::NoName(value.to_string()));
        };
        if !known().any(|known| known == name) {
            return wrong(Problem::unknown(name, known()));
        }
        if admissions.iter().any(|before| before == name) {
            return wrong(Problem::NamedTwice(name.into()));
        }
        if name == "wrangler" && keys.wrangler.is_none() {
            return wrong(Problem::NoWindows);
        }
        admissions.push(name.into());
    }
    Ok(admissions)
}

/// The options in [arq] and [wrangler]. The file of windows is looked for when
/// an admission learns from it: the scenario itself can make it.
pub fn options(source: &Source, keys: &Keys) -> Result<AdmissionOptions> {
    let usual = AdmissionOptions::default();
    let arq = &keys.arq;
    if let Some(queues) = arq.queues.filter(|queues| *queues > QUEUES) {
        let problem = Problem::out_of_range(queues, format!("1 to {QUEUES}"));
        return Err(source.wrong("arq.queues", problem));
    }
    let mut options = AdmissionOptions {
        queues: arq.queues.unwrap_or(usual.queues),
        sjf: arq.sjf.unwrap_or(usual.sjf),
        priorities: arq.priorities.unwrap_or(usual.priorities),
        relative: arq.relative.unwrap_or(usual.relative),
        ..usual
    };
    if let Some(wrangler) = &keys.wrangler {
        if wrangler.windows.trim().is_empty() {
            let problem = Problem::Empty("name a CSV file".into());
            return Err(source.wrong("wrangler.windows", problem));
        }
        options.wrangler_csv = Some(source.beside(&wrangler.windows));
        if let Some(value) = &wrangler.confidence {
            options.wrangler_confidence = confidence(value).ok_or_else(|| {
                let problem = Problem::Confidence(value.to_string());
                source.wrong("wrangler.confidence", problem)
            })?;
        }
    }
    Ok(options)
}

/// A number, or `Some(None)` where it is to be tuned; `None` of anything else.
fn confidence(value: &Value) -> Option<Option<f64>> {
    let number = match value {
        Value::String(word) if word == "tuned" => return Some(None),
        Value::Float(number) => *number,
        Value::Integer(number) => *number as f64,
        _ => return None,
    };
    (0.5..1.0).contains(&number).then_some(Some(number))
}
