//! What people read: tables, and the words around them.

mod calibration;
pub mod classification;
pub mod cloud;
pub mod consolidation;
pub mod evaluation;
mod gauges;
mod html;
mod mechanism;
mod pairs;
pub mod placement;
pub mod prediction;
mod scaling;
pub mod simulation;
mod style;
mod switches;
pub mod table;
mod text;
mod together;
mod used;
mod validation;

pub use calibration::calibration_text;
pub use calibration::pressure;
pub use gauges::gauges_head;
pub use gauges::gauges_line;
pub use gauges::gauges_sum;
pub use html::validation as validation_html;
pub use pairs::pairs_table;
pub use scaling::scaling_page;
pub use style::Style;
pub use switches::switch_page;
pub use table::profile_table;
pub use text::mode;
pub use text::wrap;
pub use validation::page as validation_page;
