//! What stands for TLS where jostle was built without it.

use crate::error::TlsError;
use crate::spec::LoadSpec;

/// There is none.
#[derive(Clone, Debug)]
pub enum Tls {}

impl Tls {
    /// # Errors
    /// Where TLS is asked for.
    pub fn of(spec: &LoadSpec) -> Result<Option<Tls>, TlsError> {
        match spec.url.tls {
            true => Err(TlsError::NotBuilt),
            false => Ok(None),
        }
    }
}
