//! HTTP loads, as a person types them: what arrives at a server that writes it down.

use crate::support::free_port;
use rustls::ServerConfig;
use rustls::ServerConnection;
use rustls::StreamOwned;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::sync::Arc;
use std::sync::Mutex;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
/// What HEAD is answered: a length without a body.
const HEADLESS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
const METRICS: &str = "# TYPE done counter\ndone ";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/tls")
        .join(name)
}

/// A request, and which connection it came on.
#[derive(Clone, Debug)]
struct Heard {
    connection: usize,
    head: String,
    body: String,
}

/// Answers every request, and writes it down. Its threads end with the process.
struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Server {
    fn start(tls: bool) -> Server {
        let config = tls.then(|| {
            let chain = vec![CertificateDer::from_pem_file(fixture("server.pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
            let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(chain, key)
                .unwrap();
            Arc::new(config)
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::<Mutex<Vec<Heard>>>::default();
        let told = heard.clone();
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().flatten().enumerate() {
                let _ = stream.set_nodelay(true);
                let (told, config) = (told.clone(), config.clone());
                std::thread::spawn(move || match config {
                    None => serve(stream, connection, &told),
                    Some(config) => {
                        let tls = ServerConnection::new(config).unwrap();
                        serve(StreamOwned::new(tls, stream), connection, &told);
                    }
                });
            }
        });
        Server { port, heard }
    }

    /// What was asked, but for the question whether anybody is there.
    fn asked(&self) -> Vec<Heard> {
        self.heard.lock().unwrap()[1..].to_vec()
    }
}

fn serve(mut stream: impl Read + Write, connection: usize, heard: &Mutex<Vec<Heard>>) {
    let mut held: Vec<u8> = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        if held.first().is_some_and(|byte| !byte.is_ascii_alphabetic()) {
            // What is no HTTP is told, and the connection ends.
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            return;
        }
        let end = held.windows(4).position(|four| four == b"\r\n\r\n");
        let head = end.map(|end| String::from_utf8_lossy(&held[..end + 2]).into_owned());
        let length = head.as_deref().map(|head| {
            let line = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "));
            line.map_or(0, |digits| digits.parse::<usize>().unwrap())
        });
        if let (Some(end), Some(head), Some(length)) = (end, head, length)
            && held.len() >= end + 4 + length
        {
            let body = held.drain(..end + 4 + length).skip(end + 4).collect();
            let body = String::from_utf8(body).unwrap();
            let page = format!("{METRICS}{}\n", heard.lock().unwrap().len());
            let answer = match head.as_str() {
                head if head.starts_with("HEAD") => HEADLESS.to_vec(),
                head if head.contains("Connection: close") => LAST.to_vec(),
                head if head.starts_with("GET /metrics") => format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}",
                    page.len()
                )
                .into_bytes(),
                _ => ANSWER.to_vec(),
            };
            let last = answer == LAST;
            heard.lock().unwrap().push(Heard {
                connection,
                head,
                body,
            });
            if stream.write_all(&answer).is_err() || stream.flush().is_err() || last {
                return;
            }
            continue;
        }
        match stream.read(&mut bytes) {
            Ok(count) if count > 0 => held.extend_from_slice(&bytes[..count]),
            _ => return,
        }
    }
}

fn load(url: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jostle"))
        .args([
            "load",
            url,
            "--connections",
            "4",
            "--for",
            "500ms",
            "--json",
        ])
        .args(more)
        .output()
        .expect("jostle runs")
}

fn sent(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["failed"], 0, "{told}");
    assert!(told["successes"].as_u64() > Some(20), "{told}");
    told
}

