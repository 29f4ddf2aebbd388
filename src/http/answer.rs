//! Answers and errors as JSON.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;

/// What every error looks like.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorBody {
    /// What is wrong, and what to do.
    pub error: String,
}

/// An error and its status.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    error: String,
}

pub type Answer = Result<Response, Problem>;

impl Problem {
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        let error = error.into();
        Problem { status, error }
    }

    pub fn bad_request(error: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, error)
    }

    pub fn not_found(error: impl Into<String>) -> Self {
        Problem::new(StatusCode::NOT_FOUND, error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = ErrorBody { error: self.error };
        let mut response = json(&body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                let scheme = HeaderValue::from_static("Bearer realm=\"jostle\"");
                headers.insert(header::WWW_AUTHENTICATE, scheme);
            }
            _ => {}
        }
        response
    }
}

pub fn json(value: &impl Serialize) -> Response {
    let text = serde_json::to_vec(value).expect("plain data");
    with_type("application/json", text)
}

pub fn with_type(content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    let value = HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
