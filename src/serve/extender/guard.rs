//! Checks that every request passes: token, host name, size, time limit.

use super::shared::Shared;
use crate::http::access::AccessControl;
use crate::http::access::within;
use crate::http::answer::Problem;
use axum::Router;
use axum::body::Body;
use axum::body::HttpBody;
use axum::extract::MatchedPath;
use axum::extract::Request;
use axum::extract::State;
use axum::http::Method;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::response::Response;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

/// Longest that a request may take, its body included, until the response starts.
const LONGEST_REQUEST: Duration = Duration::from_secs(30);
/// Largest state of a node, bytes.
pub const MOST_STATE_BYTES: usize = 4 << 20;

struct Guard {
    shared: Arc<Shared>,
    access: AccessControl,
}

/// Every path, and whether it is answered without a token: kube-scheduler cannot send
/// one.
pub const PATHS: [(&str, bool); 8] = [
    ("/filter", true),
    ("/prioritize", true),
    ("/v1/nodes/{name}", false),
    ("/v1/nodes", false),
    ("/v1/decisions", false),
    ("/metrics", false),
    ("/healthz", true),
    ("/readyz", true),
];

/// `router`, for clients that `access` admits.
pub fn behind(shared: Arc<Shared>, access: AccessControl, router: Router) -> Router {
    let guard = Arc::new(Guard { shared, access });
    router.layer(from_fn_with_state(guard, check))
}

async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let path = request.extensions().get::<MatchedPath>();
    let row = path.and_then(|path| PATHS.iter().find(|(name, _)| *name == path.as_str()));
    let asked = row.and_then(|(path, _)| Some((*path, method(request.method())?)));
    let open = row.is_some_and(|(_, open)| *open);
    let answer = match guard.access.check(request.headers(), open) {
        Err(problem) => Err(problem),
        Ok(()) => within(LONGEST_REQUEST, next.run(request)).await,
    };
    let response = answer.into_response();
    let requests = &guard.shared.requests;
    requests.add(asked, response.status(), begin.elapsed());
    response
}

fn method(method: &Method) -> Option<&'static str> {
    ["GET", "POST", "PUT"]
        .into_iter()
        .find(|name| *name == method.as_str())
}

/// The whole of `body`, of at most `most` bytes.
///
/// # Errors
/// 413, or 400 where it ends early.
pub async fn whole(body: Body, most: usize) -> Result<Bytes, Problem> {
    let too_large = || {
        let problem = format!("the body is larger than {most} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, problem)
    };
    // As its head says: it is not waited for.
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    axum::body::to_bytes(body, most).await.map_err(|error| {
        let source = std::error::Error::source(&error);
        if source.is_some_and(|it| it.is::<http_body_util::LengthLimitError>()) {
            return too_large();
        }
        Problem::bad_request("the body ended early")
    })
}
