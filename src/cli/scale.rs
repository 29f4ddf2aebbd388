//! Flags for performance by CPUs and by copies.

use super::duration::parse_duration;
use super::output::Destination;
use jostle_host::machine::Machine;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::experiment::session;
use jostle_measure::scaling::Plan;
use jostle_measure::scaling::Request;
use jostle_measure::scaling::Settings;
use jostle_measure::scaling::Sizes;
use jostle_measure::workload::TargetSpec;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::ScalingFacts;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Scaling")]
pub struct ScaleArgs {
    /// Also measure performance by size: cpus=1,2,4 changes the CPUs that the target
    /// may use, instances=1,2,4 runs so many copies of the command at once, each on a
    /// CPU of its own; may be given once for each. Size 1 is always measured
    #[arg(long, value_name = "WHAT=SIZES")]
    scale: Vec<String>,
    /// Time for each such curve [default: 15s; 5s with --quick]
    #[arg(long, value_parser = parse_duration, value_name = "TIME", requires = "scale")]
    scale_budget: Option<Duration>,
    /// Measure these curves only and add them to this profile of the same program
    #[arg(
        long,
        value_name = "FILE",
        requires = "scale",
        conflicts_with_all = ["resources", "resume", "together", "classify", "out", "budget"]
    )]
    pub scale_into: Option<PathBuf>,
}

const USUAL: Duration = Duration::from_secs(15);
const QUICK: Duration = Duration::from_secs(5);
const SHORTEST: Duration = Duration::from_secs(1);
/// Largest size that may be asked for.
const MOST: u32 = 4096;
/// Half-width at which a curve is known closely enough, as a fraction.
const HALF_WIDTH: f64 = 0.01;

impl ScaleArgs {
    /// Whether a curve was asked for.
    pub fn given(&self) -> bool {
        !self.scale.is_empty()
    }

    /// What to measure; `None` where nothing was asked for. `session` is the request
    /// for the rest of the profile.
    ///
    /// # Errors
    /// A request error naming the flag.
    pub fn request(
        &self,
        machine: &Machine,
        session: &session::Request,
        asked: bool,
        quick: bool,
    ) -> Result<Option<Request>> {
        let sizes = sizes(&self.scale)?;
        if sizes.is_empty() {
            return Ok(None);
        }
        let spec = &session.spec;
        if !sizes.instances.is_empty() {
            let wrong = |why: &str| Err(Error::request(format!("--scale instances: {why}")));
            if spec.is_attached() {
                return wrong(
                    "only a command can run several times at once; give it after --, or use \
                     --scale cpus for what runs already",
                );
            }
            if session.load.is_some() {
                return wrong("copies cannot share one --load; leave it out, or use --scale cpus");
            }
        }
        if let TargetSpec::Command(command) = spec
            && command.instances.get() > 1
        {
            return Err(Error::request(
                "--scale: leave --instances out; a curve starts from one copy",
            ));
        }
        let from = session.load.as_ref();
        let from = from.map_or(&[][..], |load| &load.spec.placement.cpus);
        let asked = asked.then_some(&session.target_cpus[..]);
        let budget = self
            .scale_budget
            .unwrap_or(if quick { QUICK } else { USUAL });
        if budget < SHORTEST {
            return Err(Error::request("--scale-budget: give 1s or more"));
        }
        Ok(Some(Request {
            spec: spec.clone(),
            plan: Plan::new(machine, spec, asked, from)?,
            sizes,
            metric: session.metric.clone(),
            options: session.metric_options.clone(),
            load: session.load.clone(),
            hooks: session.hooks.clone(),
            settings: Settings {
                budget,
                seed: session.settings.seed,
                half_width: HALF_WIDTH,
            },
            interrupt: session.interrupt.clone(),
        }))
    }

