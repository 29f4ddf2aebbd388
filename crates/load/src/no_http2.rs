//! What stands for HTTP/2 where jostle was built without it.

use crate::error::RequestError;
use crate::operation::Request;
use crate::protocol::Reply;
use crate::spec::LoadSpec;

#[allow(dead_code, reason = "as where it is built")]
pub(super) enum Outcome {
    Answer(Reply),
    Again,
}

/// There is none.
#[derive(Clone, Debug)]
pub(super) enum Http2 {}

pub(super) enum Session {}

impl Http2 {
    /// # Errors
    /// Where HTTP/2 is asked for.
    pub(super) fn of(spec: &LoadSpec) -> Result<Option<Http2>, RequestError> {
        match spec.http2 {
            true => Err(RequestError::NoHttp2),
            false => Ok(None),
        }
    }

    pub(super) fn session(&self) -> Session {
        match *self {}
    }
}

impl Session {
    pub(super) fn is_closing(&self) -> bool {
        match *self {}
    }

    pub(super) fn ask(&mut self, _: u64, _: Request) {
        match *self {}
    }

    pub(super) fn receive(&mut self, _: &[u8]) {
        match *self {}
    }

    pub(super) fn end(&mut self) {
        match *self {}
    }

    pub(super) fn work(&mut self, _: &mut Vec<u8>) -> Result<(), String> {
        match *self {}
    }

    pub(super) fn outcomes(&mut self) -> Vec<(u64, Outcome)> {
        match *self {}
    }
}
