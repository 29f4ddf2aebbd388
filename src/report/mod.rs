//! What people read: tables, and the words around them.

mod calibration;
pub mod placement;
mod style;
pub mod table;
mod text;

pub use calibration::calibration_text;
pub use calibration::pressure;
pub use style::Style;
pub use table::profile_table;
