//! The applications that jobs are drawn from, with their true behaviour.

mod archetype;
mod class;
mod member;
mod scores;

pub use archetype::shared;
pub use class::CLASSES;
pub use class::ClassKind;
pub use class::class;
pub use member::Member;
pub use member::load_profiles;
pub use member::pool;
pub use member::recorded;
pub use member::tolerated;
pub use member::under_memory_load;
pub use scores::Structure;
pub use scores::scored;
pub use scores::scores;

#[cfg(test)]
mod tests;
