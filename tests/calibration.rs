//! Calibration: what is measured on made-up sources and planted knees, what is
//! kept, and what happens to files that must not be used.

use jostle::calibrate::Slot;
use jostle::calibrate::Stop;
use jostle::calibrate::Watch;
use jostle::calibrate::knees::Access;
use jostle::calibrate::knees::knees;
use jostle::calibrate::peaks;
use jostle::calibrate::press::Press;
use jostle::calibrate::reporter;
use jostle::inject::Snapshot;
use jostle::machine::calibration::Calibration;
use jostle::machine::saved;
use jostle::machine::saved::Saved;
use jostle::sys::control_page::Order;
use jostle_profile::resource::Resource;
use jostle_profile::resource::Timing;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use proptest::prelude::*;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;
use tempfile::TempDir;

const JOSTLE: &str = env!("CARGO_BIN_EXE_jostle");

// ── Knees ────────────────────────────────────────────────────────────────────

/// Access times over sizes from 4 KiB on, with a rise at each knee (size, time
/// behind it) that takes about an octave, each the least of `tries` readings to
/// which noise only adds.
fn planted(
    first_ns: f64,
    rises: &[(f64, f64)],
    noise: f64,
    tries: usize,
    seed: u64,
) -> Vec<Access> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..=108)
        .map(|step| {
            let size = 4096.0 * (f64::from(step) / 6.0).exp2();
            let mut log = first_ns.ln();
            let mut before = first_ns;
            for (at, after) in rises {
                let risen = 1.0 / (1.0 + (-8.0 * (size / at).log2()).exp());
                log += risen * (after / before).ln();
                before = *after;
            }
            let least = (0..tries)
                .map(|_| 1.0 + noise * rng.random::<f64>() + f64::from(rng.random::<f64>() < 0.1))
                .fold(f64::INFINITY, f64::min);
            Access {
                size: size as u64,
                nanoseconds: log.exp() * least,
            }
        })
        .collect()
}

proptest! {
    #[test]
    fn planted_knees_are_found_through_noise(
        l1 in 14.5f64..16.0, l2 in 3.5f64..6.0, llc in 3.5f64..6.0,
        times in (3.0f64..8.0, 8.0f64..20.0, 1.4f64..3.0),
        seed in any::<u64>(),
    ) {
        let (l1, l2, llc) = (l1.exp2(), (l1 + l2).exp2(), (l1 + l2 + llc).exp2());
        let (a, b, c) = (6.0 * times.0 / 3.0, 60.0 * times.1 / 8.0, 60.0 * times.1 / 8.0 * times.2);
        let curve = planted(4.0, &[(l1, a), (l2, b), (llc, c)], 0.08, 4, seed);
        let found = knees(&curve);
        prop_assert_eq!(found.len(), 3, "{:?}", found);
        for (knee, size) in found.iter().zip([l1, l2, llc]) {
            let apart = (knee.size as f64 / size).log2().abs();
            prop_assert!(apart < 0.35, "{} instead of {size}", knee.size);
        }
    }

    #[test]
    fn a_flat_curve_has_no_knee(noise in 0.0f64..0.1, seed in any::<u64>()) {
        prop_assert_eq!(knees(&planted(4.0, &[], noise, 4, seed)), []);
    }
}

#[test]
fn a_disturbance_that_passes_is_no_knee() {
    // What is larger cannot be faster: the bump is noise.
    let mut curve = planted(4.0, &[(48e3, 12.0)], 0.02, 4, 1);
    for access in &mut curve[60..75] {
        access.nanoseconds *= 3.0;
    }
    assert_eq!(knees(&curve).len(), 1);
    assert_eq!(knees(&[]), []);
    assert_eq!(knees(&curve[..1]), []);
}

// ── A made-up source ─────────────────────────────────────────────────────────

/// Time that passes only when somebody waits.
#[derive(Default)]
struct Virtual(Mutex<Duration>);

