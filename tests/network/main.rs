//! `network-bandwidth` and `jostle sink`: what arrives, who is refused, and
//! what happens when one side goes.

#[path = "../common/mod.rs"]
mod common;
mod link;
mod patterns;
mod support;

use crate::common::JOSTLE;
use crate::common::alone;
use crate::common::near;
use crate::common::once_of_three;
use crate::common::skip::have;
use crate::common::within;
use crate::support::NOTICED;
use crate::support::Sink;
use crate::support::achieved;
use crate::support::command;
use crate::support::output;
use crate::support::refused;
use crate::support::source;
use jostle_kernels::network::protocol::HELLO_TIMEOUT;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

#[test]
#[ignore = "full tier: takes long"]
fn over_each_protocol_and_family_the_cap_is_kept_and_halved() {
    let _alone = alone();
    for ip in ["127.0.0.1", "::1"] {
        if have("ipv6", TcpListener::bind((ip, 0))).is_none() {
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
    // Bursts of 10 messages of 1000 bytes on average, 2 ms apart: 5 MB/s.
    let text = "[[message]]\nname = \"call\"\nbytes = 1000\n\
                [[transition]]\nfrom = \"call\"\nto = \"call\"\nprobability = 0.9\n\
                inter_arrival_us = 0\n\
                [[transition]]\nfrom = \"call\"\nto = \"call\"\nprobability = 0.1\n\
                inter_arrival_us = 2000\narrival = \"exponential\"\n";
    std::fs::write(&file, text).unwrap();
    let named = ["--network-pattern", file.to_str().unwrap()];
    for protocol in ["tcp", "udp"] {
        let with = [&named[..], &["--network-protocol", protocol]].concat();
        once_of_three(protocol, || {
            let asked = [&with[..], &["--for", "1s", "--intensity", "100"]].concat();
            near(achieved(source(None, sink.address, &asked)).0, 4e6, 6e6)?;
            let asked = [&with[..], &["--for", "1s", "--intensity", "20"]].concat();
            near(achieved(source(None, sink.address, &asked)).1, 15.0, 25.0)
        });
    }
    std::fs::write(&file, text.replace("0.1", "0.05")).unwrap();
    let asked = [&named[..], &["--intensity", "1"]].concat();
    let words = ["--network-pattern", "calls.toml, line 12", "sum to 0.95"];
    refused(&output(source(None, sink.address, &asked)), 2, &words);
}

#[test]
fn wrong_requests_are_refused_by_name() {
    for (flag, value, word) in [
        ("--network-cap", "fast", "100MB/s"),
        ("--network-cap", "0B/s", "100MB/s"),
        ("--network-protocol", "sctp", "tcp or udp"),
        ("--network-pattern", "/no/such/file", "bulk, burst, web"),
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
    let mut rows = rows.as_array().unwrap().iter();
    let row = rows.find(|row| row["resource"] == "network-bandwidth");
    let row = row.expect("every resource has a row");
    let reason = row["reason"].as_str().unwrap();
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

    let mute = impostor(std::mem::forget);
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
#[ignore = "full tier: takes long"]
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

/// Says hello, and is gone again; whether it was welcome.
fn visit(sink: &Sink) -> bool {
    answer(sink, b"jostle-sink/1 hello 0.0.0 tcp\n").contains(" welcome ")
}

#[test]
fn sources_are_served_while_nobody_reads_what_the_sink_says() {
    let asked = ["sink", "--listen", "127.0.0.1:0"];
    let (sink, said) = Sink::unread(command(None, JOSTLE, &asked));
    // A pipe that is soon full.
    let room = nix::fcntl::FcntlArg::F_SETPIPE_SZ(4096);
    nix::fcntl::fcntl(said.get_ref(), room).unwrap();
    let visits = 100;
    for _ in 0..visits {
        // A session ends a little after its source.
        within(NOTICED, "a place is free", || visit(&sink));
    }
    drop(said);
    within(NOTICED, "a place is free", || visit(&sink));
}

#[test]
fn silent_connections_make_room() {
    let sink = Sink::here("127.0.0.1");
    let began = Instant::now();
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(sink.address).unwrap())
        .collect();
    assert!(visit(&sink));
    assert!(began.elapsed() < HELLO_TIMEOUT, "it waited for them");
    drop(silent);
}

#[test]
fn one_host_does_not_take_all_sessions() {
    let asked = ["--sessions", "4", "--sessions-per-host", "2"];
    let sink = Sink::start(None, "127.0.0.1", &asked);
    let hello = || {
        let mut stream = TcpStream::connect(sink.address).unwrap();
        stream
            .write_all(b"jostle-sink/1 hello 0.0.0 tcp\n")
            .unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        (stream, line)
    };
    let both = [hello(), hello()];
    assert!(both.iter().all(|(_, line)| line.contains(" welcome ")));
    let (_, third) = hello();
    assert!(third.contains("--sessions-per-host"), "{third}");
}

#[test]
fn a_sink_with_a_secret_serves_only_who_knows_it() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let known = file("known", "5d41402abc4b2a76\n");
    let other = file("other", "5d41402abc4b2a77\n");
    let short = file("short", "5d41\n");
    let sink = Sink::start(None, "127.0.0.1", &["--secret-file", &known]);
    let asked = [
        "--intensity",
        "100",
        "--for",
        "300ms",
        "--network-cap",
        "5MB/s",
    ];
    let run = |secret: &[&str]| source(None, sink.address, &[&asked[..], secret].concat());
    refused(&output(run(&[])), 3, &["refused", "--peer-secret-file"]);
    let wrong = ["--peer-secret-file", &other];
    refused(&output(run(&wrong)), 3, &["refused", "another one"]);
    achieved(run(&["--peer-secret-file", &known]));
    // It is no secret, or there is no file.
    for wrong in [short.as_str(), "/nonexistent"] {
        let options = ["--peer-secret-file", wrong];
        refused(&output(run(&options)), 2, &["--peer-secret-file", wrong]);
        let sink = ["sink", "--secret-file", wrong];
        refused(
            &output(command(None, JOSTLE, &sink)),
            2,
            &["--secret-file", wrong],
        );
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

#[test]
fn the_demo_sends_to_the_peer_it_is_told_and_to_nobody_else() {
    let _alone = alone();
    let demo = ["demo", "network-bandwidth", "--for", "0.5"];
    let refused = output(command(None, JOSTLE, &demo));
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--peer"));
    let sink = Sink::here("127.0.0.1");
    let peer = sink.address.to_string();
    let told = [&demo[..], &["--peer", &peer, "--network-cap", "20MB/s"]].concat();
    let ended = output(command(None, JOSTLE, &told));
    assert!(ended.status.success(), "{ended:?}");
}
