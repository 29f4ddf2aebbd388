//! `network-bandwidth` and `jostle sink`: what arrives, who is refused, and
//! what happens when one side goes.
//!
//! Those that need a link of known speed build one from two network namespaces
//! and `tc`; without root or without iproute2 they say so and are skipped.

use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

const JOSTLE: &str = env!("CARGO_BIN_EXE_jostle");
/// A sink that is gone must be noticed within this time.
const NOTICED: Duration = Duration::from_secs(10);
/// Of the links built here, payload and headers together.
const LINK_BYTES_PER_SECOND: f64 = 125e6;

/// While it is held no other test presses on the machine.
fn alone() -> Flock<File> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("one-at-a-time.lock");
    Flock::lock(File::create(path).unwrap(), FlockArg::LockExclusive).expect("the lock can be had")
}

/// A command, inside a network namespace where one is named.
fn command(namespace: Option<&str>, program: &str, arguments: &[&str]) -> Command {
    let mut command = match namespace {
        Some(name) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", name, program]);
            command
        }
        None => Command::new(program),
    };
    command.args(arguments).stdin(Stdio::null());
    command
}

/// `jostle sink` on a free port, ended with the test.
struct Sink {
    child: Child,
    address: SocketAddr,
}

impl Sink {
    fn start(namespace: Option<&str>, ip: &str, options: &[&str]) -> Sink {
        let listen = match ip.contains(':') {
            true => format!("[{ip}]:0"),
            false => format!("{ip}:0"),
        };
        let arguments = [&["sink", "--listen", &listen], options].concat();
        let mut child = command(namespace, JOSTLE, &arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the sink starts");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line
            .split_once("listening on ")
            .and_then(|(_, rest)| rest.split([',', '\n']).next())
            .unwrap_or_else(|| panic!("where does it listen? {line}"));
        let address = address.parse().unwrap();
        // Whatever it says later must not block it.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Sink { child, address }
    }

    fn here(ip: &str) -> Sink {
        Sink::start(None, ip, &[])
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `jostle run network-bandwidth` against `peer`.
fn source(namespace: Option<&str>, peer: SocketAddr, arguments: &[&str]) -> Command {
    let peer = peer.to_string();
    let all = [&["run", "network-bandwidth", "--peer", &peer], arguments].concat();
    command(namespace, JOSTLE, &all)
}

fn output(mut command: Command) -> Output {
    command.output().expect("jostle starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    let text = said(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "no '{word}' in: {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

/// What a run achieved: bytes per second, and percent of its peak.
#[track_caller]
fn achieved(mut command: Command) -> (f64, f64) {
    command.arg("--json");
    let output = output(command);
    assert!(output.status.success(), "{}", said(&output));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["pressure_unit"], "bytes_per_second");
    (
        outcome["achieved_pressure"].as_f64().unwrap(),
        outcome["achieved_percent"].as_f64().unwrap(),
    )
}

/// Other work on the machine may spoil a measurement: one of three must hold.
#[track_caller]
fn once_of_three(what: &str, mut measure: impl FnMut() -> Result<(), String>) {
    let mut reasons = Vec::new();
    for _ in 0..3 {
        match measure() {
            Ok(()) => return,
            Err(reason) => reasons.push(reason),
        }
    }
    panic!("{what}: {}", reasons.join("; "));
}

fn near(value: f64, low: f64, high: f64) -> Result<(), String> {
    match (low..=high).contains(&value) {
        true => Ok(()),
        false => Err(format!("{value} is not within {low} to {high}")),
    }
}

#[test]
fn over_each_protocol_and_family_the_cap_is_kept_and_halved() {
    let _alone = alone();
    for ip in ["127.0.0.1", "::1"] {
        if TcpListener::bind((ip, 0)).is_err() {
            println!("skipped {ip}: there is no such address here");
            continue;
        }
        let sink = Sink::here(ip);
        for protocol in ["tcp", "udp"] {
            let run = |intensity| {
                let capped = ["--network-cap", "20MB/s", "--network-protocol", protocol];
                let asked = ["--for", "1s", "--intensity", intensity];
                achieved(source(None, sink.address, &[&capped[..], &asked].concat()))
            };
            once_of_three(&format!("{protocol} to {ip}"), || {
                let (full, _) = run("100");
                assert!(full < 20e6 * 1.03, "above the cap: {full}");
                near(full, 20e6 * 0.8, 20e6 * 1.03)?;
                let (half, percent) = run("50");
                near(percent, 40.0, 60.0)?;
                near(half, full * 0.4, full * 0.6)
            });
        }
    }
}

#[test]
fn a_pattern_file_sets_the_rate() {
    let _alone = alone();
    let sink = Sink::here("127.0.0.1");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("calls.toml");
    // 10 messages of 1000 bytes every 2 ms: 5 MB/s.
    let text = "[[message]]\nbytes = 1000\nprobability = 1.0\n\
                [burst]\nmessages = 10\nspacing_seconds = 0.002\n";
    std::fs::write(&file, text).unwrap();
    let named = ["--network-pattern", file.to_str().unwrap()];
    for protocol in ["tcp", "udp"] {
        let with = [&named[..], &["--network-protocol", protocol]].concat();
        once_of_three(protocol, || {
            let asked = [&with[..], &["--for", "1s", "--intensity", "100"]].concat();
            near(achieved(source(None, sink.address, &asked)).0, 4e6, 5.2e6)?;
            let asked = [&with[..], &["--for", "1s", "--intensity", "20"]].concat();
            near(achieved(source(None, sink.address, &asked)).1, 15.0, 25.0)
        });
    }
    std::fs::write(&file, text.replace("1.0", "0.7")).unwrap();
    let asked = [&named[..], &["--intensity", "1"]].concat();
    let words = ["--network-pattern", "calls.toml", "sum to 0.7"];
    refused(&output(source(None, sink.address, &asked)), 2, &words);
}

#[test]
fn wrong_requests_are_refused_by_name() {
    for (flag, value, word) in [
        ("--network-cap", "fast", "100MB/s"),
        ("--network-cap", "0B/s", "100MB/s"),
        ("--network-protocol", "sctp", "tcp or udp"),
        ("--network-pattern", "/no/such/file", "bulk and burst"),
    ] {
        let peer = "127.0.0.1:1".parse().unwrap();
        let asked = ["--intensity", "1", flag, value];
        refused(&output(source(None, peer, &asked)), 2, &[flag, word]);
        let asked = ["run", "network-bandwidth", "--intensity", "1", flag, "tcp"];
        refused(&output(command(None, JOSTLE, &asked)), 2, &[flag]);
    }
    for peer in ["nonsense", "127.0.0.1", "0.0.0.0:1", "255.255.255.255:1"] {
        let asked = [
            "run",
            "network-bandwidth",
            "--intensity",
            "1",
            "--peer",
            peer,
        ];
        let words = ["--peer", "HOST:PORT"];
        refused(&output(command(None, JOSTLE, &asked)), 2, &words);
    }
    for listen in ["nowhere", "127.0.0.1", "127.0.0.1:99999"] {
        let asked = ["sink", "--listen", listen];
        refused(&output(command(None, JOSTLE, &asked)), 2, &["--listen"]);
    }
}

#[test]
fn without_a_peer_it_is_unavailable_and_says_what_to_do() {
    let asked = ["run", "network-bandwidth", "--intensity", "50"];
    let words = ["no peer named", "jostle sink", "--peer HOST:PORT"];
    refused(&output(command(None, JOSTLE, &asked)), 3, &words);
    let rows = output(command(None, JOSTLE, &["list", "--json"]));
    let rows: Value = serde_json::from_slice(&rows.stdout).unwrap();
    let row = rows.as_array().unwrap().iter();
    let row = row
        .filter(|row| row["resource"] == "network-bandwidth")
        .next()
        .unwrap();
    let reason = row["unavailable"].as_str().unwrap();
    assert!(reason.contains("--peer HOST:PORT"), "{reason}");
}

#[test]
fn a_dry_run_names_the_peer_and_sends_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let peer = listener.local_addr().unwrap();
    let named = format!("localhost:{}", peer.port());
    let flags = [
        "--peer",
        &named,
        "--network-protocol",
        "udp",
        "--network-cap",
        "8Mbit/s",
        "--dry-run",
    ];
    let run = ["run", "network-bandwidth", "--intensity", "1"];
    let profile = [
        "profile",
        "--demo",
        "quiet",
        "--resources",
        "network-bandwidth",
    ];
    for asked in [&run[..], &profile[..]] {
        let output = output(command(None, JOSTLE, &[asked, &flags].concat()));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for word in ["udp", &named, "pattern bulk", "at most 1 MB/s"] {
            assert!(text.contains(word), "no '{word}' in: {text}");
        }
    }
    assert!(listener.accept().is_err(), "somebody connected");
}

/// Something that listens at a port of its own and treats every connection in
/// the same way, until the process ends.
fn impostor(treat: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(treat));
    address
}

#[test]
fn what_is_no_sink_of_this_version_is_told_apart_in_time() {
    let _alone = alone();
    let asked = ["--intensity", "50", "--for", "60s"];
    let began = Instant::now();
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let words = [&nobody.to_string(), "nothing listens there", "jostle sink"];
    refused(&output(source(None, nobody, &asked)), 3, &words);

    let newer = impostor(|mut stream| {
        let _ = stream.write_all(b"jostle-sink/99 welcome 0000000000000001\n");
        let _ = stream.read(&mut [0; 256]);
    });
    let words = ["jostle-sink/99", "jostle-sink/1", "same version"];
    refused(&output(source(None, newer, &asked)), 3, &words);

    let shell = impostor(|mut stream| {
        let _ = stream.write_all(b"SSH-2.0-Example\r\n");
        let _ = stream.read(&mut [0; 256]);
    });
    let words = ["no jostle sink", "SSH-2.0-Example"];
    refused(&output(source(None, shell, &asked)), 3, &words);

    let flood = impostor(|mut stream| while stream.write_all(&[b'a'; 4096]).is_ok() {});
    refused(
        &output(source(None, flood, &asked)),
        3,
        &["no jostle sink", "aaaa"],
    );

    let closes = impostor(drop);
    refused(
        &output(source(None, closes, &asked)),
        3,
        &["no jostle sink"],
    );

    let mute = impostor(|stream| std::mem::forget(stream));
    refused(&output(source(None, mute, &asked)), 3, &["said nothing"]);

    let nonsense = impostor(|mut stream| {
        let _ = stream.write_all(b"jostle-sink/1 welcome 0000000000000001\nwhat?\n");
        std::mem::forget(stream);
    });
    refused(
        &output(source(None, nonsense, &asked)),
        3,
        &["makes no sense"],
    );
    assert!(began.elapsed() < 4 * NOTICED, "{:?}", began.elapsed());
}

/// Ends the sink with `signal` in the middle of a run.
fn losing(signal: Signal, protocol: &str, word: &str) {
    let sink = Sink::here("127.0.0.1");
    let asked = ["--network-protocol", protocol, "--network-cap", "50MB/s"];
    let asked = [&asked[..], &["--intensity", "50", "--for", "100s"]].concat();
    let source = source(None, sink.address, &asked)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    sink.signal(signal);
    let began = Instant::now();
    let output = source.wait_with_output().unwrap();
    assert!(began.elapsed() < NOTICED, "{:?}", began.elapsed());
    refused(&output, 3, &[&sink.address.to_string(), word]);
}

#[test]
fn a_sink_that_goes_ends_the_source_with_the_reason() {
    let _alone = alone();
    for protocol in ["tcp", "udp"] {
        losing(Signal::SIGKILL, protocol, "the sink ");
        losing(Signal::SIGSTOP, protocol, "silent");
    }
}

#[test]
fn the_sink_ends_when_told() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 0)] {
        let mut sink = Sink::here("127.0.0.1");
        sink.signal(signal);
        assert_eq!(sink.child.wait().unwrap().code(), Some(code), "{signal}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let asked = ["sink", "--listen", &address];
    let words = ["--listen", &address, "taken"];
    refused(&output(command(None, JOSTLE, &asked)), 3, &words);
}

/// Says `text` to the sink and returns the line it answers with.
fn answer(sink: &Sink, text: &[u8]) -> String {
    let mut stream = TcpStream::connect(sink.address).unwrap();
    stream.write_all(text).unwrap();
    let mut line = String::new();
    stream.set_read_timeout(Some(NOTICED)).unwrap();
    let _ = BufReader::new(stream).read_line(&mut line);
    line
}

#[test]
fn the_sink_outlives_strangers() {
    let _alone = alone();
    let sink = Sink::here("127.0.0.1");
    let reason = answer(&sink, b"jostle-sink/99 hello 9.9 tcp\n");
    for word in ["refused", "jostle-sink/99", "jostle-sink/1", "same version"] {
        assert!(reason.contains(word), "{reason}");
    }
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"jostle-sink/1 data 0000000000000000\n",
        b"jostle-sink/1 data zzzzzzzzzzzzzzzz\n",
        b"jostle-sink/1 hello\n",
        b"\xff\xfe\0\0\n",
        &[b'a'; 100_000],
    ] {
        let reason = answer(&sink, garbage);
        // What is still unread when it closes may cost the stranger the reason.
        assert!(reason.is_empty() || reason.contains("refused"), "{reason}");
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for bytes in [0, 1, 15, 16, 17, 1400] {
        socket.send_to(&vec![7; bytes], sink.address).unwrap();
    }
    // More than it serves at a time, none of which says a word.
    let mut half_open: Vec<TcpStream> = (0..250)
        .filter_map(|_| TcpStream::connect(sink.address).ok())
        .collect();
    for stream in &mut half_open {
        stream.set_read_timeout(Some(NOTICED)).unwrap();
        let gone = stream.read(&mut [0; 16]);
        let timed_out = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!gone.is_err_and(|error| timed_out(&error)), "still open");
    }
    let asked = [
        "--intensity",
        "100",
        "--for",
        "300ms",
        "--network-cap",
        "5MB/s",
    ];
    for protocol in ["tcp", "udp"] {
        let asked = [&asked[..], &["--network-protocol", protocol]].concat();
        assert!(achieved(source(None, sink.address, &asked)).0 > 0.0);
    }
}

#[test]
fn the_sink_serves_no_more_and_no_longer_than_told() {
    let _alone = alone();
    let sink = Sink::start(None, "127.0.0.1", &["--sessions", "1", "--idle", "1s"]);
    let mut first = BufReader::new(TcpStream::connect(sink.address).unwrap());
    first
        .get_mut()
        .write_all(b"jostle-sink/1 hello 0.0.0 tcp\n")
        .unwrap();
    let mut line = String::new();
    first.read_line(&mut line).unwrap();
    assert!(line.starts_with("jostle-sink/1 welcome "), "{line}");
    let second = output(source(None, sink.address, &["--intensity", "50"]));
    refused(&second, 3, &["refused", "--sessions"]);
    // The first one sends nothing and is told why it must go.
    let mut last = String::new();
    let began = Instant::now();
    loop {
        line.clear();
        if first.read_line(&mut line).unwrap() == 0 {
            break;
        }
        last.clone_from(&line);
    }
    assert!(began.elapsed() < NOTICED);
    assert!(
        last.contains("refused") && last.contains("--idle"),
        "{last}"
    );
    let asked = [
        "--intensity",
        "100",
        "--for",
        "300ms",
        "--network-cap",
        "5MB/s",
    ];
    achieved(source(None, sink.address, &asked));
}

/// Two namespaces and a link between them that carries 1 Gbit/s, gone with the
/// test.
struct Link {
    near: String,
    far: String,
}

impl Link {
    const NEAR: [&str; 2] = ["10.77.61.1/24", "fd77:61::1/64"];
    const FAR: [&str; 2] = ["10.77.61.2/24", "fd77:61::2/64"];

