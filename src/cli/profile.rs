//! `jostle profile`: the main job.

use super::counters;
use super::duration::parse_duration;
use super::hooks::HookArgs;
use super::interrupt;
use super::load::LoadArgs;
use super::metric::MetricArgs;
use super::output;
use super::progress::Bar;
use super::scale;
use super::scale::ScaleArgs;
use super::select;
use super::target::TargetArgs;
use super::target::file_stem;
use super::training;
use crate::report;
use crate::report::Style;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use jostle_host::inject::worker::Slices;
use jostle_host::machine::Machine;
use jostle_host::machine::calibration::Calibration;
use jostle_host::sys::only_one::OnlyOne;
use jostle_measure::console::note;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::experiment::floor;
use jostle_measure::experiment::floor::Floor;
use jostle_measure::experiment::resume;
use jostle_measure::experiment::run::Halves;
use jostle_measure::experiment::run::Settings;
use jostle_measure::experiment::session;
use jostle_measure::experiment::session::Request;
use jostle_measure::experiment::settings::MOST_TOGETHER;
use jostle_measure::metric::MetricOptions;
use jostle_measure::scaling;
use jostle_measure::workload::TargetSpec;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::resource::Resource;
use jostle_schedule::classify;
use jostle_schedule::classify::Method;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Groups of flags in the help.
const MEASUREMENT: &str = "Measurement";
const RESULT: &str = "Result";

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    metric: MetricArgs,
    #[command(flatten)]
    hooks: HookArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    scale: ScaleArgs,
    /// Performance that counts as kept, percent of undisturbed
    #[arg(help_heading = MEASUREMENT, long, default_value_t = 95.0, value_name = "PERCENT")]
    qos: f64,

    /// Resources to measure, separated by commas [default: all but those that cannot
    /// matter here]
    #[arg(help_heading = MEASUREMENT, long, value_delimiter = ',', value_name = "LIST")]
    resources: Vec<String>,
    /// Two resources whose sources press at once as well, to see whether they cost
    /// more together than each by itself says; may be repeated
    #[arg(help_heading = MEASUREMENT, long, value_name = "A,B", conflicts_with = "resume")]
    together: Vec<String>,
    /// Measure only the three resources that tell most about the others, and
    /// infer the rest from the profiles in this directory
    #[arg(help_heading = MEASUREMENT, long, value_name = "DIR", conflicts_with_all = ["resources", "resume", "together"])]
    classify: Option<PathBuf>,
    /// What to measure: how much interference the target tolerates, how much it
    /// causes, or both
    #[arg(help_heading = MEASUREMENT, long = "measure", alias = "halves", value_parser = halves(), value_name = "WHAT", default_value = "both")]
    halves: Halves,
    /// About 5 s, with wider intervals
    #[arg(help_heading = MEASUREMENT, long)]
    quick: bool,
    /// Time for everything, like 10m to publish the result
    /// [default: 30s; 5s with --quick]
    #[arg(help_heading = MEASUREMENT, long, value_parser = parse_duration, value_name = "TIME")]
    budget: Option<Duration>,
    /// Decides the order of the windows and the resampling
    #[arg(help_heading = MEASUREMENT, long, default_value_t = 1)]
    seed: u64,

    /// CPUs the sources may use [default: all allowed]
    #[arg(help_heading = MEASUREMENT, long, value_name = "LIST")]
    worker_cpus: Option<String>,
    /// Slice period of sources that share a CPU with the target
    /// [default: calibrated]
    #[arg(help_heading = MEASUREMENT, long, value_parser = parse_duration, value_name = "TIME")]
    slice: Option<Duration>,
    /// Share of the CPU such sources take, percent [default: 20; half of what
    /// --floor PERCENT leaves where the target runs already]
    #[arg(help_heading = MEASUREMENT, long, value_name = "PERCENT")]
    share: Option<f64>,
    /// Park every source and end when the target's performance falls below this:
    /// 90% (of its baseline), >1200 (at least, in the metric's unit), <5ms (at most)
    #[arg(help_heading = MEASUREMENT, long, value_name = "FLOOR", conflicts_with = "resume")]
    floor: Option<String>,
    /// Highest intensity of any source, percent; scores that reach it are bounds
    #[arg(help_heading = MEASUREMENT, long, value_name = "PERCENT", conflicts_with_all = ["resume", "together", "classify"])]
    max_intensity: Option<f64>,
    #[command(flatten)]
    limits: select::LimitArgs,
    /// Measure peaks, settle times and slices at the start, even where this
    /// machine was calibrated
    #[arg(help_heading = MEASUREMENT, long)]
    no_machine_file: bool,

    /// Further events to count beside the metric, as for `jostle counters`
    #[arg(help_heading = MEASUREMENT, long, value_name = "LIST")]
    events: Option<String>,
    /// Count nothing beside the metric
    #[arg(help_heading = MEASUREMENT, long, conflicts_with = "events")]
    no_counters: bool,

    /// Go on with a measurement that was cut short: its file, or the one ending
    /// in .partial that a killed one left. Give the same target again
    #[arg(help_heading = RESULT, long, value_name = "FILE", conflicts_with_all = ["resources", "quick", "seed", "qos", "share", "slice"])]
    resume: Option<PathBuf>,
    /// Where to write the profile [default: NAME.profile.json here]
    #[arg(help_heading = RESULT, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name of the workload in the profile [default: the target's]
    #[arg(help_heading = RESULT, long)]
    name: Option<String>,
    /// Label to keep in the profile, KEY=VALUE; may be repeated
    #[arg(help_heading = RESULT, long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// Leave the command line out of the profile; what looks like a password is always
    /// replaced by ***
    #[arg(help_heading = RESULT, long)]
    no_command: bool,
    /// Print the profile as JSON instead of the table
    #[arg(help_heading = RESULT, long)]
    json: bool,
    /// Print everything the profile says, and where the time went
    #[arg(help_heading = RESULT, long)]
    verbose: bool,
    /// Show what would be injected where, and stop
    #[arg(help_heading = RESULT, long)]
    dry_run: bool,
}

