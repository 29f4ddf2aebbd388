//! Targets that misbehave, and ends of every kind.

use crate::common::PATIENCE;
use crate::common::skip::have;
use crate::common::within;
use crate::support::PRINTER;
use crate::support::Place;
use crate::support::SHORT;
use crate::support::entry;
use crate::support::reason;
use jostle_host::sys::sched::run_first;
use jostle_host::sys::sched::run_in_turn;
use jostle_measure::workload::tree;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::thread::sleep;
use std::time::Duration;

const NUMBER: &[&str] = &["--metric", "stdout:n=([0-9]+)", "--kind", "rate"];

/// Options of a measurement that is still under way when something happens.
const LONG: &[&str] = &[
    "profile",
    "--demo",
    "l2",
    "--resources",
    "l1d,l2-capacity",
    "--budget",
    "30s",
    "--slice",
    "1ms",
    "--out",
    "p.json",
];

#[test]
fn a_target_that_fails_early_is_an_error_with_its_last_words() {
    let place = Place::beside_others();
    let ended = place.profile(&[], &["--", "sh", "-c", "echo no input >&2; exit 3"]);
    ended.says(3, &["sh exited with status 3", "no input"]);
    place.left(&[]);
    let target = ["--", "sh", "-c", "echo n=1; sleep 0.2; exit 4"];
    let advice = "if status 4 is no failure of sh, run it as: sh -c '… || true'";
    place
        .profile(NUMBER, &target)
        .says(3, &["status 4 and said nothing", advice]);
    place.left(&[]);
}

#[test]
#[ignore = "full tier: takes long"]
fn a_target_that_never_prints_is_an_error_with_advice() {
    let place = Place::beside_others();
    let ended = place.profile(NUMBER, &["--", "sleep", "1000"]);
    ended.says(2, &["printed nothing", "stdbuf"]);
    place.left(&[]);
}

/// Runs a measurement of `script` that must succeed and leave nothing.
fn measured(script: &str) {
    let place = Place::beside_others();
    let options = [NUMBER, &["--out", "p.json"]].concat();
    let ended = place.profile(&options, &["--", "sh", "-c", script]);
    ended.says(0, &["wrote p.json"]);
    let own = |line: &str| line.starts_with("n=");
    assert!(!ended.stdout.lines().any(own), "{}", ended.stdout);
    place.left(&["p.json"]);
    let profile = place.profile_file("p.json");
    let windows = profile["conditions"]["windows_kept"].as_u64().unwrap();
    assert!(windows > 0, "{profile}");
}

#[test]
fn children_of_the_target_end_with_it() {
    measured(&format!(
        "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &); {PRINTER}"
    ));
}

#[test]
fn a_target_that_ignores_sigterm_ends_too() {
    measured(&format!("trap '' TERM; {PRINTER}"));
}

#[test]
fn binary_output_is_no_trouble() {
    measured(
        "while :; do i=$((i+1)); head -c 300 /dev/urandom; \
         printf '\\000\\377\\033[31m\\nn=%d\\n' $i; sleep 0.01; done",
    );
}

#[test]
fn the_usual_end_leaves_the_profile_only() {
    let place = Place::beside_others();
    place
        .profile(&[], &["--demo", "quiet"])
        .says(0, &["wrote demo-quiet.profile.json"]);
    place.left(&["demo-quiet.profile.json"]);
}

#[test]
fn a_dry_run_starts_nothing() {
    let place = Place::beside_others();
    let target = ["--", "sh", "-c", "touch started; sleep 1000"];
    let ended = place.profile(&["--dry-run", "--out", "p.json"], &target);
    ended.says(0, &[]);
    for word in ["target on CPUs", "l1d", "cpu-time"] {
        assert!(ended.stdout.contains(word), "{}", ended.stdout);
    }
    place.left(&[]);
    let asked = [
        "run",
        "l1d",
        "--intensity",
        "5",
        "--for",
        "1000s",
        "--dry-run",
    ];
    place.run(&asked).says(0, &[]);
    place.left(&[]);
}

#[test]
fn an_interrupt_leaves_a_partial_profile() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let place = Place::beside_others();
        let mut running = place.start(LONG);
        place.process_with(&[" demo l2"]);
        sleep(Duration::from_millis(1500));
        running.signal(signal);
        assert_eq!(running.end(), 130, "{signal}");
        place.left(&["p.json"]);
        let profile = place.profile_file("p.json");
        assert_eq!(profile["partial"], true, "{profile}");
    }
}

#[test]
fn an_interrupt_while_preparing_leaves_nothing() {
    let place = Place::beside_others();
    // Without --slice: the period is calibrated first.
    let asked = ["profile", "--demo", "quiet", "--resources", "l1d"];
    let mut running = place.start(&asked);
    place.process_with(&["worker"]);
    running.signal(Signal::SIGINT);
    assert_eq!(running.end(), 130);
    place.left(&[]);
}

