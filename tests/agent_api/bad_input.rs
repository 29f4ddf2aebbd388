//! What clients do wrong, by mistake or on purpose.

use crate::live::Live;
use crate::live::PATIENCE;
use crate::live::Reply;
use crate::live::exchange;
use jostle::agent::api::MOST_CONNECTIONS;
use std::io::Read;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use std::time::Instant;

const JSON: &str = "application/json";

/// Seconds until the server ends the connection, and what it said.
fn until_closed(mut stream: UnixStream) -> (f64, Vec<u8>) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let begin = Instant::now();
    let mut said = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => said.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("not closed: {error}"),
        }
    }
    (begin.elapsed().as_secs_f64(), said)
}

#[test]
fn large_bodies_are_refused() {
    let live = Live::start();
    let large = vec![b' '; (1 << 20) + 1];
    let error = live.post("/v1/place", JSON, &large).error(413);
    assert_eq!(error, "the body is larger than 1048576 bytes");
    // The length alone is enough, on any path.
    let head = "content-length: 99999999999\r\nconnection: close\r\n\r\n";
    live.send(&format!(
        "POST /v1/place HTTP/1.1\r\nhost: x\r\ncontent-type: {JSON}\r\n{head}"
    ))
    .error(413);
    live.send(&format!("GET /v1/node HTTP/1.1\r\nhost: x\r\n{head}"))
        .error(413);
    // In chunks, without a length.
    let mut chunks = format!(
        "POST /v1/place HTTP/1.1\r\nhost: x\r\ncontent-type: {JSON}\r\ntransfer-encoding: \
         chunked\r\nconnection: close\r\n\r\n"
    );
    for _ in 0..17 {
        chunks.push_str(&format!("10000\r\n{}\r\n", " ".repeat(0x10000)));
    }
    chunks.push_str("0\r\n\r\n");
    live.send(&chunks).error(413);
    assert_eq!(live.get("/readyz").status, 200);
}

#[test]
fn large_heads_are_refused() {
    let live = Live::start();
    let long = "x".repeat(20_000);
    let reply = live.send(&format!(
        "GET /healthz HTTP/1.1\r\nhost: x\r\nx: {long}\r\n\r\n"
    ));
    assert_eq!(reply.status, 431);
    let many: String = (0..200).map(|at| format!("x{at}: y\r\n")).collect();
    let reply = live.send(&format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{many}\r\n"));
    assert_eq!(reply.status, 431);
    let reply = live.send(&format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"));
    assert_eq!(reply.status, 431);
    assert_eq!(live.get("/healthz").status, 200);
}

#[test]
fn malformed_requests_are_refused() {
    let live = Live::start();
    for text in [
        "nonsense\r\n\r\n",
        "GET\r\n\r\n",
        "GET /healthz\r\n\r\n",
        "GET /healthz HTTP/9.9\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: x\r\nbad name: y\r\n\r\n",
        "GET /health\0z HTTP/1.1\r\nhost: x\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
        "POST /v1/place HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        "POST /v1/place HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    ] {
        let reply = live.send(text);
        assert_eq!(reply.status, 400, "{text:?}: {}", reply.head);
    }
    // HTTP/2 is not spoken.
    let mut two = live.connect();
    two.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    assert!(until_closed(two).0 < 1.0);
    assert_eq!(live.get("/healthz").status, 200);
}

#[test]
fn names_never_leave_what_the_agent_holds() {
    let live = Live::start();
    let secret = live.directory.path().join("secret.json");
    std::fs::copy(live.store.directory().join("gzip.json"), secret).unwrap();
    let long = "x".repeat(5000);
    for name in [
        "../secret",
        "../../etc/passwd",
        "..%2fsecret",
        "%2e%2e%2fsecret",
        "%2e%2e/%2e%2e/etc/passwd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "gzip%00",
        "gzip.json",
        "%2fetc%2fpasswd",
        "history",
        "broken",
        ".",
        "..",
        "",
        &long,
    ] {
        for kind in ["profiles", "workloads"] {
            let reply = live.get(&format!("/v1/{kind}/{name}"));
            let error = reply.error(404);
            assert!(error.len() < 400, "{error}");
        }
        let reply = live.get(&format!("/v1/place?profile={name}"));
        assert_eq!(reply.status, 404, "{name}: {}", reply.head);
    }
    live.get("/v1/profiles/%ff%fe").error(400);
    live.get("/v1/profiles/no%0d%0asuch%3a%20header").error(404);
}

#[test]
fn wrong_methods_and_queries_are_named() {
    let live = Live::start();
    let ask = |method: &str, path: &str| {
        live.send(&format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        ))
    };
    let reply = ask("POST", "/v1/node");
    assert_eq!(reply.header("allow"), Some("get,head"));
    reply.error(405);
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        ask(method, "/v1/place").error(405);
    }
    let error = live.get("/v1/node?pretty=1").error(400);
    assert_eq!(
        error,
        "unknown query key \"pretty\"; this path takes no query"
    );
    let error = live.get("/v1/place?profil=redis").error(400);
    assert_eq!(
        error,
        "unknown query key \"profil\"; this path takes profile, shares_cpus"
    );
    live.get("/v1/place?profile=redis&profile=gzip").error(400);
    live.get("/v1/place").error(400);
    live.get("/v2/node").error(404);
}

