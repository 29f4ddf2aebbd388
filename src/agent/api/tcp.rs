//! TCP: on loopback as it is, elsewhere with TLS and a proof of who asks.

use super::socket::BACKLOG;
use super::tls::Tls;
use crate::agent::config::ApiSection;
use crate::error::Error;
use crate::error::Result;
use socket2::Domain;
use socket2::Socket;
use socket2::Type;
use std::fs;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Shortest token that is accepted, bytes.
const SHORTEST_TOKEN: usize = 16;

/// What `api.tcp` and its companions ask for, checked.
pub struct Tcp {
    pub listener: TcpListener,
    pub address: SocketAddr,
    pub tls: Option<Tls>,
    pub token: Option<String>,
}

impl Tcp {
    /// Listens on `api.tcp`; `None` where that is absent.
    ///
    /// # Errors
    /// A request error that names the key: an address other than loopback without
    /// TLS or without a proof of who asks, a file that cannot be used, an address
    /// that is taken.
    pub fn listen(config: &ApiSection) -> Result<Option<Tcp>> {
        let Some(text) = &config.tcp else {
            return match unused_key(config) {
                Some(key) => Err(Error::request(format!(
                    "api.{key}: has no effect without api.tcp; add it or remove this key"
                ))),
                None => Ok(None),
            };
        };
        let wrong = |problem: String| Error::request(format!("api.tcp = \"{text}\": {problem}"));
        let address: SocketAddr = text
            .parse()
            .map_err(|_| wrong("write ADDRESS:PORT, for example \"127.0.0.1:7070\"".into()))?;
        let tls = match (&config.certificate, &config.key) {
            (Some(certificate), Some(key)) => {
                Some(Tls::load(certificate, key, config.client_ca.as_deref())?)
            }
            (None, None) => None,
            _ => {
                return Err(wrong(
                    "api.certificate and api.key go together; give both".into(),
                ));
            }
        };
        if tls.is_none() && config.client_ca.is_some() {
            let problem = "api.client_ca needs TLS; give api.certificate and api.key too";
            return Err(wrong(problem.into()));
        }
        if !address.ip().is_loopback() {
            if tls.is_none() {
                return Err(wrong(
                    "an address other than loopback needs TLS; give api.certificate and api.key"
                        .into(),
                ));
            }
            if config.token_file.is_none() && config.client_ca.is_none() {
                return Err(wrong(
                    "an address other than loopback needs api.token_file or api.client_ca".into(),
                ));
            }
        }
        let token = config.token_file.as_deref().map(token).transpose()?;
        let listener = bind(address).map_err(|error| wrong(error.to_string()))?;
        let address = listener
            .local_addr()
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Some(Tcp {
            listener,
            address,
            tls,
            token,
        }))
    }
}

fn unused_key(config: &ApiSection) -> Option<&'static str> {
    let keys = [
        ("certificate", config.certificate.is_some()),
        ("key", config.key.is_some()),
        ("client_ca", config.client_ca.is_some()),
        ("token_file", config.token_file.is_some()),
    ];
    keys.into_iter()
        .find(|(_, given)| *given)
        .map(|(key, _)| key)
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The token in the file at `path`, without the white space around it.
fn token(path: &Path) -> Result<String> {
    let wrong = |problem: String| {
        Error::request(format!(
            "api.token_file = \"{}\": {problem}",
            path.display()
        ))
    };
    let facts = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if facts.permissions().mode() & 0o007 != 0 {
        let fix = format!("others can read or change it; chmod 600 {}", path.display());
        return Err(wrong(fix));
    }
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let token = text.trim();
    let plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.len() < SHORTEST_TOKEN || !plain {
        return Err(wrong(format!(
            "holds no token; write {SHORTEST_TOKEN} or more letters and digits into it, for \
             example with: openssl rand -hex 32"
        )));
    }
    Ok(token.into())
}
