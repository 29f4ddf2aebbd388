//! How the moments of requests lie.

/// Inter-arrival distribution of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Independent users: exponential gaps.
    Poisson,
    /// Equal gaps.
    Uniform,
}
