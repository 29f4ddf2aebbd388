//! What takes the place of TLS where jostle was built without it.

use super::naming::Naming;
use jostle_measure::error::Result;
use std::path::Path;
use tokio::net::TcpStream;

/// There is none.
#[derive(Clone)]
pub enum Tls {}

impl Tls {
    /// # Errors
    /// Always.
    pub fn load(naming: Naming, certificate: &Path, _: &Path, _: Option<&Path>) -> Result<Tls> {
        let problem = "this jostle was built without TLS; build it with the feature `tls`, or \
                       use the Unix socket or loopback";
        Err(naming.wrong("certificate", certificate.display(), problem))
    }

    pub async fn accept(&self, _: TcpStream) -> std::io::Result<TcpStream> {
        match *self {}
    }
}
