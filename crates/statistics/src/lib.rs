#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod bootstrap;
mod isotonic;
mod noise;
mod robust;

pub use bootstrap::*;
pub use isotonic::*;
pub use noise::Noise;
pub use robust::*;
