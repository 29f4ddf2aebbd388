//! `jostle agent`: what it watches, what survives, and what it refuses.

mod common;

use common::JOSTLE;
use common::eventually;
use common::program::jostle;
use common::root;
use common::skip::skip;
use jostle::agent::Config;
use jostle::agent::store::Store;
use jostle_host::os::cgroup::Hierarchies;
use jostle_profile as profile;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

/// A configuration in a directory of its own.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new(rules: &str) -> Place {
        let place = Place {
            directory: tempfile::tempdir().unwrap(),
        };
        place.write(rules);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, rules: &str) {
        let state = self.at("state");
        let text = format!(
            "[agent]\ninterval = \"200ms\"\nstate_directory = {state:?}\n[api]\nsocket = \"\"\n{rules}"
        );
        fs::write(self.at("agent.toml"), text).unwrap();
    }

    fn arguments(&self) -> [String; 3] {
        let file = self.at("agent.toml").display().to_string();
        ["agent".into(), "--config".into(), file]
    }

    /// An agent that runs until it is dropped.
    fn start(&self) -> Agent {
        let mut command = Command::new(JOSTLE);
        command
            .args(self.arguments())
            .stderr(fs::File::create(self.at("log")).unwrap());
        Agent(command.spawn().expect("the agent starts"))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.at("log")).unwrap()
    }

    /// What it says of the node.
    fn once(&self) -> Value {
        let [one, two, three] = self.arguments();
        let ended = jostle(&[one, two, three, "--once".into()]);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).expect("it prints JSON")
    }
}

struct Agent(Child);