impl Watch for Virtual {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }
    fn pause(&self, length: Duration) -> Result<(), Stop> {
        *self.0.lock().unwrap() += length;
        self.check()
    }
    fn check(&self) -> Result<(), Stop> {
        match self.now() < Duration::from_secs(600) {
            true => Ok(()),
            false => Err(Stop::Interrupted),
        }
    }
    fn say(&self, _text: &str) -> Result<(), Stop> {
        self.check()
    }
}

/// Order and the moment it was given.
type State = Arc<Mutex<(Order, Duration)>>;

/// Delivers `rate` operations per second less what a neighbour takes, from
/// `settle` after the neighbour's last switch on.
struct Made<'a> {
    clock: &'a Virtual,
    own: State,
    neighbour: Option<State>,
    rate: f64,
    peak: f64,
    settle: Duration,
    noise: Mutex<ChaCha8Rng>,
}

impl<'a> Made<'a> {
    fn new(clock: &'a Virtual, neighbour: Option<State>, settle: Duration) -> Self {
        Made {
            clock,
            own: Arc::new(Mutex::new((Order::Park, Duration::ZERO))),
            neighbour,
            rate: 1e6,
            peak: 0.0,
            settle,
            noise: Mutex::new(ChaCha8Rng::seed_from_u64(7)),
        }
    }

    /// Operations per second at `at`.
    fn speed(&self, at: Duration) -> f64 {
        let Some(neighbour) = &self.neighbour else {
            return self.rate;
        };
        let (order, since) = *neighbour.lock().unwrap();
        let taken = order.intensity().unwrap_or(0.0) / 100.0 * 0.4;
        match at < since + self.settle {
            // Slower than either state while both find their caches again.
            true => self.rate * 0.3,
            false => self.rate * (1.0 - taken),
        }
    }
}

impl Press for Made<'_> {
    fn order(&mut self, order: Order, watch: &dyn Watch) -> Result<(), Stop> {
        *self.own.lock().unwrap() = (order, self.clock.now());
        watch.check()
    }
    fn reach_peak(&mut self, length: Duration, watch: &dyn Watch) -> Result<Option<f64>, Stop> {
        watch.pause(length)?;
        // A neighbour nobody sees takes up to a third of a try.
        let lost = self.noise.lock().unwrap().random::<f64>() / 3.0;
        self.peak = self.rate * (1.0 - lost);
        Ok(Some(self.peak))
    }
    fn set_peak(&mut self, operations_per_second: f64) {
        self.peak = operations_per_second;
    }
    fn full_scale(&self) -> Option<f64> {
        Some(self.peak)
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            at_ns: self.clock.now().as_nanos() as u64,
            operations: 0,
            active_ns: 0,
            held: 0,
            traffic: Default::default(),
        }
    }
    fn pressure(&self, _from: &Snapshot, _to: &Snapshot) -> f64 {
        let (order, _) = *self.own.lock().unwrap();
        self.peak * order.intensity().unwrap_or(0.0) / 100.0
    }
    fn probe(&self, from: &Snapshot, to: &Snapshot) -> Option<f64> {
        let steps = 200;
        let at = |step: u64| from.at_ns + (to.at_ns - from.at_ns) * step / steps;
        let sum: f64 = (0..steps)
            .map(|step| self.speed(Duration::from_nanos(at(step))))
            .sum();
        Some(sum / steps as f64)
    }
}

fn slot(timing: Timing, length: Duration, watch: &Virtual) -> Slot<'_> {
    Slot {
        timing,
        length,
        watch,
    }
}

