//! What is asked of a server.

/// What was asked; the answer is read accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// AUTH, SELECT, PING: any answer that is no error.
    Greet,
    Get,
    Set,
    /// An HTTP request.
    Fetch,
    /// One whose answer has no body, whatever its head says.
    Head,
}

/// What one request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub operation: Operation,
    /// 0 to keys - 1; the lower the more often asked for.
    pub key: u64,
    /// HTTP: which of the requests of the mix.
    pub template: usize,
}

impl Request {
    /// What `operation` asks for `key`.
    pub fn of(operation: Operation, key: u64) -> Request {
        Request {
            operation,
            key,
            template: 0,
        }
    }
}
