//! What takes the place of TLS where jostle was built without it.

use crate::error::Error;
use crate::error::Result;
use std::path::Path;
use tokio::net::TcpStream;

/// There is none.
#[derive(Clone)]
pub enum Tls {}

impl Tls {
    /// # Errors
    /// Always.
    pub fn load(certificate: &Path, _: &Path, _: Option<&Path>) -> Result<Tls> {
        Err(Error::request(format!(
            "api.certificate = \"{}\": this jostle was built without TLS; build it with the \
             feature `tls`, or use the Unix socket or loopback",
            certificate.display()
        )))
    }

    pub async fn accept(&self, _: TcpStream) -> std::io::Result<TcpStream> {
        match *self {}
    }
}
