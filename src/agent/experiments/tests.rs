//! Days in milliseconds: a made-up clock, node and children.

use super::fake;
use super::fake::Act;
use super::fake::Children;
use super::*;
use crate::agent::config::Config;
use jostle_profile::Profile;
use jostle_profile::node::DriftState;
use jostle_profile::node::Performance;
use jostle_profile::node::ProfileSummary;
use std::path::Path;

const MINUTE: Duration = Duration::from_secs(60);

fn config(profiling: &str, rest: &str) -> Config {
    let text = format!(
        "[profiling]\nenabled = true\n{profiling}\n{rest}\n[[workload]]\n\
         match = {{ cgroup = \"/*\" }}\nprofile = true\nmetric = \"progress\"\n"
    );
    Config::parse(&text).unwrap()
}

struct Bed {
    directory: tempfile::TempDir,
    children: Children,
    store: Arc<Store>,
    board: Arc<Board>,
    experiments: Experiments,
    now: SystemTime,
}

impl Bed {
    fn new(config: &Config, acts: impl IntoIterator<Item = Act>) -> Bed {
        let directory = tempfile::tempdir().unwrap();
        let children = Children::new(acts);
        let store = Store::open(&directory.path().join("profiles"), 5).unwrap();
        let (store, board) = (Arc::new(store), Arc::new(Board::default()));
        let experiments = open(directory.path(), config, &children, &store, &board);
        Bed {
            experiments,
            directory,
            children,
            store,
            board,
            // Some midnight, UTC.
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(20_000 * 86_400),
        }
    }

    fn restart(&mut self, config: &Config) {
        let path = self.directory.path();
        // As after a power failure: nothing is ended in order.
        let fresh = open(path, config, &self.children, &self.store, &self.board);
        let old = std::mem::replace(&mut self.experiments, fresh);
        std::mem::forget(old);
        self.children.seen.lock().unwrap().running = 0;
    }

    /// One refresh, a minute later.
    fn tick(&mut self, workloads: Vec<WorkloadState>) -> NodeState {
        self.now += MINUTE;
        let mut state = fake::node(workloads);
        for workload in &mut state.workloads {
            if let Some(profile) = self.store.get(&workload.name) {
                let scores = profile.resources.iter();
                let scores = scores.filter_map(|(id, it)| Some((id.clone(), it.tolerated?.score)));
                workload.profile = Reading::Value(ProfileSummary {
                    name: workload.name.clone(),
                    recorded_at: profile.conditions.recorded_at.clone(),
                    of_this_machine: profile.machine.fingerprint == "here",
                    tolerated: scores.collect(),
                    caused: BTreeMap::new(),
                    used_percent: BTreeMap::new(),
                });
            }
        }
        self.experiments.tick(self.now, &mut state);
        state
    }

    fn launched(&self) -> Vec<Vec<String>> {
        self.children.seen.lock().unwrap().launched.clone()
    }

    fn events(&self, kind: EventKind) -> Vec<String> {
        let events = self.board.events(0).into_iter();
        let events = events.filter(|event| event.kind == kind);
        events.map(|event| event.text).collect()
    }
}

fn open(
    path: &Path,
    config: &Config,
    children: &Children,
    store: &Arc<Store>,
    board: &Arc<Board>,
) -> Experiments {
    let lock = path.join(format!(
        "lock-{}",
        children.seen.lock().unwrap().launched.len()
    ));
    let launcher = Box::new(children.clone());
    let (store, board) = (store.clone(), board.clone());
    Experiments::with(config, store, board, path.join("state"), launcher, lock)
}

fn good(ceiling: f64, looks: u32) -> Act {
    let mut profile = fake::profile("db", &[("l2-capacity", ceiling)]);
    profile.conditions.max_intensity_percent = Some(ceiling);
    Act::Write(Box::new(profile), 0, looks)
}

fn floored() -> Act {
    let mut profile = fake::profile("db", &[]);
    profile.partial = true;
    profile.conditions.floor = Some(fake::reached("cpu-time"));
    Act::Write(Box::new(profile), 1, 1)
}