#[test]
fn the_peak_is_the_best_of_its_tries_and_the_map_refers_to_it() {
    let clock = Virtual::default();
    let mut source = Made::new(&clock, None, Duration::ZERO);
    let timing = Resource::MemoryBandwidth.row().timing;
    let long = Duration::from_secs(2);
    let peak = peaks::peak(&mut source, slot(timing, long, &clock))
        .unwrap()
        .unwrap();
    assert!(peak > 0.9e6 && peak <= 1e6, "{peak}");
    assert_eq!(
        source.full_scale(),
        Some(peak),
        "the last try must not stand"
    );
    let map = peaks::map(&mut source, slot(timing, long, &clock)).unwrap();
    assert_eq!(map.len(), 5);
    for point in map {
        assert!(
            (point.achieved_percent - point.requested_percent).abs() < 1e-6,
            "{point:?}"
        );
    }
}

#[test]
fn a_second_copy_tells_loss_and_settle_time() {
    let clock = Virtual::default();
    let timing = Resource::LlcCapacity.row().timing;
    let mut second = Made::new(&clock, None, Duration::ZERO);
    let planted = Duration::from_millis(35);
    let mut probe = Made::new(&clock, Some(second.own.clone()), planted);
    let long = Duration::from_secs(3);
    let settle = reporter::settle(
        &mut probe,
        &mut second,
        false,
        Duration::from_millis(1),
        slot(timing, long, &clock),
    )
    .unwrap();
    assert!(planted <= settle && settle <= planted * 3, "{settle:?}");
    let curve =
        reporter::curve(&mut probe, &mut second, false, slot(timing, long, &clock)).unwrap();
    let performance: Vec<f64> = curve.iter().map(|point| point.performance).collect();
    for (found, expected) in performance.iter().zip([0.9, 0.8, 0.7, 0.6]) {
        assert!((found - expected).abs() < 0.01, "{performance:?}");
    }
    assert!(curve.iter().all(|point| point.windows >= 3));
}

#[test]
fn settled_means_for_good() {
    assert_eq!(reporter::settled_after(&[0.5, 0.99, 1.0]), 1);
    assert_eq!(reporter::settled_after(&[1.0, 0.5, 1.0]), 2);
    assert_eq!(reporter::settled_after(&[1.05, 0.95, 1.0]), 0);
    assert_eq!(reporter::settled_after(&[]), 0);
}

#[test]
fn less_time_means_fewer_repetitions_and_interruption_ends_it() {
    let spent = |length| {
        let clock = Virtual::default();
        let mut source = Made::new(&clock, None, Duration::ZERO);
        peaks::map(
            &mut source,
            slot(Resource::L1d.row().timing, length, &clock),
        )
        .map(|_| clock.now())
    };
    // Without a peak there is nothing that percent could refer to.
    let clock = Virtual::default();
    let mut source = Made::new(&clock, None, Duration::ZERO);
    source.set_peak(1.0);
    let short = {
        peaks::map(
            &mut source,
            slot(Resource::L1d.row().timing, Duration::ZERO, &clock),
        )
        .unwrap();
        clock.now()
    };
    assert!(spent(Duration::from_secs(100)).unwrap() > 2 * short);
    clock.pause(Duration::from_secs(600)).unwrap_err();
    let stopped = peaks::map(
        &mut source,
        slot(Resource::L1d.row().timing, Duration::ZERO, &clock),
    );
    assert_eq!(stopped.unwrap_err(), Stop::Interrupted);
}

// ── Files ────────────────────────────────────────────────────────────────────

const FINGERPRINT: &str = "0123456789abcdef";

fn fixture() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join("tests/fixtures/machine.json")).unwrap()
}

/// What is made of a file with this content.
fn loaded(content: &[u8]) -> Saved {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("machine.json");
    fs::write(&path, content).unwrap();
    saved::load_from(&path, FINGERPRINT)
}

