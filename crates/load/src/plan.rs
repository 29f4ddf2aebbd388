//! A load that is known before its server is there.

use crate::amount::LatencyTarget;
use crate::capacity::Capacity;
use crate::error::Result;
use crate::find_capacity::find_capacity;
use crate::generator::Generator;
use crate::spec::Alive;
use crate::spec::LoadSpec;
use crate::spec::Pace;
use jostle_profile::cpulist::format_list;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How fast, if that is known before the server is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drive {
    Pace(Pace),
    /// At this share (0–1) of the highest rate that meets the target; `known` where it
    /// was found before, requests per second.
    ShareOfCapacity {
        target: LatencyTarget,
        share: f64,
        known: Option<f64>,
    },
}

/// A load for a target that is yet to be started.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    pub spec: LoadSpec,
    pub drive: Drive,
}

impl LoadPlan {
    /// What would be sent where, on one line.
    pub fn describe(&self) -> String {
        let how = match self.drive {
            Drive::Pace(Pace::Closed) => "as fast as answers come".to_string(),
            Drive::Pace(Pace::Open(rate)) => format!("{rate:.0} requests/s"),
            Drive::ShareOfCapacity {
                target,
                share,
                known,
            } => format!(
                "{:.0} % of the highest rate that meets {target}, {}",
                share * 100.0,
                match known {
                    Some(rate) => format!("{rate:.0} requests/s"),
                    None => "searched first".into(),
                }
            ),
        };
        let cpus = match self.spec.placement.cpus.is_empty() {
            true => String::new(),
            false => format!(", from CPUs {}", format_list(&self.spec.placement.cpus)),
        };
        format!(
            "load: {how} to {} over {} connections{cpus}",
            self.spec.url, self.spec.connections
        )
    }

    /// The same traffic for a moment, without preparations: as fast as answers
    /// come where the rate is yet to be found.
    pub fn for_trial(&self) -> LoadPlan {
        let mut plan = self.clone();
        plan.spec.prefill = false;
        plan.spec.ramp = Duration::ZERO;
        if let Drive::ShareOfCapacity { .. } = self.drive {
            plan.drive = Drive::Pace(Pace::Closed);
        }
        plan
    }

    /// Whether each request waits for the answer to the one before.
    pub fn is_closed(&self) -> bool {
        self.drive == Drive::Pace(Pace::Closed)
    }

    /// Waits for the server, searches its capacity if that is needed, and sends.
    ///
    /// # Errors
    /// Those of [`Generator::start`] and [`find_capacity`].
    pub fn start(&self, interrupt: &AtomicBool, alive: &mut Alive<'_>) -> Result<Generator> {
        let mut generator = Generator::start(self.spec.clone(), interrupt, alive)?;
        match self.drive {
            Drive::Pace(pace) => generator.pace(pace),
            Drive::ShareOfCapacity {
                target,
                share,
                known,
            } => {
                let found = match known {
                    Some(rate) => Capacity::known(target, rate),
                    None => find_capacity(&mut generator, target, None, interrupt, &mut |_, _| ())?,
                };
                generator.pace(Pace::Open(found.rate_per_second * share));
                generator.share_percent = Some(share * 100.0);
                generator.capacity = Some(found);
            }
        }
        // The ramp is not part of what is measured.
        std::thread::sleep(self.spec.ramp);
        Ok(generator)
    }
}
