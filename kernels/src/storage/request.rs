//! One transfer, and what carries it.

use std::io;
use std::time::Duration;

/// One transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Where in the file, bytes.
    pub offset: u64,
    pub bytes: u32,
    pub write: bool,
}

/// How the transfer in a slot ended: the bytes moved.
pub type Ended = (usize, io::Result<usize>);

/// What carries requests. Each has one of a fixed number of slots, with memory
/// of its own, until it has ended.
pub trait Engine {
    /// Takes a request for a slot that is free. It may start only with the next
    /// [`Engine::wait`].
    fn submit(&mut self, slot: usize, request: Request) -> io::Result<()>;

    /// Waits until `least` transfers have ended, at least one, or for `most`;
    /// then adds all that have ended to `ended`.
    fn wait(&mut self, least: usize, most: Duration, ended: &mut Vec<Ended>) -> io::Result<()>;
}
