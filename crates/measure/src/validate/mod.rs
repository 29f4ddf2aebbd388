//! Is the instrument true? Every source measured against itself and against
//! every other.
//!
//! Three questions, in the order they are answered:
//! - *linear*: does the pressure achieved follow the intensity asked for?
//! - *strong*: does 100 % reach the peak this machine was measured to deliver?
//! - *orthogonal*: what does a source cost the others, in the placement it
//!   would have beside a target? A profile of each resource's own demo, over all
//!   sources at 100 %; which of them costs it most says whether the victim points
//!   at its own resource.
//!
//! Repetitions of each answer *repeatable*.

mod displaced;
pub mod line;
mod linearity;
mod matrix;
mod report;
mod source;

pub use report::Bars;
pub use report::Effect;
pub use report::FORMAT;
pub use report::Level;
pub use report::Linearity;
pub use report::Missing;
pub use report::Selectivity;
pub use report::Size;
pub use report::Source;
pub use report::Status;
pub use report::Strength;
pub use report::Validation;
pub use report::Victim;

use crate::error::Error;
use crate::error::Result;
use jostle_host::inject::WorkerPlan;
use jostle_host::inject::plan::Limits;
use jostle_host::inject::slice;
use jostle_host::inject::stall::StallGuard;
use jostle_host::inject::worker::Slices;
use jostle_host::machine::Machine;
use jostle_host::machine::calibration::Calibration;
use jostle_profile::resource::Resource;
use jostle_profile::resource::SwitchCost;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

/// Longest a worker may take to make itself ready.
const READY: Duration = Duration::from_secs(60);

/// What to validate, and within which limits.
pub struct Request {
    pub resources: Vec<Resource>,
    /// Resources whose demos are the victims of the matrix.
    pub victims: Vec<Resource>,
    /// Whether each source is measured by itself.
    pub dials: bool,
    pub limits: Limits,
    pub budget: Duration,
    /// Fewer levels and shorter windows.
    pub quick: bool,
    pub seed: u64,
    /// What was calibrated on this machine, if it is to be used.
    pub calibration: Option<Calibration>,
    pub interrupt: Arc<AtomicBool>,
}

/// Share of the budget that linearity may take; with `--quick`.
const LINEARITY_SHARE: f64 = 0.15;
const QUICK_LINEARITY_SHARE: f64 = 0.2;
/// Memory that `memory-capacity` takes at 100 % while its dial is turned:
/// switches cost time in proportion.
const CAPACITY_BYTES: u64 = 1 << 30;
const QUICK_CAPACITY_BYTES: u64 = 256 << 20;

/// Told how far it is, 0–1, and what is being done.
pub type Progress<'a> = &'a mut dyn FnMut(f64, &str);

/// Measures everything; nothing that was started is left.
///
/// # Errors
/// Interrupted, or when nothing can be started here at all. What one source
/// lacks ends up in the report.
pub fn validate(
    machine: &Machine,
    request: &Request,
    progress: Progress<'_>,
) -> Result<Validation> {
    let began = Instant::now();
    let started = SystemTime::now();
    let target = machine
        .quietest_cpu()
        .filter(|cpu| request.limits.cpus.contains(cpu))
        .or(request.limits.cpus.last().copied())
        .ok_or_else(|| Error::environment("no CPU is allowed to this process"))?;
    let session = Session {
        machine,
        request,
        target,
        deadline: began + request.budget,
        began,
        guard: Mutex::new(StallGuard::new(request.limits.max_stall_percent)),
    };
    progress(0.0, "calibrating the slices");
    let slices = session.slices()?;
    let mut rng = ChaCha8Rng::seed_from_u64(request.seed);

    let mut sources = Vec::new();
    let count = request.resources.len().max(1) as f64;
    let linearity_share = match request.quick {
        true => QUICK_LINEARITY_SHARE,
        false => LINEARITY_SHARE,
    };
    for (index, &resource) in request.resources.iter().enumerate() {
        session.check()?;
        progress(
            linearity_share * index as f64 / count,
            &format!("{}: linearity", resource.id()),
        );
        let share = request.budget.mul_f64(linearity_share / count);
        sources.push(source::source(&session, resource, slices, share, &mut rng)?);
    }
    let matrix = matrix::measure(&session, &sources, slices, &mut rng, progress)?;
    Ok(Validation {
        format: FORMAT.to_string(),
        tool_version: env!("CARGO_PKG_VERSION").to_string(),
        recorded_at: jostle_host::sys::clock::rfc3339(started),
        duration_seconds: began.elapsed().as_secs_f64(),
        seed: request.seed,
        quick: request.quick,
        machine: machine.facts(),
        target_cpu: target,
        slice_period_seconds: slices.period_ns as f64 / 1e9,
        slice_share_percent: slices.share * 100.0,
        sources,
        effects: matrix.effects,
        missing: matrix.missing,
        victims: matrix.victims,
        bars: Bars::default(),
    })
}

/// What all parts of one validation share.
struct Session<'a> {
    machine: &'a Machine,
    request: &'a Request,
    /// The CPU a target would have.
    target: usize,
    began: Instant,
    deadline: Instant,
    guard: Mutex<StallGuard>,
}

impl Session<'_> {
    /// # Errors
    /// When the user interrupted, or the machine stalls for memory: everything
    /// ends then, and the sources with it.
    fn check(&self) -> Result<()> {
        if self.interrupted() {
            return Err(Error::Interrupted("; the sources are gone".into()));
        }
        match self.guard.lock().expect("no holder panics").look() {
            Some(reason) => Err(Error::environment(reason)),
            None => Ok(()),
        }
    }

    fn interrupted(&self) -> bool {
        self.request.interrupt.load(Relaxed)
    }

    /// Share of the budget that is spent, 0–1.
    fn spent(&self) -> f64 {
        (self.began.elapsed().as_secs_f64() / self.request.budget.as_secs_f64()).min(1.0)
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The slices that a profile would use here.
    fn slices(&self) -> Result<Slices> {
        let known = self.request.calibration.as_ref();
        if let Some(known) = known.and_then(|known| known.slices(Slices::DEFAULT_SHARE)) {
            let period = Duration::from_secs_f64(known.period_seconds);
            return Ok(Slices::usual(period));
        }
        let (cpu, limits) = (self.target, self.limits());
        slice::calibrate(self.machine, cpu, Slices::DEFAULT_SHARE, &limits)
            .map(|choice| Slices::usual(choice.period))
            .map_err(|reason| Error::environment(format!("calibrating the slices: {reason}")))
    }

    /// The limits, with the memory that is there at this moment.
    fn limits(&self) -> Limits {
        let mut limits = self.request.limits.clone();
        if let Ok(available) = jostle_host::machine::available_memory_bytes() {
            let may = available.saturating_sub(limits.memory_reserve_bytes);
            limits.memory_bytes = limits.memory_bytes.min(may);
        }
        limits
    }

    /// Keeps `memory-capacity` to a part that can be taken and given back
    /// often.
    fn bounded(&self, mut plan: WorkerPlan) -> WorkerPlan {
        if plan.spec.resource.row().switch_cost == SwitchCost::FillsMemory {
            let most = match self.request.quick {
                true => QUICK_CAPACITY_BYTES,
                false => CAPACITY_BYTES,
            };
            let bytes = &mut plan.config.environment.memory_headroom_bytes;
            *bytes = (*bytes).min(most);
        }
        plan
    }
}
