//! Requests to one server, over a connection that is kept.

use super::trust::Trust;
use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::Full;
use http_body_util::Limited;
use hyper::Method;
use hyper::Request;
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::client::conn::http1::SendRequest;
use hyper::header;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest time to reach a server and shake hands.
const LONGEST_CONNECT: Duration = Duration::from_secs(5);
/// Longest wait for the head of an answer.
const LONGEST_HEAD: Duration = Duration::from_secs(10);

/// `http://HOST[:PORT][/PREFIX]` or `https://…`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub tls: bool,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    /// What goes before every path; without a slash at its end.
    pub prefix: String,
}

impl Address {
    /// # Errors
    /// In words.
    pub fn parse(text: &str) -> Result<Address, String> {
        let example = "write https://HOST:PORT";
        let (tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err(example.into()),
        };
        let (place, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let usual = if tls { 443 } else { 80 };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().map_err(|_| format!("no port: {port}"))?;
                (host, port)
            }
            _ => (place, usual),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['@', '?', '#', ' ']) {
            return Err(example.into());
        }
        Ok(Address {
            tls,
            host: host.into(),
            port,
            prefix: prefix.trim_end_matches('/').into(),
        })
    }

    /// As in the header Host.
    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Asks one server.
pub struct Client {
    address: Address,
    /// Present where the address says `https`.
    trust: Option<Trust>,
    /// One of the addresses of the host; any of them where absent.
    at: Option<SocketAddr>,
    open: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    /// `trust` is needed for an address with TLS.
    pub fn new(address: Address, trust: Option<Trust>) -> Client {
        Client {
            address,
            trust,
            at: None,
            open: None,
        }
    }

    /// At `at`, which is one of those that the host of `address` has.
    pub fn at(at: SocketAddr, address: Address, trust: Option<Trust>) -> Client {
        Client {
            at: Some(at),
            ..Client::new(address, trust)
        }
    }

    /// Whether the connection of the last request can be used again.
    pub fn is_open(&self) -> bool {
        self.open.as_ref().is_some_and(|open| !open.is_closed())
    }

    /// Sends one request; on the connection of the one before where that is still
    /// open.
    ///
    /// # Errors
    /// The server cannot be reached, is not believed, or does not answer in time.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Bytes,
    ) -> io::Result<Response<Incoming>> {
        let mut connection = match self.open.take() {
            Some(open) if !open.is_closed() => open,
            _ => timeout(LONGEST_CONNECT, self.connect())
                .await
                .map_err(|_| late("connection"))??,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.address.prefix))
            .header(header::HOST, self.address.authority());
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(body)).map_err(io::Error::other)?;
        let asked = async {
            connection.ready().await.map_err(io::Error::other)?;
            connection
                .send_request(request)
                .await
                .map_err(io::Error::other)
        };
        let answer = timeout(LONGEST_HEAD, asked)
            .await
            .map_err(|_| late("answer"))??;
        self.open = Some(connection);
        Ok(answer)
    }

    async fn connect(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        let stream = match self.at {
            Some(at) => TcpStream::connect(at).await?,
            None => {
                let place = (self.address.host.as_str(), self.address.port);
                TcpStream::connect(place).await?
            }
        };
        stream.set_nodelay(true)?;
        match (&self.trust, self.address.tls) {
            (Some(trust), true) => talk(trust.connect(&self.address.host, stream).await?).await,
            (None, true) => Err(io::Error::other("no CA is given for TLS")),
            (_, false) => talk(stream).await,
        }
    }
}

async fn talk<S>(stream: S) -> io::Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(sender)
}

fn late(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no {what} in time"))
}

/// The body of `answer`, of at most `most` bytes.
///
/// # Errors
/// It is larger, ends early, or takes longer than `longest`.
pub async fn body(answer: Response<Incoming>, most: usize, longest: Duration) -> io::Result<Bytes> {
    let whole = Limited::new(answer.into_body(), most).collect();
    let whole = timeout(longest, whole).await.map_err(|_| late("body"))?;
    Ok(whole.map_err(io::Error::other)?.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let parsed = |text: &str| {
            let address = Address::parse(text).expect(text);
            (address.tls, address.authority(), address.prefix)
        };
        assert_eq!(
            parsed("https://example.org"),
            (true, "example.org:443".into(), "".into())
        );
        assert_eq!(
            parsed("http://127.0.0.1:80/a/b/"),
            (false, "127.0.0.1:80".into(), "/a/b".into())
        );
        assert_eq!(
            parsed("https://[::1]:6443"),
            (true, "[::1]:6443".into(), "".into())
        );
        assert_eq!(
            parsed("https://[fd00::1]/x"),
            (true, "[fd00::1]:443".into(), "/x".into())
        );
        for wrong in [
            "",
            "example.org",
            "ftp://a",
            "https://",
            "http://a:b",
            "http://u@h",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
