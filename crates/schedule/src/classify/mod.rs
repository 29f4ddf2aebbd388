//! Classification: entries that were not measured, from those that were and
//! from other applications.

mod applications;
mod choose;
mod classifier;
mod error;
pub mod evaluate;
mod factors;
mod fill;
mod guess;
mod means;
mod mixture;
mod model;
mod neighbours;
mod select;
mod svd;
mod table;
mod trials;
mod truncated;

pub use applications::Applications;
pub use applications::Column;
pub use applications::Kind;
pub use choose::most_telling;
pub use classifier::Classifier;
pub use error::ClassifyError;
pub use error::TableError;
pub use fill::FEWEST_APPLICATIONS;
pub use fill::FEWEST_KNOWING;
pub use fill::FEWEST_MEASURED;
pub use fill::Filled;
pub use fill::Inferred;
pub use fill::LeftOut;
pub use fill::fill;
pub use guess::Guess;
pub use model::Method;
pub use select::Candidate;
pub use table::Cell;
pub use table::Known;
pub use table::Table;
pub use trials::Shown;
