//! Where the server is and what it speaks.

use std::fmt;
use std::path::PathBuf;

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

    fn default_port(self) -> u16 {
        match self {
            Kind::Redis => 6379,
            Kind::Memcached => 11211,
            Kind::Http => 80,
        }
    }
}

/// Where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "{host}:{port}"),
            Endpoint::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A server to ask. Its `Display` never shows the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    pub kind: Kind,
    pub endpoint: Endpoint,
    pub user: Option<String>,
    pub password: Option<String>,
    /// Redis: the database to select.
    pub database: u32,
    /// HTTP: path and query, from the slash on. `{key}` stands for a number.
    pub path: String,
}

const EXAMPLES: &str = "give redis://HOST:PORT[/DB], redis+unix:///PATH, memcached://HOST:PORT or http://HOST:PORT/PATH";

impl Url {
    /// Reads an address.
    ///
    /// # Errors
    /// In words: what is wrong, and what an address looks like.
    pub fn parse(text: &str) -> Result<Url, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("'{text}' is no address; {EXAMPLES}"));
        };
        if rest.chars().any(|c| c.is_control() || c == ' ') {
            return Err("an address holds no spaces or control characters".into());
        }
        let kind = match scheme {
            "redis" | "redis+unix" => Kind::Redis,
            "memcached" => Kind::Memcached,
            "http" => Kind::Http,
            "https" | "rediss" => {
                return Err(format!(
                    "{scheme}: TLS is not spoken here; put the load on the plain port, or {EXAMPLES}"
                ));
            }
            _ => return Err(format!("'{scheme}' is not spoken here; {EXAMPLES}")),
        };
        if scheme == "redis+unix" {
            return unix(rest);
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        let (user, password) = credentials(kind, login)?;
        let (host, port) = host_and_port(place, kind.default_port())?;
        let mut url = Url {
            kind,
            endpoint: Endpoint::Tcp { host, port },
            user,
            password,
            database: 0,
            path: String::new(),
        };
        match kind {
            Kind::Redis => url.database = database(path.trim_matches('/'))?,
            Kind::Http => {
                url.path = match path {
                    "" => "/".into(),
                    path => path.into(),
                };
            }
            Kind::Memcached if path.trim_matches('/').is_empty() => {}
            Kind::Memcached => {
                return Err(format!("memcached has no '{path}'; {EXAMPLES}"));
            }
        }
        Ok(url)
    }

    /// Whether what is asked for depends on a key.
    pub fn uses_keys(&self) -> bool {
        self.kind.has_keys() || self.path.contains("{key}")
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Unix(path) => write!(f, "redis+unix://{}", path.display())?,
            endpoint => write!(f, "{}://{endpoint}{}", self.kind.name(), self.path)?,
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

fn unix(path: &str) -> Result<Url, String> {
    if !path.starts_with('/') || path.len() < 2 {
        return Err(format!(
            "redis+unix needs an absolute path, like redis+unix:///run/redis.sock; '{path}' is none"
        ));
    }
    // What `sockaddr_un` holds, less its final zero.
    if path.len() > 107 {
        return Err(format!(
            "the path of a socket has at most 107 bytes; this one has {}",
            path.len()
        ));
    }
    Ok(Url {
        kind: Kind::Redis,
        endpoint: Endpoint::Unix(path.into()),
        user: None,
        password: None,
        database: 0,
        path: String::new(),
    })
}

fn credentials(
    kind: Kind,
    login: Option<&str>,
) -> Result<(Option<String>, Option<String>), String> {
    let Some(login) = login else {
        return Ok((None, None));
    };
    if kind != Kind::Redis {
        return Err(format!(
            "{} takes no user and password here; leave them out",
            kind.name()
        ));
    }
    let (user, password) = login.split_once(':').unwrap_or(("", login));
    let user = percent_decoded(user)?;
    Ok((
        (!user.is_empty()).then_some(user),
        Some(percent_decoded(password)?),
    ))
}

fn percent_decoded(text: &str) -> Result<String, String> {
    let wrong = || "user and password: '%' must be followed by two hexadecimal digits".to_string();
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [
                    rest.next().ok_or_else(wrong)?,
                    rest.next().ok_or_else(wrong)?,
                ];
                let digits = std::str::from_utf8(&digits).map_err(|_| wrong())?;
                u8::from_str_radix(digits, 16).map_err(|_| wrong())?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| "user and password must be UTF-8".into())
}

fn host_and_port(place: &str, default: u16) -> Result<(String, u16), String> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest
                .split_once(']')
                .ok_or_else(|| format!("'{place}': the bracket of the host is never closed"))?;
            (host, rest.strip_prefix(':'))
        }
        None => match place.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() {
        return Err(format!("the host is missing; {EXAMPLES}"));
    }
    if !place.starts_with('[') && host.contains(':') {
        return Err(format!(
            "'{place}': write an IPv6 host in brackets, like [::1]:6379"
        ));
    }
    let port = match port {
        None => default,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| format!("'{port}' is no port; give 1 to 65535"))?,
    };
    Ok((host.to_string(), port))
}

fn database(path: &str) -> Result<u32, String> {
    match path {
        "" => Ok(0),
        path => path
            .parse()
            .map_err(|_| format!("'{path}' is no redis database; give its number, like /1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let url = Url::parse("redis://:p%40ss@db.example:7000/3").unwrap();
        assert_eq!(url.password.as_deref(), Some("p@ss"));
        assert_eq!((url.user.as_deref(), url.database), (None, 3));
        assert_eq!(url.endpoint.to_string(), "db.example:7000");
        assert_eq!(url.to_string(), "redis://db.example:7000/3");
        assert!(!format!("{url:?}").contains("p@ss"));
        let url = Url::parse("http://[::1]:8080/a?b={key}").unwrap();
        assert_eq!(url.endpoint.to_string(), "[::1]:8080");
        assert_eq!(url.path, "/a?b={key}");
        assert!(url.uses_keys());
        assert_eq!(Url::parse("http://h").unwrap().path, "/");
        assert_eq!(
            Url::parse("memcached://h").unwrap().endpoint.to_string(),
            "h:11211"
        );
        let url = Url::parse("redis+unix:///run/r.sock").unwrap();
        assert_eq!(url.endpoint, Endpoint::Unix("/run/r.sock".into()));
    }

    #[test]
    fn what_is_no_address_is_told() {
        for (text, word) in [
            ("localhost:6379", "no address"),
            ("ftp://h", "not spoken"),
            ("https://h", "TLS"),
            ("redis://", "host is missing"),
            ("redis://:7000", "host is missing"),
            ("redis://h:0", "no port"),
            ("redis://h:70000", "no port"),
            ("redis://h/x", "database"),
            ("redis://::1:6379", "brackets"),
            ("redis://[::1", "never closed"),
            ("redis://:%zz@h", "hexadecimal"),
            ("memcached://h/1", "has no"),
            ("http://u:p@h/", "no user"),
            ("http://h/a b", "no spaces"),
            ("redis+unix://run", "absolute"),
        ] {
            let error = Url::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