fn ceilings(bed: &Bed) -> Vec<f64> {
    let of = |arguments: &Vec<String>| -> f64 {
        let at = arguments.iter().position(|it| it == "--max-intensity");
        arguments[at.unwrap() + 1].parse().unwrap()
    };
    bed.launched().iter().map(of).collect()
}

fn db() -> WorkloadState {
    fake::workload("db")
}

#[test]
fn the_ceiling_rises_while_the_floor_is_kept_and_falls_when_it_is_reached() {
    let config = config("every = \"1h\"", "");
    let acts = [good(12.5, 1), good(25.0, 1), floored(), good(12.5, 1)];
    let mut bed = Bed::new(&config, acts);
    for _ in 0..600 {
        bed.tick(vec![db()]);
    }
    let ceilings = ceilings(&bed);
    assert_eq!(ceilings[..3], [12.5, 25.0, 50.0], "{ceilings:?}");
    // What was learned below the floor stays; nobody tries again without a reason.
    assert_eq!(ceilings.len(), 3);
    assert_eq!(bed.events(EventKind::FloorReached).len(), 1);
    let kept = bed.store.get("db").unwrap();
    assert_eq!(kept.resources["l2-capacity"].tolerated.unwrap().score, 25.0);
    // It does something else now: the next one is gentler.
    let mut other = db();
    other.drift = Reading::Value(DriftState {
        drifted: true,
        reason: "CPU time changed".into(),
        windows: 9,
    });
    for _ in 0..4 {
        bed.tick(vec![other.clone()]);
    }
    assert_eq!(self::ceilings(&bed)[3], 25.0);
    let history = bed.directory.path().join("profiles/history/db");
    assert!(history.is_dir());
}

#[test]
fn the_budget_is_kept_over_days_and_never_do_two_run() {
    // 60 s of 86,400 are 0.07 %.
    let limits = "every = \"1min\"\nbudget = \"60s\"\nshare_percent = 0.5";
    let config = config(limits, "");
    // Always another reason: what was stored is of another machine.
    let mut elsewhere = fake::profile("x", &[("l2-capacity", 5.0)]);
    elsewhere.machine.fingerprint = "elsewhere".into();
    let mut bed = Bed::new(&config, [Act::Write(Box::new(elsewhere), 0, 1)]);
    let mut busy = 0;
    for _ in 0..3 * 24 * 60 {
        let state = bed.tick(vec![fake::workload("a"), fake::workload("b")]);
        busy += usize::from(state.experiment.is_some());
    }
    let seen = bed.children.seen.lock().unwrap();
    assert_eq!(seen.most_running, 1);
    // 0.5 % of three days for each of two workloads, in whole minutes.
    let allowed = (0.005 * 3.0 * 24.0 * 60.0 * 2.0) as usize;
    assert!(busy <= allowed && busy > allowed / 3, "{busy} of {allowed}");
    let of = |name: &str| {
        let target = format!("/{name}");
        seen.launched
            .iter()
            .filter(|it| it.contains(&target))
            .count()
    };
    assert!(of("a").abs_diff(of("b")) <= 1, "{} {}", of("a"), of("b"));
}

#[test]
fn hours_and_utilization_are_kept() {
    let minute = local_minute(SystemTime::UNIX_EPOCH + Duration::from_secs(20_000 * 86_400));
    let zero = minute.unwrap();
    // Two hours from now, for one hour.
    let at = |minutes: u32| format!("{}:{:02}", (zero + minutes) / 60 % 24, zero % 60);
    let hours = format!("hours = [\"{}-{}\"]", at(120), at(180));
    let mut bed = Bed::new(&config(&hours, ""), [good(12.5, 1)]);
    for _ in 0..118 {
        bed.tick(vec![db()]);
    }
    assert_eq!(bed.launched().len(), 0);
    for _ in 0..10 {
        bed.tick(vec![db()]);
    }
    assert_eq!(bed.launched().len(), 1);

    let mut busy = Bed::new(&config("below_cpu_percent = 20.0", ""), [good(12.5, 1)]);
    for _ in 0..10 {
        // 100 % of one of four CPUs.
        busy.tick(vec![db()]);
    }
    assert_eq!(busy.launched().len(), 0);
}

