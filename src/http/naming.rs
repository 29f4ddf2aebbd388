//! How messages name a setting.

use jostle_measure::error::Error;
use std::fmt::Display;

/// Where the settings of a server come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Keys of a section of a configuration file.
    Section(&'static str),
    /// Flags of a command.
    Flags,
}

impl Naming {
    /// `api.client_ca`, or `--client-ca`.
    pub fn name(self, setting: &str) -> String {
        match self {
            Naming::Section(section) => format!("{section}.{setting}"),
            Naming::Flags => format!("--{}", setting.replace('_', "-")),
        }
    }

    /// A request error about the `value` of a setting.
    pub fn wrong(self, setting: &str, value: impl Display, problem: impl Display) -> Error {
        let name = self.name(setting);
        Error::request(match self {
            Naming::Section(_) => format!("{name} = \"{value}\": {problem}"),
            Naming::Flags => format!("{name} {value}: {problem}"),
        })
    }
}
