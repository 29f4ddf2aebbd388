//! Query strings and names in paths.

use super::row::Key;
use crate::http::answer::Problem;
use axum::extract::FromRequestParts;
use axum::extract::Path;
use axum::http::request::Parts;

/// Longest name that is looked up, bytes.
const LONGEST_NAME: usize = 1024;

/// Refuses keys that are not among `known`, and those that are there twice.
///
/// # Errors
/// 400, with what there is.
pub fn check(query: Option<&str>, known: &[Key]) -> Result<(), Problem> {
    let mut seen: Vec<String> = Vec::new();
    for (key, _) in pairs(query) {
        if !known.iter().any(|one| one.name == key) {
            let takes = match known {
                [] => "this path takes no query".to_string(),
                known => {
                    let names: Vec<&str> = known.iter().map(|one| one.name).collect();
                    format!("this path takes {}", names.join(", "))
                }
            };
            let shown: String = key.chars().take(40).collect();
            return Err(Problem::bad_request(format!(
                "unknown query key \"{shown}\"; {takes}"
            )));
        }
        if seen.iter().any(|other| *other == key) {
            let problem = format!("query key \"{key}\" is given twice");
            return Err(Problem::bad_request(problem));
        }
        seen.push(key.into_owned());
    }
    Ok(())
}

/// The value of `key`.
pub fn value(query: Option<&str>, key: &str) -> Option<String> {
    let mut found = pairs(query).filter(|(name, _)| name == key);
    found.next().map(|(_, value)| value.into_owned())
}

/// Whether `key` is true; false where it is absent.
///
/// # Errors
/// 400 for anything else than `true` and `false`.
pub fn flag(query: Option<&str>, key: &str) -> Result<bool, Problem> {
    match value(query, key).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Problem::bad_request(format!("{key}: write true or false"))),
    }
}

fn pairs(query: Option<&str>) -> form_urlencoded::Parse<'_> {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes())
}

/// The `{name}` of a path: any text, which is looked up and never opened.
pub struct Name(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Name, Problem> {
        let found = Path::<String>::from_request_parts(parts, state).await;
        let Ok(Path(name)) = found else {
            return Err(Problem::bad_request("the name in the path is not UTF-8"));
        };
        match name.len() {
            0..=LONGEST_NAME => Ok(Name(name)),
            long => Err(Problem::not_found(format!(
                "no name here has {long} bytes; {LONGEST_NAME} is the most"
            ))),
        }
    }
}
