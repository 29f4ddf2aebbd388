//! TCP: on loopback as it is, elsewhere with TLS and a proof of who asks.

use super::naming::Naming;
use super::tls::Tls;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_DOCUMENT;
use socket2::Domain;
use socket2::Socket;
use socket2::Type;
use std::fs;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Connections that the kernel keeps until they are accepted.
pub const BACKLOG: i32 = 1024;

/// Shortest token that is accepted, bytes.
const SHORTEST_TOKEN: usize = 16;

/// Where to listen, and how clients prove who they are.
pub struct Options<'a> {
    pub naming: Naming,
    /// What the address is called: `tcp`, or `listen`.
    pub setting: &'static str,
    /// `ADDRESS:PORT`.
    pub address: Option<&'a str>,
    /// PEM files.
    pub certificate: Option<&'a Path>,
    pub key: Option<&'a Path>,
    pub client_ca: Option<&'a Path>,
    pub token_file: Option<&'a Path>,
}

/// What the options ask for, checked.
pub struct Tcp {
    pub listener: TcpListener,
    pub address: SocketAddr,
    pub tls: Option<Tls>,
    pub token: Option<String>,
}

impl Tcp {
    /// Listens; `None` where no address is given.
    ///
    /// # Errors
    /// A request error that names the setting: an address other than loopback without
    /// TLS or without a proof of who asks, a file that cannot be used, an address
    /// that is taken.
    pub fn listen(options: &Options) -> Result<Option<Tcp>> {
        let (naming, listen) = (options.naming, options.setting);
        let name = |setting| naming.name(setting);
        let Some(text) = options.address else {
            return match options.unused() {
                Some(setting) => Err(Error::request(format!(
                    "{}: has no effect without {}; add it or remove this key",
                    name(setting),
                    name(listen)
                ))),
                None => Ok(None),
            };
        };
        let wrong = |problem: String| naming.wrong(listen, text, problem);
        let address: SocketAddr = text
            .parse()
            .map_err(|_| wrong("write ADDRESS:PORT, for example \"127.0.0.1:7070\"".into()))?;
        let both = format!("{} and {}", name("certificate"), name("key"));
        let tls = match (options.certificate, options.key) {
            (Some(certificate), Some(key)) => {
                Some(Tls::load(naming, certificate, key, options.client_ca)?)
            }
            (None, None) => None,
            _ => return Err(wrong(format!("{both} go together; give both"))),
        };
        if tls.is_none() && options.client_ca.is_some() {
            let client_ca = name("client_ca");
            return Err(wrong(format!("{client_ca} needs TLS; give {both} too")));
        }
        if !address.ip().is_loopback() {
            if tls.is_none() {
                return Err(wrong(format!(
                    "an address other than loopback needs TLS; give {both}"
                )));
            }
            if options.token_file.is_none() && options.client_ca.is_none() {
                return Err(wrong(format!(
                    "an address other than loopback needs {} or {}",
                    name("token_file"),
                    name("client_ca")
                )));
            }
        }
        let token = options.token_file.map(|path| token(naming, path));
        let token = token.transpose()?;
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

impl Options<'_> {
    fn unused(&self) -> Option<&'static str> {
        let settings = [
            ("certificate", self.certificate.is_some()),
            ("key", self.key.is_some()),
            ("client_ca", self.client_ca.is_some()),
            ("token_file", self.token_file.is_some()),
        ];
        let mut settings = settings.into_iter();
        settings.find(|(_, given)| *given).map(|(name, _)| name)
    }
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
///
/// # Errors
/// A request error: the file cannot be read, others can read it, or it holds none.
pub fn token(naming: Naming, path: &Path) -> Result<String> {
    let wrong = |problem: String| naming.wrong("token_file", path.display(), problem);
    let facts = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if facts.permissions().mode() & 0o007 != 0 {
        let fix = format!("others can read or change it; chmod 600 {}", path.display());
        return Err(wrong(fix));
    }
    let text =
        regular::read_text(path, LONGEST_DOCUMENT).map_err(|error| wrong(error.to_string()))?;
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
