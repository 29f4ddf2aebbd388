//! What people read: tables, and the words around them.

pub mod placement;
pub mod table;
mod text;

pub use table::Style;
pub use table::profile_table;
