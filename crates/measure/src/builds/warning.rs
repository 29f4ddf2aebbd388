//! What a reader should know before believing the comparison of two builds.

use jostle_profile::WarningFacts;
use serde::Serialize;
use thiserror::Error;

#[derive(Clone, Debug, Error, PartialEq, Serialize)]
#[serde(tag = "code", content = "about", rename_all = "kebab-case")]
pub enum BuildWarning {
    #[error("the measurement ended early: {0}")]
    Failed(String),
    #[error("OLD and NEW are the same command; whatever differs is chance")]
    SameCommand,
}

impl BuildWarning {
    /// As it is kept in the document.
    pub fn facts(&self) -> WarningFacts {
        crate::warning::facts(self)
    }
}
