//! The applications that jobs are drawn from, with their true behaviour.

mod archetype;
mod class;
mod member;
mod recorded;

pub use archetype::shared;
pub use class::CLASSES;
pub use class::ClassKind;
pub use class::class;
pub use member::Member;
pub use member::pool;
pub use member::tolerated;
pub use member::under_memory_load;
pub use recorded::load as load_profiles;
pub use recorded::member as recorded;

#[cfg(test)]
mod tests;