#[test]
fn what_is_no_profile_is_refused() {
    let live = Live::start();
    let whole = live.get("/v1/profiles/redis").body;
    let post = |body: &[u8]| live.post("/v1/place", JSON, body).error(400);
    assert_eq!(post(b""), "the body is empty; send a profile document");
    assert!(post(b"{").contains("cut short"));
    assert!(post(&whole[..whole.len() / 2]).contains("cut short"));
    assert!(post(b"[]").contains("not a JSON object"));
    assert!(post(b"{\"format\":\"jostle-blame/1\"}").contains("not a jostle profile"));
    assert!(post(b"{\"format\":\"jostle-profile/2\"}").contains("newer jostle"));
    assert!(post(b"{\"format\":\"jostle-profile/1\"}").contains("missing field"));
    assert!(post(&[0xff; 100]).contains("not valid JSON"));
    let deep = format!(
        "{{\"format\":\"jostle-profile/1\",\"x\":{}",
        "[".repeat(500_000)
    );
    post(deep.as_bytes());
    let mut wild: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    wild["qos"]["threshold"] = 7.into();
    let error = post(wild.to_string().as_bytes());
    assert!(error.contains("qos.threshold"), "{error}");
    for media in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let reply = live.post("/v1/place", media, &whole);
        assert!(reply.error(415).contains("application/json"));
    }
    let media = "Application/JSON; charset=utf-8";
    assert_eq!(live.post("/v1/place", media, &whole).status, 200);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let live = Live::start();
    let one = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let last = "GET /nowhere HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let all = exchange(
        live.connect(),
        format!("{}{last}", one.repeat(50)).as_bytes(),
    );
    let text = format!("{}\r\n\r\n{}", all.head, String::from_utf8_lossy(&all.body));
    assert_eq!(text.matches("\"alive\"").count(), 50);
    assert!(text.trim_end().ends_with("lists all\"}"), "{text}");
}

#[test]
fn half_open_connections_are_answered_and_closed() {
    let live = Live::start();
    let mut stream = live.connect();
    let ask = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(ask).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let (seconds, said) = until_closed(stream);
    assert_eq!(Reply::parse(&said).status, 200);
    assert!(seconds < 2.0, "{seconds}");
    // In the middle of a head there is nothing to answer.
    let mut stream = live.connect();
    stream.write_all(&ask[..20]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(until_closed(stream).0 < 2.0);
}

#[test]
fn slow_heads_and_silent_clients_are_cut_off() {
    let live = Live::start();
    // One that says nothing, one that stops in the middle, and one that trickles.
    let silent = live.connect();
    let mut half = live.connect();
    half.write_all(b"GET /healthz HTTP/1.1\r\nhost").unwrap();
    let trickle = live.connect();
    let mut writer = trickle.try_clone().unwrap();
    let trickling = std::thread::spawn(move || {
        let text = b"GET /healthz HTTP/1.1\r\nx-slow: ";
        let endless = text.iter().chain(std::iter::repeat(&b'x'));
        for byte in endless.take(300) {
            if writer.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("this took 15 s and was not cut off");
    });
    let closing = [silent, half, trickle].map(|it| std::thread::spawn(|| until_closed(it)));
    for one in closing {
        let (seconds, _) = one.join().unwrap();
        assert!((4.0..8.0).contains(&seconds), "{seconds}");
    }
    trickling.join().unwrap();
    assert_eq!(live.get("/healthz").status, 200);
}

#[test]
fn slow_bodies_are_cut_off() {
    let live = Live::start();
    let mut stream = live.connect();
    let head = format!(
        "POST /v1/place HTTP/1.1\r\nhost: x\r\ncontent-type: {JSON}\r\ncontent-length: 100\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let (seconds, said) = until_closed(stream);
    let error = Reply::parse(&said).error(408);
    assert!(error.contains("not complete within 10 s"), "{error}");
    assert!((9.0..14.0).contains(&seconds), "{seconds}");
    // One that ends in the middle.
    let mut cut = live.connect();
    cut.write_all(head.as_bytes()).unwrap();
    cut.shutdown(std::net::Shutdown::Write).unwrap();
    let (seconds, _) = until_closed(cut);
    assert!(seconds < 2.0, "{seconds}");
    assert_eq!(live.get("/healthz").status, 200);
}

#[test]
fn who_does_not_read_is_cut_off() {
    let live = Live::start();
    let mut stream = live.connect();
    stream
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let ask = b"GET /v1/node HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100);
    // Far more answers than buffers hold, of which none is read.
    let begin = Instant::now();
    while stream.write_all(&ask).is_ok() {}
    let cut = loop {
        match stream.write(b"G") {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break true,
            _ if begin.elapsed() > PATIENCE => break false,
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    };
    assert!(cut, "still open after {PATIENCE:?}");
    assert_eq!(live.get("/healthz").status, 200);
}

#[test]
fn a_thousand_connections_keep_nobody_out() {
    let live = Live::start();
    let mut crowd: Vec<UnixStream> = Vec::new();
    for _ in 0..1000 {
        let mut stream = live.connect();
        // Each begins a request and says no more.
        let _ = stream.write_all(b"GET /v1/node HTTP/1.1\r\nhost: x\r\n");
        crowd.push(stream);
    }
    for _ in 0..20 {
        let begin = Instant::now();
        assert_eq!(live.get("/v1/node").status, 200);
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    // All but the newest were closed for it.
    let closed = crowd.iter().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        let read = (&mut &**stream).read(&mut [0; 1]);
        !read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    });
    let closed = closed.count();
    assert!(closed >= 1000 - MOST_CONNECTIONS, "{closed}");
}
