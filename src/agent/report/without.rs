//! What takes the place of reports where jostle was built without HTTP.

use crate::agent::board::Board;
use crate::agent::config::ReportSection;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use std::sync::Arc;

/// There is none.
pub enum Reporter {}

impl Reporter {
    /// # Errors
    /// Where an address is configured.
    pub fn check(section: &ReportSection) -> Result<()> {
        match &section.url {
            None => Ok(()),
            Some(url) => Err(Error::request(format!(
                "report.url = \"{url}\": this jostle was built without HTTP; build it with the \
                 feature `server`, or remove the key"
            ))),
        }
    }

    /// # Errors
    /// As [`Self::check`].
    pub fn start(section: &ReportSection, _: Arc<Board>) -> Result<Option<Reporter>> {
        Reporter::check(section)?;
        Ok(None)
    }
}
