//! What a source has to know where a sink does not serve everybody.

use jostle_profile::regular;
use std::fmt;
use std::path::Path;

/// Fewest and most characters: who guesses needs time, and a line holds it.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=128;
/// More is not a secret but the wrong file.
const FILE_BYTES: u64 = 4096;

/// A secret that sink and source share. It travels as it is: whoever reads what passes
/// between the hosts reads it too.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Of the text of a file; blanks at its ends are not part of it.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Secret, String> {
        let text = text.trim();
        if !LENGTH.contains(&text.len()) {
            return Err(format!(
                "a secret has {} to {} characters, this has {}; make one with `openssl rand -hex \
                 16`",
                LENGTH.start(),
                LENGTH.end(),
                text.len()
            ));
        }
        match text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Secret(text.to_string())),
            false => Err("a secret is one word of letters, digits and signs".to_string()),
        }
    }

    /// What stands in the file at `path`.
    ///
    /// # Errors
    /// In words: it cannot be read, or holds no secret.
    pub fn read(path: &Path) -> Result<Secret, String> {
        let text = regular::read_text(path, FILE_BYTES).map_err(|error| error.to_string())?;
        Secret::parse(&text)
    }

    pub(super) fn word(&self) -> &str {
        &self.0
    }

    /// Whether `given` is the same, in a time that does not tell how much of it is.
    pub fn admits(&self, given: Option<&Secret>) -> bool {
        let Some(Secret(given)) = given else {
            return false;
        };
        let pairs = self.0.bytes().zip(given.bytes());
        let differing = pairs.fold(0, |differing, (a, b)| differing | (a ^ b));
        self.0.len() == given.len() && std::hint::black_box(differing) == 0
    }
}

/// Nobody reads it in a log.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_admits() {
        let secret = Secret::parse("0123456789abcdef\n").unwrap();
        assert!(secret.admits(Some(&secret)));
        for other in ["0123456789abcdeX", "0123456789abcdef0", "X123456789abcdef"] {
            assert!(
                !secret.admits(Some(&Secret::parse(other).unwrap())),
                "{other}"
            );
        }
        assert!(!secret.admits(None));
        assert_eq!(format!("{secret:?}"), "Secret(***)");
    }

    #[test]
    fn what_is_no_secret_is_told() {
        for text in [
            "",
            "short",
            "has blanks in its middle",
            "ümlaut-ümlaut-ümlaut",
        ] {
            assert!(Secret::parse(text).is_err(), "{text}");
        }
        assert!(Secret::parse(&"x".repeat(129)).is_err());
        assert!(Secret::read(Path::new("/dev/zero")).is_err());
        assert!(Secret::read(Path::new("/nonexistent")).is_err());
    }
}
