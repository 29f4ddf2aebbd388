//! Loads: what is told of a server is what the server did.

mod command;
mod fakes;
mod real;
mod support;