fn halves() -> impl TypedValueParser<Value = Halves> {
    PossibleValuesParser::new(["both", "tolerated", "caused"]).map(|word| match &*word {
        "tolerated" => Halves::Tolerated,
        "caused" => Halves::Caused,
        _ => Halves::Both,
    })
}

pub fn run(args: Args) -> Result<()> {
    match args.load.shares().len() {
        0 | 1 => one(&args, None).map(drop),
        _ => under_loads(args),
    }
}

/// Profiles the same target at every share of its capacity, lowest first, and prints
/// what it tolerates at each.
fn under_loads(args: Args) -> Result<()> {
    for (flag, given) in [
        ("--resume", args.resume.is_some()),
        ("--verbose", args.verbose),
        ("--scale", args.scale.given()),
    ] {
        if given {
            return Err(Error::request(format!(
                "{flag}: not with several --load-share; give one"
            )));
        }
    }
    let mut shares = args.load.shares().to_vec();
    shares.sort_unstable_by(f64::total_cmp);
    shares.dedup();
    let (base, mut known) = (args.out.clone(), None);
    let mut args = args;
    let mut profiles = Vec::new();
    for (at, share) in shares.iter().enumerate() {
        let suffix = format!("-{share}");
        note!(
            "load {} of {}: {share} % of the capacity",
            at + 1,
            shares.len()
        );
        args.load = args.load.at_share(*share, known);
        args.out = base.as_deref().map(|path| with_suffix(path, &suffix));
        let Some(profile) = one(&args, Some(&suffix))? else {
            // A dry run: the others differ in their rates alone.
            return Ok(());
        };
        let load = profile.metric.load.as_ref();
        known = known.or(load.and_then(|load| load.capacity_per_second));
        profiles.push(profile);
    }
    match args.json {
        true => output::json(&profiles),
        false => output::text(&report::loads_page(&profiles, Style::for_stdout())),
    }
}

/// `redis-30.json` of `redis.json`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ends = [".profile.json", ".json"];
    let ending = ends.into_iter().find(|ending| name.ends_with(ending));
    let ending = ending.unwrap_or("");
    let stem = &name[..name.len() - ending.len()];
    path.with_file_name(format!("{stem}{suffix}{ending}"))
}

