//! Expected performance of applications that share a machine.
//!
//! First form: an application's performance is the product over resources of
//! its sensitivity curve at the pressure that the others cause together, held
//! within 100 points; [`performance`] is the one place that says so.

mod colocation;
mod isotonic;
mod lanes;
mod neighbours;
mod reading;
mod responses;

pub use colocation::Expected;
pub use colocation::performance;
pub use colocation::quick_exp;
pub use lanes::LANES;
pub use lanes::LaneSet;
pub use lanes::Lanes;
pub use lanes::core_private;
pub use lanes::lane;
pub use lanes::resource_id;
pub use neighbours::Gap;
pub use neighbours::NotKnown;
pub use neighbours::OnResource;
pub use neighbours::Prediction;
pub use neighbours::Subject;
pub use neighbours::co_location;
pub use responses::Curve;
pub use responses::GRID;
pub use responses::GRID_STEP;
pub use responses::Responses;
