//! Where the server is and what it speaks.

use crate::endpoint::Endpoint;
use crate::error::ParseError;
use std::fmt;
use std::str::FromStr;

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Redis,
    Memcached,
    Http,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Redis => "redis",
            Kind::Memcached => "memcached",
            Kind::Http => "http",
        }
    }

    /// Whether requests name keys that hold values.
    pub fn has_keys(self) -> bool {
        self != Kind::Http
    }

    pub fn is_http(self) -> bool {
        self == Kind::Http
    }

    fn default_port(self, tls: bool) -> u16 {
        match self {
            Kind::Redis => 6379,
            Kind::Memcached => 11211,
            Kind::Http if tls => 443,
            Kind::Http => 80,
        }
    }
}

/// A server to ask. Its `Display` never shows the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    pub kind: Kind,
    pub endpoint: Endpoint,
    pub tls: bool,
    pub user: Option<String>,
    pub password: Option<String>,
    /// Redis: the database to select.
    pub database: u32,
    /// HTTP: path and query, from the slash on. `{key}` stands for a number.
    pub path: String,
}

impl Url {
    /// As it is written before the host.
    pub fn scheme(&self) -> &'static str {
        match (self.kind, self.tls) {
            (Kind::Redis, true) => "rediss",
            (Kind::Http, true) => "https",
            (kind, _) => kind.name(),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Unix(path) => write!(f, "redis+unix://{}", path.display())?,
            endpoint => write!(f, "{}://{endpoint}{}", self.scheme(), self.path)?,
        }
        match self.database {
            0 => Ok(()),
            database => write!(f, "/{database}"),
        }
    }
}

/// As `Display`: a password must not end up in a log.
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

impl FromStr for Url {
    type Err = ParseError;

    // Not by the crate `url`, which rewrites paths ("{key}" and ".."): a load
    // generator must send them as they were given.
    fn from_str(text: &str) -> Result<Url, ParseError> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| ParseError::NoUrl(text.into()))?;
        if rest.contains(|c: char| c.is_control() || c == ' ') {
            return Err(ParseError::Spaces);
        }
        let kind = match scheme {
            "redis" | "redis+unix" | "rediss" => Kind::Redis,
            "memcached" => Kind::Memcached,
            "http" | "https" => Kind::Http,
            _ => return Err(ParseError::Scheme(scheme.into())),
        };
        let mut url = Url {
            kind,
            endpoint: Endpoint::Unix(rest.into()),
            tls: matches!(scheme, "rediss" | "https"),
            user: None,
            password: None,
            database: 0,
            path: String::new(),
        };
        if scheme == "redis+unix" {
            return match rest.len() {
                // What `sockaddr_un` holds, less its final zero.
                108.. => Err(ParseError::LongSocket(rest.len())),
                2.. if rest.starts_with('/') => Ok(url),
                _ => Err(ParseError::RelativeSocket(rest.into())),
            };
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let place = match authority.rsplit_once('@') {
            None => authority,
            Some(_) if kind != Kind::Redis => return Err(ParseError::NoLogin(kind.name())),
            Some((login, place)) => {
                let (user, password) = login.split_once(':').unwrap_or(("", login));
                url.user = Some(percent_decoded(user)?).filter(|user| !user.is_empty());
                url.password = Some(percent_decoded(password)?);
                place
            }
        };
        url.endpoint = endpoint(place, kind.default_port(url.tls))?;
        match (kind, path.trim_matches('/')) {
            (Kind::Http, _) if path.is_empty() => url.path = "/".into(),
            (Kind::Http, _) => url.path = path.into(),
            (_, "") => {}
            (Kind::Redis, number) => {
                let wrong = |_| ParseError::Database(number.into());
                url.database = number.parse().map_err(wrong)?;
            }
            (Kind::Memcached, _) => {
                return Err(ParseError::NoPaths {
                    kind: kind.name(),
                    path: path.into(),
                });
            }
        }
        Ok(url)
    }
}

/// Strict, unlike the crate `percent-encoding`: a password with a bare `%`
/// would otherwise be sent wrong without a word.
fn percent_decoded(text: &str) -> Result<String, ParseError> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part.get(..2).map(|two| u8::from_str_radix(two, 16));
        let Some(Ok(byte)) = byte else {
            return Err(ParseError::Percent);
        };
        bytes.push(byte);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| ParseError::Utf8)
}

fn endpoint(place: &str, default_port: u16) -> Result<Endpoint, ParseError> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest
                .split_once(']')
                .ok_or_else(|| ParseError::Bracket(place.into()))?;
            (host, rest.strip_prefix(':'))
        }
        None => match place.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err(ParseError::BareIpv6(place.into()));
            }
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() {
        return Err(ParseError::NoHost);
    }
    let port = match port {
        None => default_port,
        Some(port) => match port.parse() {
            Ok(0) | Err(_) => return Err(ParseError::Port(port.into())),
            Ok(port) => port,
        },
    };
    Ok(Endpoint::Tcp {
        host: host.into(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let url = "redis://:p%40ss@db.example:7000/3".parse::<Url>().unwrap();
        assert_eq!(url.password.as_deref(), Some("p@ss"));
        assert_eq!((url.user.as_deref(), url.database), (None, 3));
        assert_eq!(url.endpoint.to_string(), "db.example:7000");
        assert_eq!(url.to_string(), "redis://db.example:7000/3");
        assert!(!format!("{url:?}").contains("p@ss"));
        let url = "http://[::1]:8080/a?b={key}".parse::<Url>().unwrap();
        assert_eq!(url.endpoint.to_string(), "[::1]:8080");
        assert_eq!(url.path, "/a?b={key}");
        assert_eq!("http://h".parse::<Url>().unwrap().path, "/");
        for (text, shown) in [
            ("https://h/x", "https://h:443/x"),
            ("rediss://h", "rediss://h:6379"),
        ] {
            let url = text.parse::<Url>().unwrap();
            assert!(url.tls);
            assert_eq!(url.to_string(), shown);
        }
        assert_eq!(
            "memcached://h".parse::<Url>().unwrap().endpoint.to_string(),
            "h:11211"
        );
        let url = "redis+unix:///run/r.sock".parse::<Url>().unwrap();
        assert_eq!(url.endpoint, Endpoint::Unix("/run/r.sock".into()));
    }

    #[test]
    fn what_is_no_address_is_told() {
        for (text, word) in [
            ("localhost:6379", "not an address"),
            ("ftp://h", "not supported"),
            ("redis://", "host is missing"),
            ("redis://:7000", "host is missing"),
            ("redis://h:0", "not a port"),
            ("redis://h:70000", "not a port"),
            ("redis://h/x", "database"),
            ("redis://::1:6379", "brackets"),
            ("redis://[::1", "never closed"),
            ("redis://:%zz@h", "hexadecimal"),
            ("memcached://h/1", "has no"),
            ("http://u:p@h/", "no user"),
            ("http://h/a b", "no spaces"),
            ("redis+unix://run", "absolute"),
        ] {
            let error = text.parse::<Url>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