#[test]
fn a_machine_file_survives_a_round_trip() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("machine.json");
    let mut json: Value = serde_json::from_str(&fixture()).unwrap();
    json["from a later version"] = 7.into();
    let Saved::Found(calibration) = loaded(json.to_string().as_bytes()) else {
        panic!("the fixture is good");
    };
    saved::save(&calibration, &path).unwrap();
    assert_eq!(
        saved::load_from(&path, FINGERPRINT),
        Saved::Found(calibration.clone())
    );
    let written: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(written, json, "nothing is lost, unknown keys included");
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        1,
        "no litter"
    );

    let wrong = Calibration {
        duration_seconds: f64::NAN,
        ..*calibration
    };
    let problem = saved::save(&wrong, &path).unwrap_err();
    assert!(problem.contains("duration_seconds"), "{problem}");
    let kept: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(kept, json, "the old file stays");
}

#[test]
fn files_that_must_not_be_used_are_ignored_with_the_reason() {
    let good = fixture();
    let with = |pointer: &str, value: Value| {
        let mut json: Value = serde_json::from_str(&good).unwrap();
        *json.pointer_mut(pointer).unwrap() = value;
        json.to_string().into_bytes()
    };
    let peak = "/resources/l2-bandwidth/alone/peak/operations_per_second";
    let cases = [
        (Vec::new(), "empty"),
        (good.as_bytes()[..good.len() / 2].to_vec(), "cut short"),
        (b"\xff\xfe\x00".to_vec(), "JSON"),
        (b"[]".to_vec(), "format"),
        (
            with("/format", "jostle-machine-file/2".into()),
            "newer jostle",
        ),
        (
            with("/format", "jostle-profile/1".into()),
            "not a jostle machine file",
        ),
        (
            with("/fingerprint", "fedcba9876543210".into()),
            "another machine",
        ),
        (with("/recorded_at", 5.into()), "recorded_at"),
        (with(peak, (-1.0).into()), "above 0"),
        (with(peak, "fast".into()), "l2-bandwidth"),
        (with("/slices/period_seconds", 0.0.into()), "period_seconds"),
        (
            with("/resources/l2-bandwidth/settle_seconds", 1e9.into()),
            "settle_seconds",
        ),
    ];
    for (content, words) in cases {
        let Saved::Ignored(warning) = loaded(&content) else {
            panic!("{words}: was not ignored");
        };
        assert!(warning.contains(words), "{words}: {warning}");
        assert!(warning.contains("machine.json"), "{warning}");
        assert!(warning.contains("jostle machine --calibrate"), "{warning}");
    }
    let directory = tempfile::tempdir().unwrap();
    let ignored = saved::load_from(directory.path(), FINGERPRINT);
    assert!(matches!(ignored, Saved::Ignored(reason) if reason.contains("regular file")));
    let missing = saved::load_from(&directory.path().join("none"), FINGERPRINT);
    assert!(matches!(missing, Saved::Nothing(reason) if reason.contains("--calibrate")));
}

proptest! {
    #[test]
    fn no_part_of_a_file_is_mistaken_for_the_whole(share in 0.0f64..1.0) {
        let good = fixture();
        let length = (good.trim_end().len() as f64 * share) as usize;
        prop_assert!(matches!(loaded(&good.as_bytes()[..length]), Saved::Ignored(_)));
    }
}

#[test]
fn only_what_fits_the_case_is_used() {
    let Saved::Found(known) = loaded(fixture().as_bytes()) else {
        panic!("the fixture is good");
    };
    let settings = known.resources["memory-bandwidth"].settings.clone();
    let peak = |workers, settings| known.peak("memory-bandwidth", workers, settings);
    let (one, two) = (peak(1, &settings).unwrap(), peak(2, &settings).unwrap());
    assert!(one < two);
    assert_eq!(peak(3, &settings), None);
    let mut other = settings.clone();
    other["access"] = "store".into();
    assert_eq!(peak(1, &other), None, "loads tell nothing of stores");
    assert_eq!(known.peak("interconnect", 1, &Value::Null), None);
    assert!(known.slices(0.2).is_some());
    assert!(
        known.slices(0.5).is_none(),
        "another share was not measured"
    );
}

