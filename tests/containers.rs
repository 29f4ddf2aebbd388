//! Real containers, of podman with runc: found, read, profiled, paused and left as they
//! were.

mod common;

use common::JOSTLE;
use common::alone;
use common::eventually;
use common::is_root;
use common::once_of_three;
use common::program::Ended;
use common::program::command;
use common::program::jostle;
use common::skip::have;
use common::within;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

/// `runc`, since `crun` refuses hybrid hierarchies; limits, since the usual ones may be
/// above those of this process.
const RUN: &[&str] = &[
    "--cgroup-manager=cgroupfs",
    "--runtime=runc",
    "run",
    "--detach",
    "--ulimit=nofile=1024:1024",
    "--ulimit=nproc=4096:4096",
    "--network=none",
];

/// A container that runs a demo until it is dropped.
struct Container {
    name: String,
    _root: TempDir,
}

impl Container {
    /// `podman run` with `options`; the reason where no container can be run.
    fn start(role: &str, demo: &str, options: &[&str]) -> Result<Container, String> {
        if !is_root() {
            return Err("only root may make cgroups".into());
        }
        let root = root_with_libraries();
        let name = format!("jostle-test-{role}-{}", std::process::id());
        // From before the first failure on, so that nothing is left behind.
        let container = Container { name, _root: root };
        let mut command = Command::new("podman");
        command
            .args(RUN)
            .args(["--name", &container.name])
            .arg(format!("--volume={JOSTLE}:/jostle:ro"))
            .args(options)
            .arg("--rootfs")
            .arg(container._root.path())
            .args(["/jostle", "demo", demo]);
        let output = command.output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(container),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn inspect(&self, what: &str) -> String {
        let mut command = Command::new("podman");
        command.args(["inspect", "--format", what, &self.name]);
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    fn pid(&self) -> u32 {
        self.inspect("{{.State.Pid}}").parse().unwrap()
    }

    /// Asserts that it runs, neither stopped nor frozen, and goes on.
    #[track_caller]
    fn goes_on(&self) {
        assert_eq!(self.inspect("{{.State.Status}}"), "running");
        let path = format!("/proc/{}/stat", self.pid());
        let used = || {
            let stat = fs::read_to_string(&path).unwrap();
            let (_, fields) = stat.rsplit_once(") ").unwrap();
            let field = |at: usize| fields.split(' ').nth(at).unwrap().parse::<u64>().unwrap();
            field(11) + field(12)
        };
        let before = used();
        eventually("it uses CPU time", || used() > before);
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let mut remove = Command::new("podman");
        remove.args(["rm", "--force", "--time=0", &self.name]);
        let _ = remove.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// A root file system with what the program needs to start.
fn root_with_libraries() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for directory in ["proc", "sys", "dev", "etc", "tmp"] {
        fs::create_dir(root.path().join(directory)).unwrap();
    }
    let output = Command::new("ldd").arg(JOSTLE).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let libraries = listed
        .split_ascii_whitespace()
        .filter(|it| it.starts_with('/'));
    for library in libraries {
        let place = root.path().join(&library[1..]);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(library, place).unwrap();
    }
    root
}

/// A directory with `agent.toml`, and the arguments that name it.
fn configured(rules: &str) -> (TempDir, [String; 3]) {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let file = directory.path().join("agent.toml");
    let text = format!(
        "[agent]\ninterval = \"500ms\"\nstate_directory = {state:?}\n[api]\nsocket = \"\"\n{rules}"
    );
    fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    (directory, ["agent".into(), "--config".into(), file])
}

/// An agent that runs until it is dropped.
struct Agent(Child);

impl Agent {
    fn start(arguments: &[String], log: &Path) -> Agent {
        let mut command = command(arguments);
        command.stderr(fs::File::create(log).unwrap());
        Agent(command.spawn().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It ends what it has started.
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM);
        let _ = self.0.wait();
    }
}

#[test]
fn the_agent_finds_a_container_by_name_and_by_annotation() {
    let _alone = alone();
    let annotation = "--annotation=jostle.example/tier=batch";
    let Some(container) = have("podman", Container::start("found", "quiet", &[annotation])) else {
        return;
    };
    let name = &container.name;
    for matches in [
        format!("container = \"{name}\""),
        "labels = { \"jostle.example/tier\" = \"batch\" }".to_string(),
    ] {
        let rule = format!("[[workload]]\nmatch = {{ {matches} }}\nmetric = \"progress\"\n");
        let (_directory, [one, two, three]) = configured(&rule);
        let state = jostle(&[one, two, three, "--once".into()]).json();
        let workload = &state["workloads"][0];
        assert_eq!(workload["name"], name.as_str(), "{matches}: {state}");
        assert_eq!(workload["kind"], "container");
        let readings = &workload["readings"];
        let cpu = readings["cpu_percent"].as_f64().unwrap();
        assert!((5.0..=110.0).contains(&cpu), "{cpu}");
        assert!(
            readings["memory_bytes"].as_f64().unwrap() > 1e5,
            "{readings}"
        );
        // It has a network of its own, in which nothing happens.
        assert_eq!(readings["network_sent_bytes_per_second"], 0.0, "{readings}");
    }
    container.goes_on();
}

#[test]
fn the_agent_sees_a_container_come_and_go() {
    let rule = "[[workload]]\nmatch = { container = \"jostle-test-brief-*\" }\n";
    let (directory, arguments) = configured(rule);
    let log = directory.path().join("log");
    let agent = Agent::start(&arguments, &log);
    let says = |words: &str| fs::read_to_string(&log).unwrap().contains(words);
    let Some(container) = have("podman", Container::start("brief", "quiet", &[])) else {
        return;
    };
    let name = container.name.clone();
    eventually("it is seen", || says(&format!("{name} appeared")));
    drop(container);
    eventually("it is missed", || says(&format!("{name} is gone")));
    drop(agent);
}

#[test]
fn the_agent_profiles_a_container_and_leaves_it_running() {
    let _alone = alone();
    let Some(container) = have("podman", Container::start("profiled", "quiet", &[])) else {
        return;
    };
    let name = &container.name;
    let (directory, arguments) = configured(&format!(
        "[[workload]]\nmatch = {{ container = \"{name}\" }}\nmetric = \"progress\"\n\
         profile = true\n\
         [profiling]\nenabled = true\nbudget = \"5s\"\nshare_percent = 50\n\
         below_cpu_percent = 100\nfloor = 0.1\nresources = [\"l1d\"]\n"
    ));
    let log = directory.path().join("log");
    let mut agent = Agent::start(&arguments, &log);
    let stored = directory.path().join(format!("state/profiles/{name}.json"));
    let limit = Duration::from_secs(120);
    within(limit, "its profile is in the store", || {
        let log = || fs::read_to_string(&log).unwrap();
        assert!(agent.0.try_wait().unwrap().is_none(), "{}", log());
        assert!(!log().contains("ERROR"), "{}", log());
        stored.exists()
    });
    container.goes_on();
    drop(agent);
    let profile = jostle_profile::load(&stored).unwrap();
    let entry = &profile.resources["l1d"];
    assert!(!entry.curve.is_empty(), "{entry:?}");
    container.goes_on();
}

#[test]
fn a_container_is_a_target_by_its_name() {
    let _alone = alone();
    let Some(container) = have("podman", Container::start("target", "quiet", &[])) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("p.json");
    let told = [
        "profile".to_string(),
        format!("--container={}", container.name),
        "--metric=progress".into(),
        "--resources=l1d".into(),
        "--halves=tolerated".into(),
        "--budget=5s".into(),
        format!("--out={}", out.display()),
    ];
    let ended = Ended::of(command(&told), Duration::from_secs(120));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let profile = jostle_profile::load(&out).unwrap();
    assert!(!profile.resources["l1d"].curve.is_empty(), "{profile:?}");
    container.goes_on();
}

#[test]
fn a_container_that_takes_the_cpu_of_another_is_named() {
    let _alone = alone();
    let cpu = "--cpuset-cpus=0";
    let Some(victim) = have("podman", Container::start("victim", "quiet", &[cpu])) else {
        return;
    };
    let hog = Container::start("hog", "quiet", &[cpu]).unwrap();
    let innocent = Container::start("innocent", "quiet", &["--cpuset-cpus=1"]).unwrap();
    let candidate = |of: &Container| format!("--candidate=container:{}", of.name);
    let told = [
        "blame".to_string(),
        format!("--container={}", victim.name),
        "--metric=progress".into(),
        candidate(&hog),
        candidate(&innocent),
        "--max-pause=10".into(),
        "--budget=4s".into(),
        "--look=1s".into(),
        "--json".into(),
    ];
    once_of_three("the hog takes half", || {
        let document: Value = Ended::of(command(&told), Duration::from_secs(120)).json();
        let candidates = document["candidates"].as_array().unwrap();
        let of = |who: &Container| {
            let mut all = candidates.iter();
            let found = all.find(|it| it["name"] == who.name.as_str());
            found.cloned().unwrap_or_default()
        };
        let ends = &of(&hog)["effect"]["slowed_percent"]["ci95"];
        let [low, high] = [0, 1].map(|end| ends[end].as_f64().unwrap_or(f64::NAN));
        let right = of(&hog)["verdict"] == "slows" && of(&innocent)["verdict"] != "slows";
        match right && low < 70.0 && high > 30.0 {
            true => Ok(()),
            false => Err(format!("{low} to {high}: {document}")),
        }
    });
    for container in [&victim, &hog, &innocent] {
        container.goes_on();
    }
}