#[test]
fn an_interrupt_ends_a_lone_source() {
    let place = Place::beside_others();
    let mut running = place.start(&["run", "l1d", "--intensity", "5", "--for", "1000s"]);
    place.process_with(&["worker"]);
    running.signal(Signal::SIGINT);
    assert_eq!(running.end(), 130);
    place.left(&[]);
}

#[test]
fn a_killed_profiler_takes_everything_along() {
    let place = Place::beside_others();
    // One whose descendants leave its group.
    let script = format!("setsid sleep 1000 & {PRINTER}");
    let target = ["--", "sh", "-c", &script];
    let asked = [&LONG[..1], &LONG[3..], NUMBER, &target].concat();
    let mut running = place.start(&asked);
    // After the trial run, which has such a descendant too.
    place.process_with(&[" worker "]);
    place.process_with(&["sleep 1000"]);
    sleep(Duration::from_millis(1500));
    let before = place.processes();
    for word in [" worker ", " guard ", "sh -c"] {
        let there = before.iter().any(|(_, line)| line.contains(word));
        assert!(there, "no '{word}' in {before:?}");
    }
    running.signal(Signal::SIGKILL);
    assert_eq!(running.end(), -9);
    within(Duration::from_secs(3), "everything is gone", || {
        place.processes().is_empty()
    });
    place.left(&[]);
}

#[test]
fn a_killed_worker_costs_the_source_whose_turn_it_was() {
    // Points of a curve take most of the budget.
    let place = Place::alone();
    let mut asked = LONG.to_vec();
    // So near the line that all of the budget is played.
    asked.extend(["--halves", "tolerated", "--qos", "99"]);
    asked[6] = "8s";
    let mut running = place.start(&asked);
    place.process_with(&[" demo l2"]);
    let find = || place.process_with(&["worker", "\"resource\":\"l1d\""]);
    // Once before the sequence, once in its midst.
    for after in [100, 1700] {
        sleep(Duration::from_millis(after));
        kill(Pid::from_raw(find()), Signal::SIGKILL).unwrap();
    }
    assert_eq!(running.end(), 0);
    place.left(&["p.json"]);
    let profile = place.profile_file("p.json");
    assert_ne!(profile["partial"], true);
    let both = [entry(&profile, "l1d"), entry(&profile, "l2-capacity")];
    let lost = both.map(|entry| reason(entry).contains("worker"));
    assert!(!(lost[0] && lost[1]), "{both:?}");
    for entry in both {
        let points = entry["curve"].as_array().map_or(0, Vec::len);
        assert!(points > 0, "what was read before stands: {entry}");
    }
}

#[test]
#[ignore = "full tier: takes long"]
fn a_command_with_several_busy_threads_is_not_put_on_one_cpu() {
    let allowed = jostle_host::sys::cpus::affinity(0).unwrap().len();
    let place = Place::alone();
    let busy = "while :; do :; done";
    let script = format!("({busy}) & ({busy}) & {PRINTER}");
    let options = [NUMBER, &["--out", "p.json"]].concat();
    let target = ["--", "sh", "-c", &script];
    let ended = place.profile(&options, &target);
    ended.says(0, &["wrote p.json"]);
    // The plan is not the usual one, and standard output is the result alone.
    let announced = ended.stderr.contains("target on CPUs");
    assert_eq!(announced, allowed > 1, "{}", ended.stderr);
    assert!(!ended.stdout.contains("target on CPUs"), "{}", ended.stdout);
    let profile = place.profile_file("p.json");
    let conditions = &profile["conditions"];
    let cpus = conditions["target_cpus"].as_array().unwrap();
    assert_eq!(cpus.len(), allowed.min(2), "{conditions}");
    let because = conditions["target_cpus_because"].as_str().unwrap();
    assert!(because.contains("ran at once") || allowed == 1, "{because}");

    let first = cpus[0].to_string();
    let pinned = [&options[..], &["--cpus", &first]].concat();
    place.profile(&pinned, &target).says(0, &["wrote p.json"]);
    let profile = place.profile_file("p.json");
    assert_eq!(profile["conditions"]["target_cpus"][0], cpus[0]);
    assert!(
        profile["conditions"]["target_cpus"][1].is_null(),
        "{profile}"
    );
}

#[test]
fn what_a_trial_run_prints_is_not_shown() {
    let place = Place::beside_others();
    let options = [NUMBER, &["--show-output", "--out", "p.json"]].concat();
    let ended = place.profile(&options, &["--", "sh", "-c", PRINTER]);
    ended.says(0, &["wrote p.json"]);
    let first = ended.stderr.lines().filter(|line| *line == "n=1");
    assert_eq!(first.count(), 1, "{}", ended.stderr);
}

