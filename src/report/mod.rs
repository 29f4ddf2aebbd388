//! What people read: tables, and the words around them.

pub mod placement;
mod style;
pub mod table;
mod text;

pub use style::Style;
pub use table::profile_table;
