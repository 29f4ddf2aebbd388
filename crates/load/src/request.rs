//! What HTTP requests ask for: method, path, headers and body, and how often each of
//! several.

use crate::error::RequestError;
use crate::operation::Operation;
use serde::Deserialize;

/// What stands for a number in a path, a header or a body.
pub(crate) const KEY: &str = "{key}";
/// Most requests in a mix.
const MOST: usize = 1000;
/// Longest body, bytes.
const LONGEST_BODY: usize = 16 << 20;
/// Headers that follow from the request and the connection.
const OURS: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

/// One HTTP request.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRequest {
    /// How often it is sent, against the others' weights; above 0.
    pub weight: f64,
    pub method: String,
    /// Path and query, from the slash on. `{key}` stands for a number, here, in the
    /// values of headers, and in the body.
    pub path: String,
    /// Beside `Host`, `User-Agent` (unless given) and what follows from the rest.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// A GET of `path`.
    pub fn get(path: &str) -> HttpRequest {
        HttpRequest {
            weight: 1.0,
            method: "GET".into(),
            path: path.into(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Whether what it asks for depends on a key.
    pub fn uses_keys(&self) -> bool {
        let values = self.headers.iter().map(|(_, value)| value.as_bytes());
        let mut texts = values.chain([self.path.as_bytes(), &self.body]);
        texts.any(|text| text.windows(KEY.len()).any(|part| part == KEY.as_bytes()))
    }

    /// How its answer is read.
    pub(crate) fn operation(&self) -> Operation {
        match self.method.as_str() {
            "HEAD" => Operation::Head,
            _ => Operation::Fetch,
        }
    }

    /// # Errors
    /// What cannot be sent as HTTP/1.1, in words.
    pub fn check(&self) -> Result<(), RequestError> {
        if !is_token(&self.method) || self.method == "CONNECT" {
            return Err(RequestError::Method(self.method.clone()));
        }
        let plain = |byte: u8| byte.is_ascii_graphic() || byte >= 0x80;
        if !self.path.starts_with('/') || !self.path.bytes().all(plain) {
            return Err(RequestError::Path(self.path.clone()));
        }
        for (name, value) in &self.headers {
            if !is_token(name) || value.bytes().any(|byte| byte < 0x20 && byte != b'\t') {
                return Err(RequestError::Header(name.clone()));
            }
            if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
                return Err(RequestError::Ours(name.clone()));
            }
        }
        if self.body.len() > LONGEST_BODY {
            return Err(RequestError::Body(self.body.len()));
        }
        match self.weight.is_finite() && self.weight > 0.0 {
            true => Ok(()),
            false => Err(RequestError::Weight(self.weight)),
        }
    }
}

/// A token of RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

/// Reads a header as it is written: `Name: value`.
///
/// # Errors
/// When there is no colon, or one of the parts cannot be sent.
pub fn parse_header(text: &str) -> Result<(String, String), RequestError> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| RequestError::NoColon(text.into()))?;
    let header = (name.trim().to_string(), value.trim().to_string());
    let request = HttpRequest {
        headers: vec![header.clone()],
        ..HttpRequest::get("/")
    };
    request.check()?;
    Ok(header)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mix {
    request: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default = "one")]
    weight: f64,
    #[serde(default = "get")]
    method: String,
    path: String,
    #[serde(default)]
    headers: Vec<String>,
    #[serde(default)]
    body: String,
}

fn one() -> f64 {
    1.0
}

fn get() -> String {
    "GET".into()
}

/// Reads a mix: TOML with one `[[request]]` each, of `path` and, where they differ from
/// a GET as often as the others, `weight`, `method`, `headers` (a list of
/// `"Name: value"`) and `body`.
///
/// # Errors
/// What is wrong with which request.
pub fn parse_mix(text: &str) -> Result<Vec<HttpRequest>, RequestError> {
    let mix: Mix = toml::from_str(text).map_err(|error| RequestError::Toml(error.to_string()))?;
    if mix.request.is_empty() || mix.request.len() > MOST {
        return Err(RequestError::Count(mix.request.len()));
    }
    let mut requests = Vec::new();
    for (index, line) in mix.request.into_iter().enumerate() {
        let of = |problem: RequestError| RequestError::Of(index + 1, Box::new(problem));
        let headers = line.headers.iter().map(|text| parse_header(text));
        let request = HttpRequest {
            weight: line.weight,
            method: line.method,
            path: line.path,
            headers: headers.collect::<Result<_, _>>().map_err(of)?,
            body: line.body.into_bytes(),
        };
        request.check().map_err(of)?;
        requests.push(request);
    }
    Ok(requests)
}

/// A text in which `{key}` is replaced: what stands before, between and behind.
#[derive(Clone, Debug)]
pub(crate) struct Divided(Vec<Vec<u8>>);

impl Divided {
    pub(crate) fn of(mut text: &[u8]) -> Divided {
        let mut parts = Vec::new();
        while let Some(at) = text
            .windows(KEY.len())
            .position(|part| part == KEY.as_bytes())
        {
            parts.push(text[..at].to_vec());
            text = &text[at + KEY.len()..];
        }
        parts.push(text.to_vec());
        Divided(parts)
    }

