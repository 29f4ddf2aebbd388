//! Who slows a program: candidates are paused for a few milliseconds at a time, in
//! random order, while the program's progress is read.
//!
//! | file | what it does |
//! |---|---|
//! | `session` | from a victim and candidates to a document |
//! | `suspects`, `protect` | who uses the machine, and who of them is never paused |
//! | `observe`, `shared` | what everybody does and both use, while all run |
//! | `bench`, `live` | the seam, and the real machine: pause one candidate and read the victim |
//! | `measure` | rounds of pauses within everybody's share of time |
//! | `estimate` | what the victim gains, by the estimate of measured pairs |
//! | `judge` | verdicts that allow for many candidates |

mod bench;
mod clocks;
mod estimate;
mod judge;
mod live;
mod measure;
mod observe;
mod protect;
mod session;
mod shared;
mod suspects;
mod warning;

pub use bench::Arm;
pub use bench::Bench;
pub use bench::BenchError;
pub use bench::Pause;
pub use bench::REACHES;
pub use bench::Window;
pub use measure::Measured;
pub use measure::Settings;
pub use measure::measure;
pub use protect::Protect;
pub use protect::name_of as process_name;
pub use session::Candidates;
pub use session::Listed;
pub use session::Request;
pub use session::list;
pub use session::run;
pub use session::shown;
pub use suspects::Suspect;
pub use warning::BlameWarning;