// ── The program ──────────────────────────────────────────────────────────────

/// A place for state of its own, and the machine to itself.
struct Place {
    directory: TempDir,
    _alone: Flock<fs::File>,
}

impl Place {
    fn new() -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("one-at-a-time.lock");
        let file = fs::File::create(path).unwrap();
        Place {
            directory: tempfile::tempdir().unwrap(),
            _alone: Flock::lock(file, FlockArg::LockExclusive).expect("the lock can be had"),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(JOSTLE);
        command
            .args(arguments)
            .env("XDG_STATE_HOME", self.directory.path().join("state"))
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// stdout as JSON of a run that went well.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Puts a machine file for this machine where it is looked for.
    fn keep(&self, content: impl FnOnce(&str) -> String) -> PathBuf {
        let machine = self.json(&["machine", "--json"]);
        let fingerprint = machine["fingerprint"].as_str().unwrap();
        let directory = self.directory.path().join("state/jostle");
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(format!("machine-{fingerprint}.json"));
        fs::write(&path, content(fingerprint)).unwrap();
        path
    }

    fn state(&self) -> Vec<PathBuf> {
        match fs::read_dir(self.directory.path().join("state/jostle")) {
            Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
            Err(_) => Vec::new(),
        }
    }
}

fn said(output: &Output, code: i32, words: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "no '{word}' in: {stderr}");
    }
}

