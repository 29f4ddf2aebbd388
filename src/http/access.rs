//! Access control of one socket: the token, the host name, and the time limit of a
//! request.

use super::answer::Problem;
use super::credentials::names_loopback;
use super::credentials::shows;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use std::time::Duration;

/// What one socket requires of its clients.
pub struct AccessControl {
    pub token: Option<String>,
    /// Whether it is plain TCP on loopback: a web page from elsewhere could then reach
    /// it by DNS rebinding, so that only the names of loopback are accepted.
    pub only_loopback_names: bool,
    /// Whose token it is, in messages.
    pub server: &'static str,
}

impl AccessControl {
    /// `open` paths are answered without the token.
    ///
    /// # Errors
    /// 421 for a foreign host name, 401 without the token.
    pub fn check(&self, headers: &HeaderMap, open: bool) -> Result<(), Problem> {
        if self.only_loopback_names && !names_loopback(headers) {
            let problem = "the Host header must be localhost, 127.0.0.1 or [::1] on this address";
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, problem));
        }
        match &self.token {
            Some(token) if !open && !shows(headers, token) => {
                let server = self.server;
                let problem =
                    format!("send the token of this {server} as Authorization: Bearer TOKEN");
                Err(Problem::new(StatusCode::UNAUTHORIZED, problem))
            }
            _ => Ok(()),
        }
    }
}

/// The result of `answer` if it comes within `limit`.
///
/// # Errors
/// 408.
pub async fn within<T>(limit: Duration, answer: impl Future<Output = T>) -> Result<T, Problem> {
    let answered = tokio::time::timeout(limit, answer).await;
    answered.map_err(|_| {
        let seconds = limit.as_secs();
        let problem = format!("the request was not complete within {seconds} s");
        Problem::new(StatusCode::REQUEST_TIMEOUT, problem)
    })
}
