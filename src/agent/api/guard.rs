//! Checks that every request passes: authentication, query, size, time limit.

use super::place;
use super::query;
use super::routes;
use super::row::Row;
use super::shared::Shared;
use crate::http::access::AccessControl;
use crate::http::access::within;
use crate::http::answer::Problem;
use axum::Router;
use axum::extract::MatchedPath;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::HeaderValue;
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

struct Guard {
    shared: Arc<Shared>,
    access: AccessControl,
}

/// `router`, for clients that `access` admits.
pub fn behind(shared: Arc<Shared>, access: AccessControl, router: Router) -> Router {
    let guard = Arc::new(Guard { shared, access });
    router.layer(from_fn_with_state(guard, check))
}

async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let path = request.extensions().get::<MatchedPath>();
    let row = path.and_then(|path| routes::row(path.as_str(), request.method()));
    let answer = match guard.check(&request, row) {
        Err(problem) => Err(problem),
        Ok(()) => within(LONGEST_REQUEST, next.run(request)).await,
    };
    let mut response = answer.into_response();
    let asked = row.map(|row| (row.path, row.method.as_str()));
    let requests = &guard.shared.requests;
    requests.add(asked, response.status(), begin.elapsed());
    // Live data must not be cached, and no client may guess another type.
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

impl Guard {
    fn check(&self, request: &Request, row: Option<&Row>) -> Result<(), Problem> {
        let headers = request.headers();
        self.access
            .check(headers, row.is_some_and(|row| row.open))?;
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
