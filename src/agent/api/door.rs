//! Checks that every request passes: authentication, query, size, time limit.

use super::place;
use super::query;
use super::routes;
use super::row::Row;
use super::shared::Shared;
use crate::http::answer::Problem;
use crate::http::credentials::names_loopback;
use crate::http::credentials::shows;
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

fn declared(headers: &HeaderMap) -> Option<u64> {
    let length = headers.get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}