#[test]
fn nothing_is_stressed_that_was_not_allowed() {
    let mut off = config("", "");
    off.profiling.enabled = false;
    let mut bed = Bed::new(&off, [good(12.5, 1)]);
    bed.tick(vec![missing(db())]);
    assert_eq!(bed.launched().len(), 0);
    let mut bed = Bed::new(&config("", ""), [good(12.5, 1)]);
    let mut forbidden = db();
    forbidden.may_be_profiled = false;
    for _ in 0..10 {
        bed.tick(vec![missing(forbidden.clone())]);
    }
    assert_eq!(bed.launched().len(), 0);
}

#[test]
fn a_restart_in_the_middle_forgets_nothing() {
    let config = config("", "");
    let mut bed = Bed::new(&config, [good(12.5, 1000), good(12.5, 1)]);
    bed.tick(vec![db()]);
    let state = bed.tick(vec![db()]);
    let running = state.experiment.unwrap();
    assert_eq!(running.workload, "db");
    assert_eq!(running.max_intensity_percent, Some(12.5));
    assert!(running.progress.starts_with("look"));
    bed.restart(&config);
    for _ in 0..60 {
        assert_eq!(bed.tick(vec![db()]).experiment, None);
    }
    // Once a day, and it was begun today.
    assert_eq!(bed.launched().len(), 1);
    for _ in 0..24 * 60 {
        bed.tick(vec![db()]);
    }
    assert_eq!(bed.launched().len(), 2);
}

#[test]
fn a_child_that_fails_is_tried_again_later_and_its_words_are_kept() {
    let config = config("", "");
    let mut bed = Bed::new(&config, [Act::Fail(3)]);
    for _ in 0..50 {
        bed.tick(vec![db()]);
    }
    assert_eq!(bed.launched().len(), 1);
    let said = bed.events(EventKind::ExperimentEnded);
    assert!(
        said[0].contains("exit code 3") && said[0].contains("look"),
        "{said:?}"
    );
    for _ in 0..50 {
        bed.tick(vec![db()]);
    }
    assert_eq!(bed.launched().len(), 2);
    assert!(bed.store.get("db").is_none());
}

#[test]
fn a_child_that_hangs_is_ended_and_then_killed() {
    let config = config("budget = \"90s\"", "");
    let mut bed = Bed::new(&config, [Act::Hang { heeds: false }]);
    for _ in 0..6 {
        bed.tick(vec![db()]);
    }
    {
        let seen = bed.children.seen.lock().unwrap();
        assert_eq!((seen.asked, seen.killed, seen.running), (1, 1, 0));
    }
    let said = bed.events(EventKind::ExperimentEnded);
    assert!(said[0].contains("did not end"), "{said:?}");
}

#[test]
fn a_workload_that_goes_takes_its_experiment_along() {
    let config = config("budget = \"10m\"", "");
    let mut bed = Bed::new(&config, [Act::Hang { heeds: true }]);
    bed.tick(vec![db()]);
    bed.tick(vec![]);
    let state = bed.tick(vec![]);
    assert_eq!(state.experiment, None);
    let said = bed.events(EventKind::ExperimentEnded);
    assert!(said[0].contains("the workload is gone"), "{said:?}");
    let seen = bed.children.seen.lock().unwrap();
    assert_eq!((seen.asked, seen.killed), (1, 0));
}

#[test]
fn stopping_ends_the_child() {
    let config = config("", "");
    let mut bed = Bed::new(&config, [Act::Hang { heeds: true }]);
    bed.tick(vec![db()]);
    bed.experiments.stop();
    let seen = bed.children.seen.lock().unwrap();
    assert_eq!((seen.asked, seen.killed, seen.running), (1, 0, 0));
}

fn missing(mut workload: WorkloadState) -> WorkloadState {
    workload.performance = Reading::Value(Performance {
        metric: "progress".into(),
        unit: "queries per second".into(),
        value: 50.0,
        baseline: Reading::Value(100.0),
        relative: Reading::Value(0.5),
        qos_threshold: 0.95,
        meets_qos: Reading::Value(false),
    });
    workload
}

