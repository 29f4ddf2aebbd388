//! Who is asked before the policy, and what it is told.

use super::ScenarioError;
use super::raw::Raw;
use super::source::Source;
use super::source::unknown;
use jostle_schedule::admission::ADMISSIONS;
use jostle_schedule::admission::AdmissionOptions;
use toml::Spanned;
use toml::Value;

type Result<T> = std::result::Result<T, ScenarioError>;

/// Most queues of ARQ.
const QUEUES: usize = 100;

pub(super) const NO_WINDOWS: &str = "wrangler learns from labelled windows; add a table \
     [wrangler] with windows = \"FILE.csv\", which jostle simulate SCENARIO --windows FILE.csv writes";

/// The admissions named, in the order given; first come, first served when
/// none is.
pub fn admissions(source: &Source, raw: &Raw) -> Result<Vec<String>> {
    let Some(key) = &raw.admission else {
        return Ok(vec!["none".into()]);
    };
    let wrong = |problem: String| Err(source.wrong(key, problem));
    let given = match key.get_ref() {
        Value::Array(several) => several.as_slice(),
        one => std::slice::from_ref(one),
    };
    if given.is_empty() {
        return wrong("key `admission`: is empty; name at least one, or leave it out".into());
    }
    let mut admissions: Vec<String> = Vec::new();
    for value in given {
        let Some(name) = value.as_str() else {
            return wrong(format!(
                "key `admission`: {value} is no name; write \"none\", or a list of names"
            ));
        };
        let mut known = ADMISSIONS.iter().map(|kind| kind.name);
        if !known.any(|known| known == name) {
            let known = ADMISSIONS.iter().map(|kind| kind.name);
            return wrong(unknown("admission", name, known));
        }
        if admissions.iter().any(|before| before == name) {
            return wrong(format!("key `admission`: `{name}` is named twice"));
        }
        if name == "wrangler" && raw.wrangler.is_none() {
            return wrong(format!("key `admission`: {NO_WINDOWS}"));
        }
        admissions.push(name.into());
    }
    Ok(admissions)
}

/// What [arq] and [wrangler] say. That the file of windows is there is not
/// checked before somebody learns from it: the scenario itself can make it.
pub fn options(source: &Source, raw: &Raw) -> Result<AdmissionOptions> {
    let mut options = AdmissionOptions::default();
    if let Some(arq) = &raw.arq {
        if let Some(key) = &arq.queues {
            options.queues = key.get_ref().0;
            if options.queues > QUEUES {
                let problem = format!("key `queues`: is {}; write 1 to {QUEUES}", options.queues);
                return Err(source.wrong(key, problem));
            }
        }
        options.sjf = arq.sjf.unwrap_or(options.sjf);
        options.priorities = arq.priorities.unwrap_or(options.priorities);
        options.relative = arq.relative.unwrap_or(options.relative);
    }
    if let Some(wrangler) = &raw.wrangler {
        if wrangler.windows.get_ref().trim().is_empty() {
            let problem = "key `windows`: is empty; name a CSV file";
            return Err(source.wrong(&wrangler.windows, problem.into()));
        }
        options.wrangler_csv = Some(source.beside(wrangler.windows.get_ref()));
        if let Some(key) = &wrangler.confidence {
            options.wrangler_confidence = confidence(source, key)?;
        }
    }
    Ok(options)
}

/// A number, or none where it is to be tuned.
fn confidence(source: &Source, key: &Spanned<Value>) -> Result<Option<f64>> {
    let number = match key.get_ref() {
        Value::String(word) if word == "tuned" => return Ok(None),
        Value::Float(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    };
    match number {
        Some(number) if (0.5..1.0).contains(&number) => Ok(Some(number)),
        _ => {
            let problem = format!(
                "key `confidence`: is {}; write at least 0.5 and below 1, or \"tuned\"",
                key.get_ref()
            );
            Err(source.wrong(key, problem))
        }
    }
}