    /// `None`, saying why, where it cannot be had.
    fn build(test: &str) -> Option<Link> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped {test}: network namespaces need root");
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "jostle-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Relaxed)
        );
        let link = Link {
            near: format!("{name}-near"),
            far: format!("{name}-far"),
        };
        match link.configure() {
            Ok(()) => Some(link),
            Err(reason) => {
                println!("skipped {test}: no link between namespaces: {reason}");
                None
            }
        }
    }

    fn configure(&self) -> Result<(), String> {
        let (near, far) = (self.near.as_str(), self.far.as_str());
        run("ip", &["netns", "add", near])?;
        run("ip", &["netns", "add", far])?;
        run(
            "ip",
            &[
                "-n", near, "link", "add", "veth", "type", "veth", "peer", "name", "veth", "netns",
                far,
            ],
        )?;
        for (namespace, addresses) in [(near, Self::NEAR), (far, Self::FAR)] {
            for address in addresses {
                let mut words = vec!["-n", namespace, "addr", "add", address, "dev", "veth"];
                if address.contains(':') {
                    words.push("nodad");
                }
                run("ip", &words)?;
            }
            run("ip", &["-n", namespace, "link", "set", "veth", "up"])?;
            let shaped = ["tbf", "rate", "1gbit", "burst", "128kb", "latency", "20ms"];
            let device = ["-n", namespace, "qdisc", "add", "dev", "veth", "root"];
            run("tc", &[&device[..], &shaped].concat())?;
        }
        Ok(())
    }

    fn sink(&self, family: usize) -> Sink {
        let ip = Self::FAR[family].split('/').next().unwrap();
        Sink::start(Some(&self.far), ip, &[])
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for namespace in [&self.near, &self.far] {
            let _ = run("ip", &["netns", "del", namespace]);
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program}: {error} (Debian package iproute2)"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{program} {}: {}",
            arguments.join(" "),
            said(&output).trim()
        )),
    }
}

