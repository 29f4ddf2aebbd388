//! What takes the place of TLS to others where jostle was built without it.

use super::naming::Naming;
use jostle_measure::error::Result;
use std::io;
use std::path::Path;
use tokio::net::TcpStream;

/// There is none.
#[derive(Clone)]
pub enum Trust {}

impl Trust {
    /// # Errors
    /// Always.
    pub fn load(
        naming: Naming,
        (setting, ca): (&str, &Path),
        _: Option<(&Path, &Path)>,
    ) -> Result<Trust> {
        let problem = "this jostle was built without TLS; build it with the feature `tls`";
        Err(naming.wrong(setting, ca.display(), problem))
    }

    pub async fn connect(&self, _: &str, _: TcpStream) -> io::Result<TcpStream> {
        match *self {}
    }
}
