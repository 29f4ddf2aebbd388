//! Admission control: who may be placed now, and where; asked before the policy.

mod arq;
mod control;
mod none;
mod table;
mod wrangler;

pub use crate::error::AdmissionError;
pub use crate::error::TrainingError;
pub use arq::Arq;
pub use arq::ArqOptions;
pub use control::Admission;
pub use control::Admitted;
pub use control::Waiter;
pub use none::NoAdmission;
pub use table::ADMISSIONS;
pub use table::AdmissionKind;
pub use table::AdmissionOptions;
pub use table::admission_kind;
pub use wrangler::Confidence;
pub use wrangler::Confusion;
pub use wrangler::GroupReport;
pub use wrangler::Share;
pub use wrangler::Wrangler;
pub use wrangler::WranglerOptions;
pub use wrangler::WranglerReport;
