//! Expected performance of applications that share a machine.
//!
//! An application's performance is the product over resources of its sensitivity
//! curve at the pressure that the others cause together, held within 100 points;
//! on a CPU that is shared it is what the kernel's scheduler leaves. [`performance`]
//! is the one place that says so. What is not known of an application is what the
//! [`Population`] of profiles has there, with its spread.

mod caused;
mod colocation;
mod company;
mod cpu;
mod isotonic;
mod lanes;
mod neighbours;
mod points;
mod population;
mod reading;
mod responses;
mod spread;
mod unexplained;

pub use colocation::Expected;
pub use colocation::performance;
pub use colocation::quick_exp;
pub use company::Company;
pub use company::Pressure;
pub use cpu::CpuNeed;
pub use cpu::SharedCpu;
pub use cpu::TypicalCpu;
pub use lanes::LANES;
pub use lanes::LaneSet;
pub use lanes::Lanes;
pub use lanes::core_private;
pub use lanes::lane;
pub use lanes::resource_id;
pub use neighbours::Basis;
pub use neighbours::Gap;
pub use neighbours::NotKnown;
pub use neighbours::OnResource;
pub use neighbours::Prediction;
pub use neighbours::Subject;
pub use neighbours::co_location;
pub use population::Population;
pub use population::Sample;
pub use population::Typical;
pub use responses::Curve;
pub use responses::DiskUse;
pub use responses::GRID;
pub use responses::GRID_STEP;
pub use responses::Responses;
pub use spread::Spread;
pub use unexplained::Residual;
pub use unexplained::ResidualSpread;
pub use unexplained::Unexplained;