#[test]
fn a_link_of_known_speed_is_filled_and_dialled() {
    let _alone = alone();
    let Some(link) = Link::build("a_link_of_known_speed_is_filled_and_dialled") else {
        return;
    };
    for (family, protocol) in [(0, "tcp"), (1, "tcp"), (0, "udp"), (1, "udp")] {
        let sink = link.sink(family);
        let run = |intensity: &str| {
            let asked = [
                "--for",
                "1500ms",
                "--network-protocol",
                protocol,
                "--intensity",
                intensity,
            ];
            achieved(source(Some(&link.near), sink.address, &asked))
        };
        once_of_three(&format!("{protocol} to {} at 100 %", sink.address), || {
            let (rate, _) = run("100");
            assert!(
                rate < LINK_BYTES_PER_SECOND * 1.02,
                "more than the link carries: {rate}"
            );
            near(
                rate,
                LINK_BYTES_PER_SECOND * 0.85,
                LINK_BYTES_PER_SECOND * 1.02,
            )
        });
        if (family, protocol) == (1, "tcp") || (family, protocol) == (0, "udp") {
            continue;
        }
        for intensity in [10.0, 25.0, 50.0, 75.0] {
            once_of_three(
                &format!("{protocol} to {} at {intensity} %", sink.address),
                || {
                    near(
                        run(&intensity.to_string()).1,
                        intensity - 10.0,
                        intensity + 10.0,
                    )
                },
            );
        }
    }
}

#[test]
fn a_link_that_breaks_ends_the_source_with_the_reason() {
    let _alone = alone();
    let Some(link) = Link::build("a_link_that_breaks_ends_the_source_with_the_reason") else {
        return;
    };
    for protocol in ["tcp", "udp"] {
        let sink = link.sink(0);
        let asked = [
            "--for",
            "100s",
            "--network-protocol",
            protocol,
            "--intensity",
            "50",
        ];
        let source = source(Some(&link.near), sink.address, &asked)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        run("ip", &["-n", &link.far, "link", "set", "veth", "down"]).unwrap();
        let began = Instant::now();
        let output = source.wait_with_output().unwrap();
        assert!(began.elapsed() < NOTICED, "{:?}", began.elapsed());
        refused(&output, 3, &[&sink.address.to_string(), "the sink "]);
        run("ip", &["-n", &link.far, "link", "set", "veth", "up"]).unwrap();
    }
}