fn refused(output: &Output, code: i32, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn method_headers_and_body_arrive() {
    let server = Server::start(false);
    let url = format!("http://127.0.0.1:{}/items?n={{key}}", server.port);
    let told = sent(&load(
        &url,
        &[
            "--rate",
            "200/s",
            "--keys",
            "10",
            "--method",
            "PUT",
            "--header",
            "X-Trace: t{key}",
            "--body",
            "{\"id\": {key}}",
        ],
    ));
    assert_eq!(told["load"]["requests"][0]["method"], "PUT");
    assert!(
        !told.to_string().contains("X-Trace"),
        "headers may be secrets"
    );
    let asked = server.asked();
    // A last one may be on its way when the time is over.
    let more = asked.len() as u64 - told["successes"].as_u64().unwrap();
    assert!(more <= 4, "{more}");
    let mut keys = BTreeSet::new();
    for heard in &asked {
        let key = heard.head.split(['=', ' ']).nth(2).unwrap();
        keys.insert(key.to_string());
        assert!(heard.head.starts_with("PUT /items?n="), "{heard:?}");
        assert!(heard.head.contains(&format!("\r\nX-Trace: t{key}\r\n")));
        assert_eq!(heard.body, format!("{{\"id\": {key}}}"));
    }
    assert_eq!(keys.len(), 10);
    // A body from a file is a POST.
    let directory = tempfile::tempdir().unwrap();
    let body = directory.path().join("body");
    std::fs::write(&body, "from a file").unwrap();
    let url = format!("http://127.0.0.1:{}/", server.port);
    let at = format!("@{}", body.display());
    sent(&load(&url, &["--closed", "--body", &at]));
    let heard = server.asked().pop().unwrap();
    assert!(heard.head.starts_with("POST / HTTP/1.1"), "{heard:?}");
    assert_eq!(heard.body, "from a file");
}

#[test]
fn requests_of_a_file_come_as_often_as_it_says() {
    let server = Server::start(false);
    let url = format!("http://127.0.0.1:{}", server.port);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/patterns/requests.toml");
    let told = sent(&load(
        &url,
        &["--rate", "2000/s", "--mix", example.to_str().unwrap()],
    ));
    let asked = server.asked();
    let shares = told["load"]["requests"].as_array().unwrap();
    assert!(shares.len() >= 3);
    for request in shares {
        let method = request["method"].as_str().unwrap();
        let path = request["path"].as_str().unwrap();
        let start = format!("{method} {}", path.split("{key}").next().unwrap());
        let seen = asked.iter().filter(|heard| heard.head.starts_with(&start));
        let seen = 100.0 * seen.count() as f64 / asked.len() as f64;
        let share = request["share_percent"].as_f64().unwrap();
        assert!((seen - share).abs() < 10.0, "{start}: {seen} of {share} %");
    }
    let directory = tempfile::tempdir().unwrap();
    let wrong = directory.path().join("wrong.toml");
    std::fs::write(&wrong, "[[request]]\npath = \"nowhere\"\n").unwrap();
    let wrong = wrong.to_str().unwrap();
    refused(&load(&url, &["--closed", "--mix", wrong]), 2, "request 1");
    refused(
        &load(&format!("{url}/x"), &["--closed", "--mix", wrong]),
        2,
        "leave '/x' out",
    );
    refused(
        &load(&url, &["--closed", "--mix", "/dev/zero"]),
        2,
        "regular",
    );
}

#[test]
fn without_keep_alive_each_request_has_a_connection() {
    for tls in [false, true] {
        let server = Server::start(tls);
        let url = match tls {
            false => format!("http://127.0.0.1:{}/", server.port),
            true => format!("https://localhost:{}/", server.port),
        };
        for how in [&["--rate", "300/s"][..], &["--closed"]] {
            let more = [
                how,
                &["--no-keep-alive"],
                if tls { &["--tls-insecure"] } else { &[] },
            ];
            let before = server.heard.lock().unwrap().len();
            let told = sent(&load(&url, &more.concat()));
            assert_eq!(told["load"]["connection_per_request"], true);
            let asked = server.heard.lock().unwrap()[before..].to_vec();
            let connections: BTreeSet<usize> = asked.iter().map(|heard| heard.connection).collect();
            assert_eq!(connections.len(), asked.len());
            assert!(
                asked[1..]
                    .iter()
                    .all(|heard| heard.head.contains("Connection: close"))
            );
        }
    }
    // With it, a few carry all of them.
    let server = Server::start(false);
    sent(&load(
        &format!("http://127.0.0.1:{}/", server.port),
        &["--closed"],
    ));
    let asked = server.asked();
    let connections: BTreeSet<usize> = asked.iter().map(|heard| heard.connection).collect();
    assert_eq!(connections.len(), 4);
}

#[test]
fn answers_to_head_have_no_body() {
    let server = Server::start(false);
    let url = format!("http://127.0.0.1:{}/", server.port);
    sent(&load(&url, &["--closed", "--method", "HEAD"]));
    assert!(
        server
            .asked()
            .iter()
            .all(|heard| heard.head.starts_with("HEAD "))
    );
}

#[test]
fn certificates_are_believed_as_asked() {
    let server = Server::start(true);
    let url = format!("https://localhost:{}/", server.port);
    let [ca, stranger] = ["ca.pem", "stranger.pem"].map(fixture);
    let (ca, stranger) = (ca.to_str().unwrap(), stranger.to_str().unwrap());
    for (how, trust) in [
        (&["--rate", "300/s"][..], &["--tls-ca", ca][..]),
        (&["--closed"], &["--tls-insecure"]),
        (&["--closed", "--pipeline", "8"], &["--tls-ca", ca]),
    ] {
        let told = sent(&load(&url, &[how, trust].concat()));
        assert!(
            told["load"]["url"]
                .as_str()
                .unwrap()
                .starts_with("https://")
        );
    }
    refused(
        &load(&url, &["--closed", "--tls-ca", stranger]),
        2,
        "--tls-ca",
    );
    refused(&load(&url, &["--closed"]), 2, "--tls-ca");
    refused(
        &load(&url, &["--closed", "--tls-ca", "/nowhere"]),
        2,
        "/nowhere",
    );
    // The certificate is for localhost.
    let other = format!("https://127.0.0.2:{}/", free_port());
    let nobody = load(
        &other,
        &["--closed", "--tls-ca", ca, "--connect-timeout", "100ms"],
    );
    refused(&nobody, 3, "nobody listens");
    let plain = Server::start(false);
    let wrong = format!("https://localhost:{}/", plain.port);
    refused(
        &load(&wrong, &["--closed", "--tls-ca", ca]),
        2,
        "correct the scheme",
    );
    let wrong = format!("http://localhost:{}/", server.port);
    let output = load(&wrong, &["--closed"]);
    assert!([Some(2), Some(3)].contains(&output.status.code()));
}

#[test]
fn flags_without_effect_are_refused() {
    for (url, flag, more) in [
        ("redis://h", "--method", &["GET"][..]),
        ("redis://h", "--body", &["x"]),
        ("memcached://h", "--header", &["a: b"]),
        ("redis://h", "--no-keep-alive", &[]),
        ("http://h", "--tls-ca", &["x"]),
        ("redis://h", "--tls-insecure", &[]),
    ] {
        let more = [&["--closed", flag][..], more].concat();
        refused(&load(url, &more), 2, flag);
    }
    let one = ["--closed", "--no-keep-alive", "--pipeline", "4"];
    refused(&load("http://h", &one), 2, "--pipeline");
    for (flag, value, words) in [
        ("--header", "no colon", "colon"),
        ("--header", "Content-Length: 5", "by itself"),
        ("--method", "A B", "not a method"),
        ("--body", "@/nowhere", "/nowhere"),
    ] {
        refused(&load("http://h", &["--closed", flag, value]), 2, words);
    }
}

#[test]
fn a_page_of_metrics_is_read_with_tls() {
    let server = Server::start(true);
    let ca = fixture("ca.pem");
    let profile = |more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_jostle"))
            .args(["profile", "--resources", "cpu-time", "--budget", "2s"])
            .args(more)
            .args(["--", "sleep", "60"])
            .output()
            .expect("jostle runs")
    };
    let metric = format!("prometheus:https://localhost:{}:done", server.port);
    let metric = metric.as_str();
    let unknown = profile(&["--metric", metric, "--metric-ca", "/nowhere"]);
    refused(&unknown, 2, "--metric-ca");
    let other = profile(&["--metric", "ips", "--metric-ca", ca.to_str().unwrap()]);
    refused(&other, 2, "--metric-ca");
    let plain = metric.replace("https", "http");
    let plain = profile(&["--metric", &plain, "--metric-ca", ca.to_str().unwrap()]);
    refused(&plain, 2, "--metric-ca");
    // It grows by one with each look.
    let place = tempfile::tempdir().unwrap();
    let read = Command::new(env!("CARGO_BIN_EXE_jostle"))
        .current_dir(place.path())
        .args([
            "profile",
            "--resources",
            "cpu-time",
            "--budget",
            "6s",
            "--probe-interval",
            "1ms",
        ])
        .args(["--metric", metric, "--metric-ca", ca.to_str().unwrap()])
        .args(["--json", "--", "sleep", "60"])
        .output()
        .expect("jostle runs");
    let said = String::from_utf8_lossy(&read.stderr);
    // How often depends on how fast it seems to grow.
    assert!(server.heard.lock().unwrap().len() > 2, "{said}");
    assert!(!said.contains("certificate"), "{said}");
}
