//! What a request shows of who sent it.

use axum::http::HeaderMap;
use axum::http::HeaderValue;
use axum::http::header;
use std::net::Ipv4Addr;

/// Whether the Host header names loopback, or is absent.
pub fn names_loopback(headers: &HeaderMap) -> bool {
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

/// Whether the request carries `token`.
pub fn shows(headers: &HeaderMap, token: &str) -> bool {
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