    /// The profile that curves are added to, and where it goes.
    ///
    /// # Errors
    /// A request error where it cannot be read or written, or is of another machine.
    pub fn existing(&self, machine: &Machine) -> Result<Option<(Profile, Destination)>> {
        let Some(path) = &self.scale_into else {
            return Ok(None);
        };
        let wrong = |why: String| Error::request(format!("--scale-into {}: {why}", path.display()));
        let profile = profile::load(path)
            .map_err(|error| Error::request(format!("--scale-into: {error}")))?;
        let (here, there) = (machine.fingerprint(), &profile.machine.fingerprint);
        if here != *there {
            return Err(wrong(format!(
                "is of machine {there}, and this is {here}; profile the program here"
            )));
        }
        Ok(Some((profile, Destination::named("--scale-into", path)?)))
    }
}

/// What would be done.
pub fn dry_run(request: &Request) -> String {
    let sizes = &request.sizes;
    let plan = &request.plan;
    let seconds = request.settings.budget.as_secs_f64();
    format!(
        "{}{}{seconds:.0} s for each curve, beyond the budget\n",
        plan.describe("cpus", &sizes.cpus),
        plan.describe("instances", &sizes.instances)
    )
}

/// Replaces the curves of `profile` that were measured anew.
pub fn add(profile: &mut Profile, measured: ScalingFacts) {
    let kept = profile.scaling.get_or_insert_default();
    if measured.cpus.is_some() {
        kept.cpus = measured.cpus;
    }
    if measured.instances.is_some() {
        kept.instances = measured.instances;
    }
}

fn sizes(given: &[String]) -> Result<Sizes> {
    let mut sizes = Sizes::default();
    for text in given {
        let wrong = |why: String| Error::request(format!("--scale {text}: {why}"));
        let Some((what, list)) = text.split_once('=') else {
            return Err(wrong("give cpus=1,2,4 or instances=1,2,4".into()));
        };
        let place = match what {
            "cpus" => &mut sizes.cpus,
            "instances" => &mut sizes.instances,
            other => {
                return Err(wrong(format!(
                    "`{other}` is no way to scale; give cpus=1,2,4 or instances=1,2,4"
                )));
            }
        };
        if !place.is_empty() {
            return Err(wrong(format!("{what} is given twice; write one list")));
        }
        for size in list.split(',') {
            let known = size.trim().parse().ok();
            let known = known.filter(|size| (1..=MOST).contains(size));
            place.push(known.ok_or_else(|| {
                wrong(format!(
                    "`{size}` is not a size; give numbers from 1 to {MOST}"
                ))
            })?);
        }
        place.push(1);
        place.sort_unstable();
        place.dedup();
        if place.len() < 2 {
            return Err(wrong("give a size other than 1".into()));
        }
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(given: &[&str]) -> Result<Sizes, String> {
        let given: Vec<String> = given.iter().map(|text| text.to_string()).collect();
        sizes(&given).map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_are_sorted_and_begin_at_one() {
        let sizes = parsed(&["cpus=4,2", "instances=1,2,2"]).unwrap();
        assert_eq!(sizes.cpus, [1, 2, 4]);
        assert_eq!(sizes.instances, [1, 2]);
        assert!(parsed(&[]).unwrap().is_empty());
    }

    #[test]
    fn slips_name_the_flag() {
        for (given, expected) in [
            ("cpus", "give cpus=1,2,4"),
            ("cores=2", "`cores` is no way to scale"),
            ("cpus=0,2", "`0` is not a size"),
            ("cpus=two", "`two` is not a size"),
            ("instances=", "`` is not a size"),
            ("cpus=1", "a size other than 1"),
        ] {
            let error = parsed(&[given]).unwrap_err();
            assert!(error.starts_with("--scale "), "{error}");
            assert!(error.contains(expected), "{error}");
        }
        let twice = parsed(&["cpus=2", "cpus=4"]).unwrap_err();
        assert!(twice.contains("given twice"), "{twice}");
    }
}