/// Measures and writes one profile, and prints it unless it is one of several, whose
/// name has `suffix`; `None` for a dry run, and where only curves were added to one.
fn one(args: &Args, suffix: Option<&str>) -> Result<Option<Profile>> {
    let machine = Machine::detect();
    let interrupt = interrupt::flag()?;
    let mut request = request(args, &machine, interrupt.clone())?;
    if let Some(path) = &args.resume {
        let refuse = |error| Error::request(format!("--resume: {error}"));
        let past = profile::load(path).map_err(refuse)?;
        resume::adopt(&mut request, past, &machine, args.budget)?;
    }
    let training = match &args.classify {
        Some(directory) => Some(most_telling(directory, args, &machine, &mut request)?),
        None => None,
    };
    let asked = request.cpu_choice.asked;
    let scale = args.scale.request(&machine, &request, asked, args.quick)?;
    let existing = args.scale.existing(&machine)?;
    if request.settings.is_limited() && scale.is_some() {
        return Err(Error::request(
            "--floor and --max-intensity hold while sources run, not for copies of the target: \
             leave the --scale flags out",
        ));
    }
    if args.dry_run {
        let mut text = match existing {
            None => select::dry_run(&machine, &request),
            Some(_) => String::new(),
        };
        text += &scale.as_ref().map_or_else(String::new, scale::dry_run);
        output::text(&text)?;
        return Ok(None);
    }
    if let (Some(request), Some((profile, out))) = (&scale, existing) {
        scale_only(args, &machine, request, profile, &out)?;
        return Ok(None);
    }
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| file_stem(&request.spec));
    let name = name + suffix.unwrap_or("");
    let out = args.out.clone().or(args.resume.as_deref().map(finished));
    let out = output::Destination::check(out, &name)?;
    let checkpoint = out.beside(PARTIAL);
    request.checkpoint = Some(checkpoint.clone());

    let budget = request.settings.budget;
    let _others_wait = OnlyOne::join();
    let mut bar = Bar::new(budget);
    let mut profile = session::profile(&machine, request, &mut bar)?;
    bar.finish();
    if let Some(training) = &training {
        infer(&mut profile, training, args.seed);
    }
    if args.verbose {
        note!("{}", bar.account());
    }

    // What was measured until here is written whatever comes of the curves.
    let scaled = match scale.filter(|_| !interrupt::raised(&interrupt)) {
        Some(scale) => measure_scale(&machine, &scale, &mut profile),
        None => Ok(()),
    };

    let path = out.write(&profile)?;
    // Not before: it is all there is of the readings until then.
    let _ = std::fs::remove_file(checkpoint);
    match args.json {
        _ if suffix.is_some() => {}
        true => output::json(&profile)?,
        false => output::text(&page(&profile, args.verbose))?,
    }
    note!(
        "wrote {0}; jostle explain {0} tells the details",
        path.display()
    );
    scaled?;
    match interrupt::raised(&interrupt) {
        true => Err(Error::Interrupted(format!(
            "; what was learned until then is in {}, marked partial; --resume {0} with the same \
             target goes on from there",
            path.display()
        ))),
        false if let Some(said) = at_the_floor(&profile) => Err(Error::Gate(said.to_string())),
        false if profile.partial => Err(Error::environment(format!(
            "the measurement was cut short: {}",
            profile.conditions.doubts.last().map_or("", |doubt| doubt)
        ))),
        false => Ok(Some(profile)),
    }
}

fn page(profile: &Profile, everything: bool) -> String {
    match everything {
        true => report::profile_details(profile, Style::for_stdout()),
        false => report::profile_page(profile, Style::for_stdout()),
    }
}

/// What ended the measurement, where that was its floor.
fn at_the_floor(profile: &Profile) -> Option<&str> {
    let mut warnings = profile.conditions.warnings.iter();
    let reached = warnings.find(|warning| warning.code == "floor-reached")?;
    Some(&reached.message)
}

/// Adds the curves to a profile that there is.
fn scale_only(
    args: &Args,
    machine: &Machine,
    request: &scaling::Request,
    mut profile: Profile,
    out: &output::Destination,
) -> Result<()> {
    measure_scale(machine, request, &mut profile)?;
    if interrupt::raised(&request.interrupt) {
        return Err(Error::Interrupted("; the profile is as it was".into()));
    }
    let path = out.write(&profile)?;
    match args.json {
        true => output::json(&profile)?,
        false => output::text(&report::scaling_page(&profile, Style::for_stdout()))?,
    }
    note!("wrote {}", path.display());
    Ok(())
}

