//! HTTP/2 loads against a server that writes down what arrives, refuses, resets, and
//! closes its connections when it likes.

use h2::Reason;
use h2::server::SendResponse;
use http::HeaderMap;
use http::Request;
use http::Response;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::process::Command;
use std::process::Output;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use tokio::net::TcpStream;

/// Requests that one connection is given where they are few.
const FEW: usize = 10;

#[derive(Clone, Debug)]
struct Heard {
    connection: usize,
    request: Request<()>,
    body: Vec<u8>,
}

#[derive(Default)]
struct Seen {
    heard: Vec<Heard>,
    /// By connection: requests at once, and the most of them so far.
    at_once: BTreeMap<usize, (usize, usize)>,
}

type Shared = Arc<Mutex<Seen>>;

/// Answers by path; its threads end with the process.
fn start(few: bool) -> (u16, Shared) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Shared::default();
    let told = seen.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, connection, few, told.clone()));
            }
        });
    });
    (port, seen)
}

async fn serve(stream: TcpStream, connection: usize, few: bool, seen: Shared) {
    let _ = stream.set_nodelay(true);
    let Ok(mut requests) = h2::server::handshake(stream).await else {
        return;
    };
    let mut count = 0;
    while let Some(Ok((request, respond))) = requests.accept().await {
        count += 1;
        if few && count == FEW {
            requests.graceful_shutdown();
        }
        tokio::spawn(answer(request, respond, connection, seen.clone()));
    }
}

async fn answer(
    request: Request<h2::RecvStream>,
    mut respond: SendResponse<bytes::Bytes>,
    connection: usize,
    seen: Shared,
) {
    let (head, mut incoming) = request.into_parts();
    let mut body = Vec::new();
    while let Some(Ok(part)) = incoming.data().await {
        let _ = incoming.flow_control().release_capacity(part.len());
        body.extend_from_slice(&part);
    }
    let path = head.uri.path().to_string();
    let count = {
        let mut seen = seen.lock().unwrap();
        let (now, most) = seen.at_once.entry(connection).or_default();
        *now += 1;
        *most = (*most).max(*now);
        seen.heard.push(Heard {
            connection,
            request: Request::from_parts(head, ()),
            body,
        });
        seen.heard.len()
    };
    let status = |status: u16| Response::builder().status(status).body(()).unwrap();
    match path.as_str() {
        "/slow" => tokio::time::sleep(Duration::from_millis(20)).await,
        "/now-and-then" if count.is_multiple_of(5) => {
            respond.send_reset(Reason::REFUSED_STREAM);
        }
        _ => {}
    }
    seen.lock()
        .unwrap()
        .at_once
        .entry(connection)
        .or_default()
        .0 -= 1;
    match path.as_str() {
        "/reset" => respond.send_reset(Reason::INTERNAL_ERROR),
        "/missing" => drop(respond.send_response(status(404), true)),
        "/call" => {
            if let Ok(mut stream) = respond.send_response(status(200), false) {
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", "14".parse().unwrap());
                trailers.insert("grpc-message", "down".parse().unwrap());
                let _ = stream.send_data("ok".into(), false);
                let _ = stream.send_trailers(trailers);
            }
        }
        "/large" => {
            if let Ok(mut stream) = respond.send_response(status(200), false) {
                let _ = stream.send_data(vec![b'x'; 3 << 20].into(), true);
            }
        }
        _ => {
            if let Ok(mut stream) = respond.send_response(status(200), false) {
                let _ = stream.send_data("ok".into(), true);
            }
        }
    }
}

fn load(port: u16, path: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jostle"))
        .args(["load", &format!("http://127.0.0.1:{port}{path}")])
        .args(["--http2", "--for", "500ms", "--json"])
        .args(more)
        .output()
        .expect("jostle runs")
}