#[test]
fn an_attached_target_that_is_moved_meanwhile_is_said_and_left_so() {
    let allowed = jostle_host::sys::cpus::affinity(0).unwrap();
    let place = Place::beside_others();
    let mut target = place.start(&["demo", "l2"]);
    let pid = target.0.id() as i32;
    let attached = pid.to_string();
    let mut running = place.start(&[
        "profile",
        "--pid",
        &attached,
        "--resources",
        "cpu-time,l1d,l2-capacity,l2-bandwidth,tlb",
        "--budget",
        "6s",
        "--slice",
        "1ms",
        "--out",
        "p.json",
    ]);
    let kept = place.directory.path().join("p.json.partial");
    within(Duration::from_secs(50), "it measures", || kept.exists());
    assert_eq!(jostle_host::sys::cpus::affinity(pid).unwrap(), allowed);
    let last = allowed[allowed.len() - 1..].to_vec();
    jostle_host::sys::cpus::set_affinity(pid, &last).unwrap();
    assert_eq!(running.end(), 0);
    assert!(target.alive());
    assert_eq!(jostle_host::sys::cpus::affinity(pid).unwrap(), last);
    let profile = place.profile_file("p.json");
    let conditions = &profile["conditions"];
    let given = conditions["target_cpus"].as_array().unwrap();
    assert_eq!(given.len(), 1, "it has one thread: {conditions}");
    let warnings = conditions["warnings"].as_array().unwrap();
    let changed = warnings.iter();
    let changed = changed.filter(|warning| warning["code"] == "target-cpus-changed");
    assert_eq!(
        changed.count(),
        usize::from(allowed.len() > 1),
        "{warnings:?}"
    );
}

fn stopped(pid: i32) -> bool {
    tree::stat(pid).is_some_and(|stat| stat.stopped())
}

#[test]
fn ctrl_z_lets_the_target_go_on_and_the_measurement_waits() {
    let place = Place::alone();
    let demo = place.start(&["demo", "l2", "--for", "60"]);
    let target = demo.0.id() as i32;
    let asked = ["--pid", &target.to_string()];
    let options = ["--out", "p.json"];
    let asked = [&["profile"], SHORT, &asked, &options].concat();
    let mut running = place.start(&asked);
    let profiler = running.0.id() as i32;
    place.process_with(&[" worker "]);
    for round in 0..20 {
        sleep(Duration::from_millis(70));
        running.signal(Signal::SIGTSTP);
        // It may have all its verdicts before the last of them.
        let mut alive = true;
        within(PATIENCE, "it is stopped", || {
            alive = running.alive();
            !alive || stopped(profiler)
        });
        if !alive {
            assert!(round >= 5, "it ended after {round} stops");
            break;
        }
        let held = stopped(target);
        running.signal(Signal::SIGCONT);
        assert!(!held, "the target waits for a profiler that is stopped");
    }
    assert_eq!(running.end(), 0);
    assert!(!stopped(target));
    drop(demo);
    place.left(&["p.json"]);
}

#[test]
fn a_stopped_profiler_presses_on_nothing() {
    let place = Place::alone();
    let asked = ["run", "cpu-time", "--intensity", "100", "--for", "60s"];
    let running = place.start(&asked);
    let worker = place.process_with(&[" worker "]);
    let used = || tree::stat(worker).map_or(0, |stat| stat.used);
    let goes_on = || {
        let before = used();
        within(PATIENCE, "it presses", || used() > before + 20);
    };
    goes_on();
    running.signal(Signal::SIGSTOP);
    within(PATIENCE, "it rests", || {
        let before = used();
        sleep(Duration::from_millis(300));
        used() <= before + 1
    });
    running.signal(Signal::SIGCONT);
    goes_on();
}

#[test]
fn secrets_of_a_command_line_stay_out_of_the_profile() {
    let script = format!("{PRINTER} # PGPASSWORD=hunter2");
    let target = ["--", "sh", "-c", &script, "--password", "hunter2"];
    for (asked, length) in [(&[][..], 5), (&["--no-command"], 0)] {
        let place = Place::beside_others();
        let options = [NUMBER, &["--out", "p.json"], asked].concat();
        place.profile(&options, &target).says(0, &["wrote p.json"]);
        let text = std::fs::read_to_string(place.directory.path().join("p.json")).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        let command = place.profile_file("p.json")["workload"]["command"].clone();
        assert_eq!(command.as_array().map_or(0, Vec::len), length);
    }
}

/// Field 41 of `/proc/PID/task/TID/stat`: 0 for an ordinary thread, 1 for `SCHED_FIFO`.
fn own_policy() -> u32 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    let policy = after_name.split_whitespace().nth(41 - 3).unwrap();
    policy.parse().unwrap()
}

/// Sources that are parked for a floor do so for a moment.
#[test]
fn a_thread_runs_first_and_then_in_turn_again() {
    let own = nix::unistd::gettid().as_raw();
    if have("real-time", run_first(own)).is_none() {
        return assert_eq!(own_policy(), 0);
    }
    assert_eq!(own_policy(), 1);
    run_in_turn(own).unwrap();
    assert_eq!(own_policy(), 0);
}