/// Measures the curves that were asked for.
fn measure_scale(
    machine: &Machine,
    request: &scaling::Request,
    profile: &mut Profile,
) -> Result<()> {
    let (facts, _) = scaling::run(machine, request, &mut |what| note!("{what}"))?;
    scale::add(profile, facts);
    Ok(())
}

/// Resources that are measured where the rest is inferred.
const MEASURED: usize = 3;

/// Leaves the most telling resources in `request`; the profiles to infer from.
fn most_telling(
    directory: &Path,
    args: &Args,
    machine: &Machine,
    request: &mut Request,
) -> Result<Vec<Profile>> {
    let mut all = training::read("--classify", directory, None)?;
    let fingerprint = machine.fingerprint();
    all.retain(|profile| profile.machine.fingerprint == fingerprint);
    let latency = args.metric.metric.as_deref();
    let latency = latency.is_some_and(|metric| metric.starts_with("latency"));
    let comparable = training::comparable(&all, latency);
    let chosen = classify::most_telling(&comparable, MEASURED, args.seed);
    request.resources = chosen.map_err(|error| {
        Error::request(format!(
            "--classify {}: of this machine ({fingerprint}): {error}",
            directory.display()
        ))
    })?;
    let ids: Vec<&str> = request.resources.iter().map(|one| one.id()).collect();
    note!("measuring {}; the rest will be inferred", ids.join(", "));
    Ok(all)
}

/// What was measured stays, whether the rest can be inferred or not.
fn infer(profile: &mut Profile, training: &[Profile], seed: u64) {
    let comparable = training::comparable(training, training::is_latency(profile));
    let filled = classify::fill(profile, &comparable, Method::Mixture, &[], false, seed);
    if let Err(error) = filled {
        warning!("--classify: nothing inferred: {error}");
    }
}

fn request(args: &Args, machine: &Machine, interrupt: Arc<AtomicBool>) -> Result<Request> {
    let worker_cpus = args.worker_cpus.as_deref();
    let mut limits = args
        .limits
        .resolve(machine, worker_cpus.map(|list| ("--worker-cpus", list)))?;
    let spec = args.target.spec(&limits)?;
    let mut target = args.target.cpus(machine, &spec, args.load.given())?;
    let load = args.load.plan(machine, &target.cpus, args.seed)?;
    if let Some(plan) = &load {
        target.choice.leave(&plan.spec.placement.cpus);
    }
    if let (Some(plan), None) = (&load, worker_cpus) {
        let reserved = &plan.spec.placement.reserved;
        limits.cpus.retain(|cpu| !reserved.contains(cpu));
    }
    let preset = match args.quick {
        true => Settings::quick(),
        false => Settings::default(),
    };
    let resources = select::resources(&args.resources)?;
    let settings = Settings {
        budget: args.budget.unwrap_or(preset.budget),
        seed: args.seed,
        qos: select::percent("--qos", args.qos, 1.0, 99.9)? / 100.0,
        max_intensity: match args.max_intensity {
            Some(percent) => select::percent("--max-intensity", percent, 1.0, 100.0)?,
            None => 100.0,
        },
        floor: floor(args)?,
        halves: args.halves,
        together: together(&args.together, &resources)?,
        ..preset
    };
    if settings.budget < Duration::from_secs(2) {
        return Err(Error::request(
            "--budget: less than 2 s is not enough to measure anything; 5s is what --quick takes",
        ));
    }
    if let Some(slice) = args.slice
        && !(Duration::from_micros(50)..=Duration::from_secs(1)).contains(&slice)
    {
        return Err(Error::request("--slice: give a period between 50us and 1s"));
    }
    let (calibration, calibration_ignored) = select::calibration(machine, args.no_machine_file);
    limits.llc_bytes = calibration.as_ref().and_then(Calibration::llc_bytes);
    let share = share(args, &spec, settings.floor)?;
    Ok(Request {
        spec,
        name: args.name.clone(),
        labels: labels(&args.labels)?,
        keep_command: !args.no_command,
        resources,
        any_resources: args.resources.is_empty(),
        target_cpus: target.cpus,
        cpu_choice: target.choice,
        limits,
        slice_period: args.slice,
        share,
        metric: args.metric.metric.clone(),
        metric_options: MetricOptions {
            choice: settings.budget / CHOICE_PARTS,
            may_press: !settings.is_limited(),
            ..args.metric.options()?
        },
        load,
        interrupt,
        counters: match args.no_counters {
            true => None,
            false => Some(counters::options(args.events.as_deref())?),
        },
        calibration,
        calibration_ignored,
        hooks: args.hooks.hooks(args.target.show_output),
        settings,
        past: None,
        checkpoint: None,
    })
}