#[test]
fn who_misses_its_qos_has_those_paused_that_may_be() {
    let config = config(
        "hours = [\"0:00-0:01\"]",
        "[blame]\nenabled = true\nprotect = [\"sshd\"]",
    );
    let mut bed = Bed::new(&config, [Act::Fail(3)]);
    let (mut batch, mut inner) = (fake::workload("batch"), fake::workload("db/inner"));
    batch.may_be_paused = true;
    inner.may_be_paused = true;
    let all = || {
        vec![
            missing(db()),
            batch.clone(),
            inner.clone(),
            fake::workload("other"),
        ]
    };
    for _ in 0..20 {
        bed.tick(all());
    }
    // Every 15 minutes, after it lasted for three refreshes.
    let launched = bed.launched();
    assert_eq!(launched.len(), 2, "{launched:?}");
    let line = launched[0].join(" ");
    assert!(
        line.starts_with("blame --cgroup /db --metric progress"),
        "{line}"
    );
    assert!(line.contains("--candidate cgroup:/batch"), "{line}");
    assert!(line.contains("--protect sshd --"), "{line}");
    assert_eq!(line.matches("--candidate").count(), 1, "{line}");
    for _ in 0..20 {
        bed.tick(vec![db(), batch.clone()]);
    }
    assert_eq!(bed.launched().len(), 2);
}

#[test]
fn a_loss_that_others_explain_is_no_reason_to_profile() {
    let config = config("every = \"1min\"\nshare_percent = 50.0", "");
    let reasons = |others_rose: bool| {
        let mut bed = Bed::new(&config, [good(50.0, 1)]);
        bed.store
            .put("db", fake::profile("db", &[("tlb", 100.0)]))
            .unwrap();
        let mut meets = missing(db());
        if let Reading::Value(performance) = &mut meets.performance {
            performance.meets_qos = Reading::Value(true);
        }
        for _ in 0..20 {
            bed.tick(vec![meets.clone()]);
        }
        for _ in 0..5 {
            let mut slow = missing(db());
            // All use 100: what it uses no more, others do.
            let own = if others_rose { 5.0 } else { 50.0 };
            slow.readings.cpu_percent = Reading::Value(own);
            bed.tick(vec![slow]);
        }
        bed.events(EventKind::ExperimentStarted)
    };
    assert_eq!(reasons(true), Vec::<String>::new());
    assert!(reasons(false)[0].contains("misses its QoS"));
}

#[test]
fn a_profile_below_a_ceiling_takes_back_nothing_that_was_seen_above_it() {
    let of = |ceiling: Option<f64>, scores: &[(&str, f64)]| -> Profile {
        let mut profile = fake::profile("db", scores);
        profile.conditions.max_intensity_percent = ceiling;
        profile
    };
    let whole = of(None, &[("l2-capacity", 70.0), ("tlb", 100.0)]);
    let low = || of(Some(25.0), &[("l2-capacity", 25.0), ("l1d", 25.0)]);
    let scores = |profile: &Profile| -> Vec<(String, f64)> {
        let of = profile.resources.iter();
        of.map(|(id, it)| (id.clone(), it.tolerated.unwrap().score))
            .collect()
    };
    let merged = result::merge(Some(&whole), low(), true);
    let expected = [("l1d", 25.0), ("l2-capacity", 70.0), ("tlb", 100.0)];
    assert_eq!(
        scores(&merged),
        expected.map(|(id, score)| (id.to_string(), score))
    );
    // What does something else now is known up to the ceiling only.
    let changed = result::merge(Some(&whole), low(), false);
    assert_eq!(
        changed.resources["l2-capacity"].tolerated.unwrap().score,
        25.0
    );
    // A loss that was seen counts, however low.
    let lost = of(Some(25.0), &[("l2-capacity", 10.0)]);
    let merged = result::merge(Some(&whole), lost, true);
    assert_eq!(
        merged.resources["l2-capacity"].tolerated.unwrap().score,
        10.0
    );
    let mut elsewhere = whole.clone();
    elsewhere.machine.fingerprint = "elsewhere".into();
    assert_eq!(
        result::merge(Some(&elsewhere), low(), true).resources.len(),
        2
    );
}
