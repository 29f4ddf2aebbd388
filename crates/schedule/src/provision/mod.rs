//! What to rent, and which jobs go where: HCloud (dissertation, chapter 8).
//!
//! Reserved instances are there all the time and paid for all the time;
//! on-demand ones cost more per hour, take a while to appear, and the smaller
//! ones share their machine with strangers. A [`Strategy`] says what is rented,
//! a [`Mapper`] which job goes to which side, a [`Retention`] how long an idle
//! instance stays, and [`Prices`] what it all costs.
//!
//! [`fit`] answers the question before: how many copies of a mix a machine holds.
//!
//! Everything here is arithmetic on what it is told; nothing is measured and
//! nothing is drawn but the coin of [`Mapping::Coin`].

pub mod fit;
mod mapping;
mod prices;
mod quality;
mod retention;
mod strategy;
mod waits;

pub use mapping::Dynamic;
pub use mapping::Mapper;
pub use mapping::Mapping;
pub use mapping::Situation;
pub use mapping::Target;
pub use mapping::mapping;
pub use prices::Bill;
pub use prices::Prices;
pub use prices::WEEKS_COMMITTED;
pub use quality::QualityHistory;
pub use quality::encoded;
pub use quality::quality_left;
pub use quality::quality_needed;
pub use retention::Retention;
pub use strategy::LARGEST;
pub use strategy::SIZES;
pub use strategy::Strategy;
pub use waits::Releases;
