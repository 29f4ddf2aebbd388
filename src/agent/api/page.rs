//! `/`: the dashboard, one page that is part of the program.

use crate::http::answer::Answer;
use crate::http::answer::with_type;
use axum::http::HeaderValue;
use axum::http::header;

pub const HTML: &str = "text/html; charset=utf-8";
pub const SCRIPT: &str = "text/javascript; charset=utf-8";
pub const STYLE: &str = "text/css; charset=utf-8";
pub const ICON: &str = "image/svg+xml";

/// Only own files, nothing inline, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

pub async fn html() -> Answer {
    served(HTML, include_str!("page/dashboard.html"))
}

pub async fn script() -> Answer {
    served(SCRIPT, include_str!("page/dashboard.js"))
}

pub async fn style() -> Answer {
    served(STYLE, include_str!("page/dashboard.css"))
}

pub async fn icon() -> Answer {
    served(ICON, include_str!("page/dashboard.svg"))
}

fn served(media: &'static str, text: &'static str) -> Answer {
    let mut response = with_type(media, text.as_bytes());
    let headers = response.headers_mut();
    let policy = HeaderValue::from_static(POLICY);
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    let referrer = HeaderValue::from_static("no-referrer");
    headers.insert(header::REFERRER_POLICY, referrer);
    Ok(response)
}
