//! A function of which calls are counted.

use jostle_host::sys::probe::Event;
use std::path::PathBuf;

/// A function of which calls are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::metric) struct Call {
    pub file: PathBuf,
    /// Symbol, or address as `0x…`.
    pub symbol: String,
    /// What is probed, from the beginning of the file.
    pub offset: u64,
}

impl Call {
    pub(in crate::metric) fn event(&self) -> Event {
        Event::Uprobe {
            file: self.file.clone(),
            offset: self.offset,
        }
    }

    /// As it is asked for.
    pub(in crate::metric) fn name(&self) -> String {
        format!("{}:{}", self.file.display(), self.symbol)
    }

    pub(in crate::metric) fn words(&self) -> String {
        format!("{} in {}", self.symbol, self.file.display())
    }
}