/// `--floor`, where it can be kept.
fn floor(args: &Args) -> Result<Option<Floor>> {
    let Some(text) = &args.floor else {
        return Ok(None);
    };
    if args.halves == Halves::Caused {
        return Err(Error::request(
            "--floor: what the target causes is measured by stopping it, which no floor allows; \
             leave --measure caused out",
        ));
    }
    let wrong = |problem| Error::request(format!("--floor '{text}': {problem}"));
    floor::parse(text).map(Some).map_err(wrong)
}

/// Share of the CPU that sources take from the target, 0–1.
fn share(args: &Args, spec: &TargetSpec, floor: Option<Floor>) -> Result<f64> {
    if let Some(percent) = args.share {
        return Ok(select::percent("--share", percent, 1.0, 90.0)? / 100.0);
    }
    let usual = Slices::DEFAULT_SHARE;
    Ok(match floor {
        Some(Floor::OfBaseline(kept)) if spec.is_attached() => {
            usual.min((1.0 - kept) / 2.0).max(0.01)
        }
        _ => usual,
    })
}

/// The pairs of `--together`, each of two different ones of `resources`.
fn together(
    given: &[String],
    resources: &[Resource],
) -> Result<[Option<[&'static str; 2]>; MOST_TOGETHER]> {
    let wrong = |text: &str| Error::request(format!("--together: {text}"));
    if given.len() > MOST_TOGETHER {
        return Err(wrong(&format!("give at most {MOST_TOGETHER} pairs")));
    }
    let mut pairs = [None; MOST_TOGETHER];
    for (pair, text) in pairs.iter_mut().zip(given) {
        let ids: Vec<&str> = text.split(',').map(str::trim).collect();
        let [one, other] = ids[..] else {
            return Err(wrong(&format!(
                "`{text}`: give two resources, like l2-capacity,memory-bandwidth"
            )));
        };
        let known = |id: &str| -> Result<Resource> {
            let resource: Resource = id.parse().map_err(|error| wrong(&format!("{error}")))?;
            match resources.contains(&resource) {
                true => Ok(resource),
                false => Err(wrong(&format!("{id} is not among the --resources"))),
            }
        };
        let (one, other) = (known(one)?, known(other)?);
        if one == other {
            return Err(wrong(&format!("`{text}`: give two different resources")));
        }
        *pair = Some([one.id(), other.id()]);
    }
    Ok(pairs)
}

/// Choosing the metric may take one part in this many of the budget.
const CHOICE_PARTS: u32 = 3;

/// Ending of the file that a measurement keeps its readings in meanwhile.
const PARTIAL: &str = ".partial";

/// Where the profile goes whose readings were kept in `path`.
fn finished(path: &Path) -> PathBuf {
    let text = path.as_os_str().as_encoded_bytes();
    match text.strip_suffix(PARTIAL.as_bytes()).map(str::from_utf8) {
        Some(Ok(name)) if !name.is_empty() => PathBuf::from(name),
        _ => path.to_path_buf(),
    }
}

fn labels(given: &[String]) -> Result<BTreeMap<String, String>> {
    let parse = |label: &String| select::key_value("--label", label, "input=small");
    given.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_goes_before_the_ending() {
        for (name, expected) in [
            ("redis.json", "redis-30.json"),
            ("a/redis.profile.json", "a/redis-30.profile.json"),
            ("v1.2.json", "v1.2-30.json"),
            ("redis", "redis-30"),
        ] {
            let found = with_suffix(Path::new(name), "-30");
            assert_eq!(found, Path::new(expected));
        }
    }
}
