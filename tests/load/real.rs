//! Real servers, where they are installed.

use crate::servers::redis;
use crate::servers::server;
use crate::support::free_port;
use crate::support::message;
use crate::support::spec;
use crate::support::start;
use crate::support::try_start;
use crate::support::window;
use jostle_load::ErrorKind;
use jostle_load::Failure;
use jostle_load::LoadSpec;
use jostle_load::Pace;
use jostle_load::Percentile;
use std::process::Command;
use std::time::Duration;

fn answers(spec: LoadSpec, pace: Pace) -> jostle_load::Window {
    let mut generator = start(spec);
    generator.pace(pace);
    let window = window(&generator, Duration::from_millis(500));
    assert!(window.answered > 50, "{window:?}");
    // A server may close a connection while a request is on its way to it.
    let closed = window.failures.of(Failure::Closed);
    let words = &window.failures;
    assert_eq!(window.failures.total(), closed, "{words}");
    assert!(closed <= window.answered / 100, "{words}");
    assert!(window.percentile(Percentile::P50).unwrap().seconds > 1e-6);
    assert!(generator.cpu_ns() > 0 && !generator.facts().generator_cpus.is_empty());
    window
}

#[test]
#[ignore = "full tier: starts a server"]
fn redis_answers_and_holds_the_keys() {
    let Some(server) = redis() else { return };
    let url = format!("redis://127.0.0.1:{}/3", server.port);
    let with_keys = LoadSpec {
        prefill: true,
        keys: 5000,
        read_percent: 70.0,
        zipf_exponent: 0.9,
        ..spec(&url)
    };
    for (pace, pipeline) in [
        (Pace::Open(1000.0), 1),
        (Pace::Open(1000.0), 4),
        (Pace::Closed, 1),
        (Pace::Closed, 16),
    ] {
        let spec = LoadSpec {
            pipeline,
            ..with_keys.clone()
        };
        assert_eq!(answers(spec, pace).missing, 0);
    }
    // Of the other database every key is missing.
    let empty = answers(
        spec(&format!("redis://127.0.0.1:{}", server.port)),
        Pace::Open(500.0),
    );
    assert_eq!(empty.missing, empty.answered);
    if let Ok(told) = Command::new("redis-cli")
        .args(["-p", &server.port.to_string(), "-n", "3", "DBSIZE"])
        .output()
    {
        assert_eq!(String::from_utf8_lossy(&told.stdout).trim(), "5000");
    }
}

#[test]
#[ignore = "full tier: starts a server"]
fn redis_with_a_password_and_a_socket() {
    let Some(server) = server("redis-server", "redis-server", |port, directory| {
        let words = format!(
            "--port {port} --bind 127.0.0.1 --save  --requirepass s:cret --dir {0} --unixsocket /tmp/jostle-test-{port}.sock",
            directory.display()
        );
        words.split(' ').map(String::from).collect()
    }) else {
        return;
    };
    let port = server.port;
    let text = message(
        try_start(spec(&format!("redis://127.0.0.1:{port}"))),
        ErrorKind::Request,
    );
    assert!(
        text.contains("NOAUTH") && text.contains("password"),
        "{text}"
    );
    let text = message(
        try_start(spec(&format!("redis://:no@127.0.0.1:{port}"))),
        ErrorKind::Request,
    );
    assert!(
        text.contains("WRONGPASS") && !text.contains(":no@"),
        "{text}"
    );
    answers(
        spec(&format!("redis://:s%3Acret@127.0.0.1:{port}")),
        Pace::Open(500.0),
    );
    let socket = format!("/tmp/jostle-test-{port}.sock");
    let text = message(
        try_start(spec(&format!("redis+unix://{socket}"))),
        ErrorKind::Request,
    );
    drop(server);
    let _ = std::fs::remove_file(&socket);
    assert!(text.contains("NOAUTH"), "{text}");
}

#[test]
#[ignore = "full tier: starts a server"]
fn memcached_answers_and_holds_the_keys() {
    let Some(server) = server("memcached", "memcached", |port, _| {
        let words = format!("-p {port} -l 127.0.0.1 -u nobody");
        words.split(' ').map(String::from).collect()
    }) else {
        return;
    };
    let url = format!("memcached://127.0.0.1:{}", server.port);
    for (pace, pipeline) in [(Pace::Open(1000.0), 1), (Pace::Closed, 8)] {
        let spec = LoadSpec {
            prefill: true,
            keys: 5000,
            read_percent: 70.0,
            pipeline,
            ..spec(&url)
        };
        assert_eq!(answers(spec, pace).missing, 0);
    }
    let text = message(
        try_start(spec(&format!("redis://127.0.0.1:{}", server.port))),
        ErrorKind::Request,
    );
    assert!(text.contains("no redis server"), "{text}");
}

#[test]
#[ignore = "full tier: starts a server"]
fn nginx_serves_pages() {
    let newer = free_port();
    let Some(server) = server("nginx", "nginx-light", |port, directory| {
        let directory = directory.display();
        let configuration = format!(
            "daemon off; master_process off; pid {directory}/pid; error_log stderr; events {{}} \
             http {{ access_log off; client_body_temp_path {directory}; proxy_temp_path {directory}; \
             fastcgi_temp_path {directory}; uwsgi_temp_path {directory}; scgi_temp_path {directory}; \
             keepalive_requests 100; server {{ listen 127.0.0.1:{port}; \
             location / {{ return 200 'hello'; }} location /no {{ return 404; }} }} \
             server {{ listen 127.0.0.1:{newer} http2; location / {{ return 200 'hello'; }} }} }}"
        );
        let file = format!("{directory}/nginx.conf");
        std::fs::write(&file, configuration).expect("the directory is ours");
        vec!["-c".into(), file, "-p".into(), directory.to_string()]
    }) else {
        return;
    };
    let port = server.port;
    // Each connection ends after a hundred requests; that is no failure.
    let window = answers(
        spec(&format!("http://127.0.0.1:{port}/")),
        Pace::Open(2000.0),
    );
    assert!(window.answered > 400, "{}", window.answered);
    answers(spec(&format!("http://127.0.0.1:{port}/")), Pace::Closed);
    let text = message(
        try_start(spec(&format!("http://127.0.0.1:{port}/no"))),
        ErrorKind::Request,
    );
    assert!(text.contains("404"), "{text}");
    #[cfg(feature = "http2")]
    for pace in [Pace::Open(2000.0), Pace::Closed] {
        let spec = LoadSpec {
            http2: true,
            pipeline: 4,
            ..spec(&format!("http://127.0.0.1:{newer}/"))
        };
        assert!(answers(spec, pace).answered > 400);
    }
}