impl Agent {
    fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        nix::sys::signal::kill(pid, signal).unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cgroup with a busy process, removed in the end.
struct Busy {
    directory: PathBuf,
    child: Child,
}

impl Busy {
    /// `None` where none can be made.
    fn start(name: &str) -> Option<Busy> {
        let hierarchies = Hierarchies::here().ok()?;
        let unified = hierarchies.iter().find(|it| it.unified())?;
        let directory = unified.directory.join(name);
        fs::create_dir(&directory).ok()?;
        let procs = directory.join("cgroup.procs");
        let script = format!("echo $$ > {} && while :; do :; done", procs.display());
        let child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let busy = Busy { directory, child };
        eventually("the process is inside", || {
            fs::read_to_string(&procs).is_ok_and(|text| !text.trim().is_empty())
        });
        Some(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let gone = || fs::remove_dir(&self.directory).is_ok() || !self.directory.exists();
        let end = Instant::now() + Duration::from_secs(5);
        while !gone() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn the_shipped_configuration_holds_the_defaults_and_only_observes() {
    let text = fs::read_to_string(root().join("deploy/agent.toml")).unwrap();
    let mut shipped = Config::parse(&text).unwrap();
    assert!(
        shipped
            .workloads
            .iter()
            .all(|rule| !rule.profile && !rule.pause)
    );
    assert!(!shipped.profiling.enabled && !shipped.blame.enabled);
    shipped.workloads.clear();
    assert_eq!(shipped, Config::default());
    // What is commented out is understood as well.
    let key = |text: &str| text.chars().all(|c| c == '_' || c.is_ascii_lowercase());
    let optional = |line: &str| match line.strip_prefix("# ").map(|it| (it, it.split_once(" = "))) {
        Some((rest, Some((name, _)))) if key(name) => rest.to_string(),
        _ => line.to_string(),
    };
    let all: Vec<String> = text.lines().map(optional).collect();
    let named = [
        "node_name",
        "profiles",
        "directory",
        "socket_group",
        "client_ca",
        "token_file",
    ];
    for key in named {
        assert!(all.iter().any(|line| line.starts_with(key)), "{key}");
    }
    Config::parse(&all.join("\n")).unwrap();
}

#[test]
fn wrong_configurations_are_refused_by_name() {
    for (rules, words) in [
        ("[agnet]\n", "unknown field `agnet`"),
        ("[profiling]\nenable = true\n", "unknown field `enable`"),
        ("[blame]\npause = \"2 parsecs\"\n", "is not a time"),
        ("[blame]\npause = \"1h\"\n", "blame.pause"),
        (
            "[blame]\nmax_pause_percent = 80\n",
            "blame.max_pause_percent",
        ),
        (
            "[profiling]\nfirst_intensity = 60\n",
            "profiling.first_intensity",
        ),
        ("[profiling]\nfloor = 0\n", "profiling.floor"),
        ("[windows]\nmax_files = 0\n", "windows.max_files"),
        ("[windows]\nmax_file_mib = 0\n", "windows.max_file_mib"),
        ("[[workload]]\nname = \"x\"\n", "match"),
        ("[[workload]]\nmatch = { planet = \"x\" }\n", "planet"),
        ("[[workload]]\nmatch = { unit = \"\" }\n", "empty pattern"),
        ("[[workload]]\nmatch = { labels = {} }\n", "names no label"),
        ("[[workload]]\nmatch = { unit = \"a\" }\nqos = 2\n", "qos"),
        (
            "[[workload]]\nmatch = { unit = \"a\" }\nbaseline = -1\n",
            "baseline",
        ),
    ] {
        let place = Place::new(rules);
        let [one, two, three] = place.arguments();
        let ended = jostle(&[one, two, three.clone(), "--check".into()]);
        ended.says(2, &[&three, words]);
    }
    let ended = jostle(&["agent", "--config", "/nonexistent/agent.toml"]);
    ended.says(2, &["/nonexistent/agent.toml"]);
}

#[test]
fn a_cgroup_is_found_read_and_missed() {
    let name = format!("jostle-agent-{}", std::process::id());
    let Some(busy) = Busy::start(&name) else {
        return skip("cgroup2", "no cgroup can be made");
    };
    let place = Place::new(&format!(
        "[[workload]]\nmatch = {{ cgroup = \"/{name}\" }}\n"
    ));
    let state = place.once();
    let schema: Value = serde_json::from_str(&committed_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&state)
        .map(|it| it.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    let workload = &state["workloads"][0];
    assert_eq!(workload["name"], name.as_str(), "{state}");
    assert_eq!(workload["kind"], "cgroup");
    // A loop alone on a CPU, or beside others on few.
    let cpu = workload["readings"]["cpu_percent"].as_f64().unwrap();
    assert!((5.0..=110.0).contains(&cpu), "{cpu}");
    assert!(workload["profile"]["unavailable"].is_string());
    assert_eq!(workload["may_be_paused"], false);
    let agent = place.start();
    eventually("it is seen", || {
        place.log().contains(&format!("{name} appeared"))
    });
    drop(busy);
    eventually("it is missed", || {
        place.log().contains(&format!("{name} is gone"))
    });
    drop(agent);
}

fn committed_schema() -> String {
    fs::read_to_string(root().join("profiles/jostle-node-1.schema.json")).unwrap()
}

#[test]
fn the_committed_schema_is_the_one_that_is_printed() {
    let printed = jostle(&["schema", "node"]);
    assert_eq!(printed.stdout, committed_schema());
}

#[test]
fn init_is_never_a_workload() {
    let place = Place::new("[[workload]]\nmatch = { process = \"*\" }\nname = \"all\"\n");
    let [one, two, three] = place.arguments();
    let ended = jostle(&[one, two, three, "--check".into()]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("also true of init"),
        "{}",
        ended.stdout
    );
}

#[test]
fn one_agent_per_state_directory() {
    let place = Place::new("");
    let _agent = place.start();
    eventually("it runs", || place.log().contains("was started"));
    let ended = jostle(&place.arguments());
    ended.says(3, &["agent.lock", "another agent"]);
}

#[test]
fn signals_reload_and_end_it() {
    let place = Place::new("");
    let socket = place.at("notify");
    let notified = UnixDatagram::bind(&socket).unwrap();
    notified.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let mut command = Command::new(JOSTLE);
    command
        .args(place.arguments())
        .env("NOTIFY_SOCKET", &socket);
    command.stderr(fs::File::create(place.at("log")).unwrap());
    let mut agent = Agent(command.spawn().unwrap());
    let mut buffer = [0; 256];
    let length = notified.recv(&mut buffer).unwrap();
    let told = String::from_utf8_lossy(&buffer[..length]).into_owned();
    assert!(told.contains("READY=1"), "{told}");
    place.write("[[workload]]\nnonsense = 1\n");
    agent.signal(nix::sys::signal::Signal::SIGHUP);
    eventually("it keeps the old one", || {
        place.log().contains("the old configuration stays")
    });
    place.write("");
    agent.signal(nix::sys::signal::Signal::SIGHUP);
    eventually("it takes the new one", || {
        place.log().contains("the configuration was read again")
    });
    let began = Instant::now();
    agent.signal(nix::sys::signal::Signal::SIGTERM);
    let status = agent.0.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
}

fn stored(recorded_at: &str) -> profile::Profile {
    let mut found = profile::load(&root().join("profiles/gzip.json")).unwrap();
    found.conditions.recorded_at = recorded_at.into();
    found
}

#[test]
fn the_store_keeps_the_newest_and_a_history() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), 2).unwrap();
    for hour in 1..=5 {
        store
            .put("web", stored(&format!("2026-01-0{hour}T00:00:00Z")))
            .unwrap();
    }
    assert_eq!(
        store.get("web").unwrap().conditions.recorded_at,
        "2026-01-05T00:00:00Z"
    );
    let history = fs::read_dir(directory.path().join("history/web")).unwrap();
    let mut names: Vec<_> = history.map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        names,
        ["2026-01-03T000000Z.json", "2026-01-04T000000Z.json"]
    );
    // After a restart, and what another program put there.
    profile::save(
        &stored("2026-02-01T00:00:00Z"),
        &directory.path().join("db.json"),
    )
    .unwrap();
    let again = Store::open(directory.path(), 2).unwrap();
    assert_eq!(again.names(), ["db", "web"]);
    fs::remove_file(directory.path().join("web.json")).unwrap();
    again.refresh().unwrap();
    assert_eq!(again.names(), ["db"]);
}

#[test]
fn files_that_are_no_profiles_are_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let future = r#"{"format": "jostle-profile/2"}"#;
    for (name, text) in [
        ("broken.json", "{"),
        ("foreign.json", r#"{"format": "other/1"}"#),
        ("future.json", future),
        ("empty.json", ""),
        (".hidden.json", "{"),
        ("notes.txt", "x"),
    ] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    fs::create_dir(directory.path().join("directory.json")).unwrap();
    let store = Store::open(directory.path(), 1).unwrap();
    assert!(store.names().is_empty());
    let broken = store.broken();
    let names: Vec<_> = broken.keys().map(|it| it.file_name().unwrap()).collect();
    assert_eq!(
        names,
        ["broken.json", "empty.json", "foreign.json", "future.json"]
    );
    assert!(broken[&directory.path().join("future.json")].contains("newer jostle"));
    for name in ["../x", "a/b", "", ".x", "x\0y", &"x".repeat(200)] {
        assert!(
            store.put(name, stored("2026-01-01T00:00:00Z")).is_err(),
            "{name:?}"
        );
        assert!(store.get(name).is_none());
    }
    assert_eq!(
        fs::read_to_string(directory.path().join("future.json")).unwrap(),
        future
    );
}

#[test]
fn a_profile_in_the_store_gives_the_node_headroom() {
    let place = Place::new("[[workload]]\nmatch = { process = \"sleep\" }\nname = \"ns/nap\"\n");
    fs::create_dir_all(place.at("state/profiles")).unwrap();
    let from = root().join("profiles/gzip.json");
    fs::copy(from, place.at("state/profiles/ns_nap.json")).unwrap();
    fs::write(place.at("state/profiles/broken.json"), "{").unwrap();
    let mut sleep = Command::new("sleep")
        .arg("1000")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let state = place.once();
    sleep.kill().unwrap();
    let _ = sleep.stdout.take().unwrap().read(&mut [0]);
    sleep.wait().unwrap();
    let warning = state["warnings"][0]["message"].as_str().unwrap();
    assert!(warning.contains("broken.json"), "{warning}");
    let names = state["workloads"].as_array().unwrap().iter();
    let nap = names
        .clone()
        .find(|it| it["name"] == "ns/nap")
        .expect("it is found");
    let tolerated = nap["profile"]["tolerated"].as_object().unwrap();
    assert!(!tolerated.is_empty());
    let (resource, score) = tolerated.iter().next().unwrap();
    let node = &state["resources"][resource];
    assert!(node["headroom"].is_number(), "{node}");
    assert_eq!(&node["least_tolerated"]["score"], score, "{node}");
}

#[test]
fn windows_are_written_where_they_are_switched_on() {
    let rule = "[[workload]]\nmatch = { process = \"sleep\" }\nname = \"a, nap\"\n";
    let mut sleep = Command::new("sleep").arg("1000").spawn().unwrap();
    let file = |place: &Place| place.at("state/windows/windows.csv");
    let off = Place::new(rule);
    off.once();
    let labelled = Place::new(&format!("[windows]\nenabled = true\n{rule}"));
    labelled.once();
    let on = Place::new(&format!(
        "[windows]\nenabled = true\nunlabelled = true\n{rule}"
    ));
    let agent = on.start();
    let rows = || fs::read_to_string(file(&on)).map_or(0, |it| it.lines().count());
    eventually("rows are written", || rows() >= 5);
    drop(agent);
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    assert!(!file(&off).exists() && !file(&labelled).exists());
    let text = fs::read_to_string(file(&on)).unwrap();
    let text = text.strip_prefix("# jostle-windows/1\n").unwrap();
    let mut csv = csv::Reader::from_reader(text.as_bytes());
    let at = |name: &str| {
        let header = csv::Reader::from_reader(text.as_bytes())
            .headers()
            .unwrap()
            .clone();
        header.iter().position(|it| it == name).unwrap()
    };
    let record = csv.records().next().unwrap().unwrap();
    assert!(record[at("workload")].starts_with("a, nap"), "{record:?}");
    assert!(record[at("node_cpu_percent")].parse::<f64>().is_ok());
    // It has no metric: nothing is known of its speed, and it is not called fast.
    assert_eq!(&record[at("slow")], "");
    assert_eq!(&record[at("performance")], "");
}

#[test]
fn windows_that_cannot_be_written_are_told_once_and_written_when_they_can() {
    let place = Place::new("");
    let directory = place.at("windows");
    fs::write(&directory, "in the way").unwrap();
    place.write(&format!(
        "[windows]\nenabled = true\nunlabelled = true\ndirectory = {directory:?}\n\
         [[workload]]\nmatch = {{ process = \"sleep\" }}\n"
    ));
    let mut sleep = Command::new("sleep").arg("1000").spawn().unwrap();
    let agent = place.start();
    eventually("it is told", || place.log().contains("windows.directory: "));
    std::thread::sleep(Duration::from_secs(1));
    let told = place.log().matches("windows.directory: ").count();
    fs::remove_file(&directory).unwrap();
    eventually("they are written", || {
        directory.join("windows.csv").exists()
    });
    drop(agent);
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    assert_eq!(told, 1, "{}", place.log());
}

/// The longest that this may take in a debug build beside other tests.
const REFRESH_LIMIT: Duration = Duration::from_secs(20);

#[test]
fn ten_thousand_files_in_the_store_are_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let small = directory.path().join("0.json");
    fs::write(&small, "{").unwrap();
    for number in 1..10_000 {
        let to = directory.path().join(format!("{number}.json"));
        fs::hard_link(Path::new(&small), to).unwrap();
    }
    let began = Instant::now();
    let store = Store::open(directory.path(), 1).unwrap();
    store.refresh().unwrap();
    assert!(began.elapsed() < REFRESH_LIMIT, "{:?}", began.elapsed());
    assert_eq!(store.broken().len(), 10_000);
}
