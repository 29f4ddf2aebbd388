//! Checks that every request passes: authentication, query, size, time limit.

use super::answer::Problem;
use super::place;
use super::query;
use super::routes;
use super::row::Row;
use super::shared::Shared;
use axum::Router;
use axum::extract::MatchedPath;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::middleware::Next;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::response::Response;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

/// Longest that a request may take, its body included, until the response starts.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);

/// What one socket asks of its clients.
pub struct Door {
    pub shared: Arc<Shared>,
    pub token: Option<String>,
    /// Whether it is plain TCP on loopback: a web page from elsewhere could then reach
    /// it by DNS rebinding, so that only the names of loopback are accepted.
    pub only_loopback_names: bool,
}

/// `router`, behind `door`.
pub fn behind(door: Door, router: Router) -> Router {
    router.layer(from_fn_with_state(Arc::new(door), guard))
}

async fn guard(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let path = request.extensions().get::<MatchedPath>();
    let row = path.and_then(|path| routes::row(path.as_str(), request.method()));
    let answer = match door.check(&request, row) {
        Err(problem) => Err(problem),
        Ok(()) => tokio::time::timeout(LONGEST_REQUEST, next.run(request))
            .await
            .map_err(|_| {
                let seconds = LONGEST_REQUEST.as_secs();
                let problem = format!("the request was not complete within {seconds} s");
                Problem::new(StatusCode::REQUEST_TIMEOUT, problem)
            }),
    };
    let mut response = answer.into_response();
    let asked = row.map(|row| (row.path, row.method.as_str()));
    let requests = &door.shared.requests;
    requests.add(asked, response.status(), begin.elapsed());
    // Live data must not be cached, and no client may guess another type.
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

impl Door {
    fn check(&self, request: &Request, row: Option<&Row>) -> Result<(), Problem> {
        let headers = request.headers();
        if self.only_loopback_names && !names_loopback(headers) {
            let problem = "the Host header must be localhost, 127.0.0.1 or [::1] on this address";
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, problem));
        }
        if let Some(token) = &self.token
            && !row.is_some_and(|row| row.open)
            && !shows(headers, token)
        {
            let problem = "send the token of this agent as Authorization: Bearer TOKEN";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, problem));
        }
        if declared(headers).is_some_and(|bytes| bytes > place::MOST_BODY_BYTES as u64) {
            return Err(place::too_large());
        }
        match row {
            Some(row) => query::check(request.uri().query(), row.query),
            None => Ok(()),
        }
    }
}

fn names_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else {
        // Browsers always send one.
        return true;
    };
    let host = host.to_str().unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => name,
        _ => host,
    };
    let is_loopback = |address: Ipv4Addr| address.is_loopback();
    name.eq_ignore_ascii_case("localhost") || name == "[::1]" || name.parse().is_ok_and(is_loopback)
}

fn declared(headers: &HeaderMap) -> Option<u64> {
    let length = headers.get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

fn shows(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(header::AUTHORIZATION);
    let given = given.map_or(&[][..], HeaderValue::as_bytes);
    let Some((scheme, given)) = given.split_at_checked("Bearer ".len()) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Bearer ") && same(given, token.as_bytes())
}

/// In constant time.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn tokens_are_compared_whole() {
        let token = "0123456789abcdef";
        let shown = |text: &str| shows(&with(header::AUTHORIZATION, text), token);
        assert!(shown("Bearer 0123456789abcdef"));
        assert!(shown("bearer 0123456789abcdef"));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789abcdeg",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert!(!shown(wrong), "{wrong}");
        }
        assert!(!shows(&HeaderMap::new(), token));
    }

    #[test]
    fn only_names_of_loopback_are_answered() {
        let named = |text: &str| names_loopback(&with(header::HOST, text));
        for good in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:7070",
            "[::1]:7070",
            "[::1]",
        ] {
            assert!(named(good), "{good}");
        }
        for bad in [
            "example.org",
            "localhost.example.org:7070",
            "10.0.0.1",
            "127.0.0.1.example.org:7070",
            "",
            "::1x",
        ] {
            assert!(!named(bad), "{bad}");
        }
    }
}