#[test]
fn calibrating_measures_every_resource_or_says_why_not_and_is_used() {
    let place = Place::new();
    let before = place.json(&["machine", "--json"]);
    let reason = before["calibration"]["unavailable"].as_str().unwrap();
    assert!(reason.contains("jostle machine --calibrate"), "{reason}");

    let machine = place.json(&["machine", "--calibrate", "--budget", "16s", "--json"]);
    let calibration = &machine["calibration"];
    assert_eq!(calibration["format"], "jostle-machine-file/1");
    assert_eq!(calibration["fingerprint"], machine["fingerprint"]);
    for resource in Resource::ALL {
        let entry = &calibration["resources"][resource.id()];
        for key in ["alone", "together", "settle_seconds", "reporter"] {
            let reading = &entry[key];
            let reason = reading["unavailable"].as_str();
            assert!(
                !reading.is_null() && reason.is_none_or(|reason| reason.len() > 10),
                "{}.{key}: {reading}",
                resource.id()
            );
        }
    }
    let held = &calibration["resources"]["l1d"]["alone"]["pressure"];
    assert_eq!(held.as_array().unwrap().len(), 5, "{held}");
    assert!(!calibration["sizes"].as_array().unwrap().is_empty());
    assert_eq!(place.state().len(), 1, "one file, no litter");

    let again = place.json(&["machine", "--json"]);
    assert_eq!(&again["calibration"], calibration, "what was kept is shown");
    let text = place.run(&["machine"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains(calibration["recorded_at"].as_str().unwrap()),
        "{text}"
    );

    // The first source that is held at a rate; the last ones may have had no time.
    let held_at_a_rate = |resource: &&Resource| {
        let alone = &calibration["resources"][resource.id()]["alone"];
        alone["peak"]["operations_per_second"].is_f64()
    };
    let rated = Resource::ALL.iter().find(held_at_a_rate).unwrap().id();
    let run = [
        "run",
        rated,
        "--intensity",
        "50",
        "--for",
        "100ms",
        "--json",
    ];
    assert_eq!(place.json(&run)["peak_calibrated"], true);
    let fresh = place.json(&[&run[..], &["--no-machine-file"]].concat());
    assert_eq!(fresh["peak_calibrated"], false);
    let profile = place.json(&[
        "profile",
        "--demo",
        "quiet",
        "--budget",
        "4s",
        "--halves",
        "tolerated",
        "--json",
        "--resources",
        rated,
    ]);
    let from = profile["conditions"]["peaks_from"].as_str().unwrap();
    assert!(from.starts_with("machine file of"), "{from}");

    // A peak nobody reaches: what is missing is said, with by how much.
    let mut doctored = calibration.clone();
    let alone = &mut doctored["resources"][rated]["alone"]["peak"];
    let peak = alone["operations_per_second"].as_f64().unwrap();
    alone["operations_per_second"] = (peak * 10.0).into();
    place.keep(|_| doctored.to_string());
    let short = place.json(&run);
    let doubt = short["doubt"].as_str().unwrap();
    assert!(doubt.contains("% less at full strength"), "{doubt}");
}

#[test]
fn an_interrupted_calibration_leaves_the_old_file() {
    let place = Place::new();
    let path = place.keep(|fingerprint| fixture().replace(FINGERPRINT, fingerprint));
    let old = fs::read(&path).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let mut child = place
            .command(&["machine", "--calibrate", "--budget", "30s"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        // The first worker shows that it is under way.
        while workers_of(child.id()).is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "ended by itself");
            assert!(Instant::now() < patience, "no worker was started");
            std::thread::sleep(Duration::from_millis(20));
        }
        let workers = workers_of(child.id());
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        if signal != Signal::SIGKILL {
            said(&output, 130, &["interrupted", "as it was"]);
            assert!(output.stdout.is_empty());
        }
        assert_eq!(fs::read(&path).unwrap(), old, "{signal}");
        assert_eq!(
            place.state(),
            std::slice::from_ref(&path),
            "{signal}: no litter"
        );
        while workers
            .iter()
            .any(|pid| Path::new(&format!("/proc/{pid}")).exists())
        {
            assert!(Instant::now() < patience, "{signal}: workers are left");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Processes whose parent is `pid`.
fn workers_of(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

#[test]
fn a_bad_machine_file_stops_nobody() {
    let place = Place::new();
    let path = place.keep(|_| fixture()[..1000].to_string());
    let name = path.file_name().unwrap().to_str().unwrap();
    let fix = "jostle machine --calibrate";
    let output = place.run(&["machine"]);
    said(&output, 0, &["warning", name, "cut short", fix]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Fingerprint") && text.contains(fix), "{text}");
    let run = ["run", "cpu-time", "--intensity", "10", "--for", "50ms"];
    said(&place.run(&run), 0, &["warning", name, fix]);
    place.keep(|_| fixture());
    said(&place.run(&["machine"]), 0, &["another machine", name, fix]);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let place = Place::new();
    said(
        &place.run(&["machine", "--budget", "9s"]),
        2,
        &["--calibrate"],
    );
    said(&place.run(&["machine", "--dry-run"]), 2, &["--calibrate"]);
    let scratch = place.run(&["machine", "--scratch", "."]);
    said(&scratch, 2, &["--scratch", "--calibrate"]);
    let hurried = place.run(&["machine", "--calibrate", "--budget", "1s"]);
    said(&hurried, 2, &["--budget"]);

    let homeless = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env_remove("XDG_STATE_HOME").env_remove("HOME");
        command.output().unwrap()
    };
    said(
        &homeless(&["machine", "--calibrate"]),
        3,
        &["XDG_STATE_HOME"],
    );
    said(&homeless(&["machine"]), 0, &[]);
    fs::write(place.directory.path().join("state"), "a file").unwrap();
    let nowhere = place.run(&["machine", "--calibrate"]);
    said(&nowhere, 3, &["XDG_STATE_HOME", "state"]);
}

#[test]
fn a_dry_run_tells_the_plan_and_keeps_nothing() {
    let place = Place::new();
    let output = place.run(&["machine", "--calibrate", "--dry-run"]);
    said(&output, 0, &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for resource in Resource::ALL {
        assert!(text.contains(resource.id()), "{}: {text}", resource.id());
    }
    assert!(text.contains("always left"), "{text}");
    assert_eq!(place.state(), [] as [PathBuf; 0]);
}
