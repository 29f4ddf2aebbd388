//! Two profiles held against each other: for a terminal, a pull request, and
//! the test reports of a CI system.

mod builds;
mod junit;
mod markdown;
mod screen;
mod words;

pub use builds::builds_junit;
pub use builds::builds_markdown;
pub use builds::builds_page;
pub use junit::comparison_junit;
pub use markdown::comparison_markdown;
pub use screen::comparison_page;