fn told(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn without_failures(output: &Output) -> Value {
    let told = told(output);
    assert_eq!(told["failed"], 0, "{told}");
    assert!(told["successes"].as_u64() > Some(20), "{told}");
    told
}

#[test]
fn requests_arrive_with_key_headers_and_body() {
    let (port, seen) = start(false);
    let output = load(
        port,
        "/items?n={key}",
        &[
            "--rate",
            "300/s",
            "--keys",
            "10",
            "--header",
            "X-Trace: t{key}",
            "--header",
            "Host: shop.example",
            "--body",
            "{\"id\": {key}}",
        ],
    );
    let told = without_failures(&output);
    assert_eq!(told["load"]["http2"], true);
    let heard = seen.lock().unwrap().heard.clone();
    let mut keys = BTreeSet::new();
    for Heard { request, body, .. } in &heard {
        let key = request.uri().query().unwrap().split_once('=').unwrap().1;
        keys.insert(key.to_string());
        let header = |name| request.headers()[name].to_str().unwrap();
        assert_eq!(request.method(), "POST");
        assert_eq!(request.uri().authority().unwrap(), "shop.example");
        assert_eq!(header("x-trace"), format!("t{key}"));
        assert_eq!(header("user-agent"), "jostle");
        assert_eq!(header("content-length"), body.len().to_string());
        assert_eq!(*body, format!("{{\"id\": {key}}}").into_bytes());
    }
    assert_eq!(keys.len(), 10);
}

#[test]
fn many_are_under_way_at_once_on_one_connection() {
    let (port, seen) = start(false);
    let how = ["--closed", "--connections", "1", "--pipeline", "8"];
    let told = without_failures(&load(port, "/slow", &how));
    // One after another there would be 25.
    assert!(told["successes"].as_u64() > Some(60), "{told}");
    let most = seen.lock().unwrap().at_once.values().map(|it| it.1).max();
    assert_eq!(most, Some(8));
    // Answers longer than the windows of the protocol.
    let how = ["--rate", "100/s", "--connections", "2", "--pipeline", "4"];
    without_failures(&load(port, "/large", &how));
}

#[test]
fn failures_are_counted_by_kind() {
    let (port, _) = start(false);
    let directory = tempfile::tempdir().unwrap();
    let mix = directory.path().join("mix.toml");
    let paths = ["/", "/missing", "/call", "/reset"];
    let requests = paths.map(|path| format!("[[request]]\npath = \"{path}\"\n"));
    std::fs::write(&mix, requests.concat()).unwrap();
    let how = ["--rate", "1k/s", "--mix", mix.to_str().unwrap()];
    let told = told(&load(port, "", &how));
    let failures = &told["failures"];
    for (kind, example) in [
        ("http_4xx", "404 Not Found"),
        ("error_reply", "grpc-status 14 down"),
        ("reset", "unexpected internal error"),
    ] {
        assert!(
            failures[kind]["count"].as_u64() > Some(50),
            "{kind}: {told}"
        );
        let said = failures[kind]["example"].as_str().unwrap();
        assert!(said.contains(example), "{said}");
    }
    assert!(told["successes"].as_u64() > Some(50), "{told}");
    assert_eq!(failures.as_object().unwrap().len(), 3, "{told}");
}

#[test]
fn what_the_server_did_not_look_at_is_asked_again() {
    for (few, path) in [(true, "/"), (false, "/now-and-then")] {
        for how in [&["--rate", "2k/s"][..], &["--closed"]] {
            let (port, seen) = start(few);
            let more = [how, &["--connections", "2", "--pipeline", "4"]];
            without_failures(&load(port, path, &more.concat()));
            let heard = seen.lock().unwrap().heard.clone();
            let connections: BTreeSet<usize> = heard.iter().map(|it| it.connection).collect();
            // One asks whether anybody is there.
            match few {
                true => assert!(
                    connections.len() > 3 + heard.len() / (3 * FEW),
                    "{connections:?}"
                ),
                false => assert_eq!(connections.len(), 3),
            }
        }
    }
}

#[test]
fn what_cannot_be_sent_so_is_told() {
    let (port, _) = start(false);
    let refused = |port, more: &[&str], words: &str| {
        let output = load(port, "/", &[&["--closed"], more].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    };
    refused(
        port,
        &["--header", "Upgrade: websocket"],
        "leave --http2 out",
    );
    refused(port, &["--no-keep-alive"], "--no-keep-alive");
    // A server of HTTP/1.1, as it answers what it cannot read.
    let old = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = old.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in old.incoming().flatten() {
            use std::io::Write;
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            std::mem::forget(stream);
        }
    });
    refused(address.port(), &[], "answers with HTTP/1.1");
    // And the other way round.
    let output = Command::new(env!("CARGO_BIN_EXE_jostle"))
        .args([
            "load",
            &format!("http://127.0.0.1:{port}/"),
            "--closed",
            "--for",
            "1s",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--http2"), "{said}");
}