    fn length(&self, digits: usize) -> usize {
        let parts: usize = self.0.iter().map(Vec::len).sum();
        parts + (self.0.len() - 1) * digits
    }

    pub(crate) fn write(&self, key: &[u8], out: &mut Vec<u8>) {
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(key);
            }
            out.extend_from_slice(part);
        }
    }
}

/// A request that only lacks its key.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    head: Divided,
    body: Divided,
    has_length: bool,
}

impl Template {
    /// What `request` is to a server called `host`.
    pub(crate) fn new(request: &HttpRequest, host: &str, keep_alive: bool) -> Template {
        let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
        for (name, value) in [("Host", host), ("User-Agent", "jostle")] {
            let mut given = request.headers.iter();
            if !given.any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        for (name, value) in &request.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !keep_alive {
            head += "Connection: close\r\n";
        }
        // RFC 9110, section 8.6: methods that usually carry a body say that it is empty.
        let expected = ["POST", "PUT", "PATCH"].contains(&request.method.as_str());
        Template {
            head: Divided::of(head.as_bytes()),
            body: Divided::of(&request.body),
            has_length: expected || !request.body.is_empty(),
        }
    }

    pub(crate) fn write(&self, key: u64, out: &mut Vec<u8>) {
        let digits = key.to_string();
        let key = digits.as_bytes();
        self.head.write(key, out);
        if self.has_length {
            let length = self.body.length(key.len());
            out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        self.body.write(key, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(request: &HttpRequest, keep_alive: bool, key: u64) -> String {
        let mut out = Vec::new();
        Template::new(request, "h:80", keep_alive).write(key, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_are_written_with_their_key_and_length() {
        let get = HttpRequest::get("/a?b={key}");
        assert!(get.uses_keys());
        assert_eq!(
            written(&get, true, 7),
            "GET /a?b=7 HTTP/1.1\r\nHost: h:80\r\nUser-Agent: jostle\r\n\r\n"
        );
        let post = HttpRequest {
            method: "POST".into(),
            headers: vec![
                ("host".into(), "other".into()),
                ("X".into(), "{key}".into()),
            ],
            body: b"{\"id\": {key}, \"again\": {key}}".to_vec(),
            ..HttpRequest::get("/")
        };
        let text = written(&post, false, 123);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, "{\"id\": 123, \"again\": 123}");
        let length = format!("Content-Length: {}", body.len());
        assert!(head.ends_with(&length), "{head}");
        assert!(head.contains("\r\nhost: other\r\nX: 123\r\nConnection: close\r\n"));
        assert!(!head.contains("h:80"), "{head}");
        let empty = HttpRequest {
            body: Vec::new(),
            ..post
        };
        assert!(written(&empty, true, 1).contains("Content-Length: 0\r\n\r\n"));
        let head = HttpRequest {
            method: "HEAD".into(),
            ..HttpRequest::get("/")
        };
        assert_eq!(head.operation(), Operation::Head);
        assert!(!head.uses_keys() && !written(&head, true, 1).contains("Length"));
    }

    #[test]
    fn a_mix_is_read() {
        let mix = "[[request]]\nweight = 8\npath = \"/item/{key}\"\n\n[[request]]\nmethod = \
                   \"POST\"\npath = \"/item\"\nheaders = [\"Content-Type: application/json\"]\nbody \
                   = '{\"id\": {key}}'\n";
        let requests = parse_mix(mix).unwrap();
        assert_eq!(requests.len(), 2);
        assert_eq!((requests[0].weight, requests[1].weight), (8.0, 1.0));
        assert_eq!(requests[0].method, "GET");
        let header = ("Content-Type".to_string(), "application/json".to_string());
        assert_eq!(requests[1].headers, [header]);
        assert!(requests.iter().all(HttpRequest::uses_keys));
    }

    #[test]
    fn what_cannot_be_sent_is_told() {
        for (mix, said) in [
            ("", "request"),
            ("request = []", "1 to 1000"),
            ("[[request]]\npath = \"x\"", "request 1: 'x' is not a path"),
            ("[[request]]\npath = \"/a b\"", "not a path"),
            ("[[request]]\npath = \"/\"\nweight = 0", "weight"),
            ("[[request]]\npath = \"/\"\nweight = nan", "weight"),
            (
                "[[request]]\npath = \"/\"\nmethod = \"A B\"",
                "not a method",
            ),
            ("[[request]]\npath = \"/\"\nverb = \"GET\"", "verb"),
            ("[[request]]\npath = \"/\"\nheaders = [\"a\"]", "colon"),
            (
                "[[request]]\npath = \"/\"\nheaders = [\"a b: c\"]",
                "header",
            ),
            (
                "[[request]]\npath = \"/\"\nheaders = [\"a: b\\r\\nc: d\"]",
                "header",
            ),
            (
                "[[request]]\npath = \"/\"\nheaders = [\"Content-Length: 5\"]",
                "by itself",
            ),
        ] {
            let error = parse_mix(mix).unwrap_err().to_string();
            assert!(error.contains(said), "{mix}: {error}");
        }
    }
}
