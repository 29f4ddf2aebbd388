//! Servers with planted delays, stalls and faults.

mod support;

use jostle_load::Arrivals;
use jostle_load::ErrorKind;
use jostle_load::Failure;
use jostle_load::LatencyTarget;
use jostle_load::LoadSpec;
use jostle_load::Pace;
use jostle_load::Percentile;
use jostle_load::Window;
use jostle_load::find_capacity;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;
use support::Act;
use support::Fake;
use support::PAGE;
use support::Speaks;
use support::VALUE;
use support::free_port;
use support::message;
use support::redis_spec;
use support::spec;
use support::start;
use support::try_start;
use support::wait_until;
use support::window;

fn at(window: &Window, percentile: Percentile) -> f64 {
    window.percentile(percentile).expect("requests").seconds
}

#[test]
fn a_planted_delay_is_the_median() {
    let fake = Fake::start(Speaks::Redis, |_| {
        std::thread::sleep(Duration::from_millis(20));
        Act::Say(VALUE.into())
    });
    let mut generator = start(redis_spec(fake.port));
    generator.pace(Pace::Open(50.0));
    let window = window(&generator, Duration::from_secs(1));
    let median = at(&window, Percentile::P50);
    assert!((0.020..0.060).contains(&median), "{median}");
    assert_eq!(window.failures.total(), 0);
    assert!(window.due > 20, "{}", window.due);
}

/// A stall of 300 ms at 1000 requests/s delays some 300 of them. Counted from
/// the sending on, only as many as there are connections would be slow.
#[test]
fn a_stall_is_charged_to_every_request_that_was_due_in_it() {
    let stalled = Arc::new(Mutex::new(None::<Instant>));
    let armed = Arc::new(AtomicBool::new(false));
    let (until, arm) = (stalled.clone(), armed.clone());
    let fake = Fake::start(Speaks::Redis, move |_| {
        if arm.swap(false, Relaxed) {
            *until.lock().unwrap() = Some(Instant::now() + Duration::from_millis(300));
        }
        let until = *until.lock().unwrap();
        if let Some(left) = until.and_then(|it| it.checked_duration_since(Instant::now())) {
            std::thread::sleep(left);
        }
        Act::Say(VALUE.into())
    });
    let mut generator = start(LoadSpec {
        arrivals: Arrivals::Uniform,
        ..redis_spec(fake.port)
    });
    generator.pace(Pace::Open(1000.0));
    std::thread::sleep(Duration::from_millis(100));
    generator.open_window();
    std::thread::sleep(Duration::from_millis(300));
    armed.store(true, Relaxed);
    std::thread::sleep(Duration::from_millis(700));
    let window = generator.close_window().unwrap();
    assert!((900..1500).contains(&window.due), "{}", window.due);
    assert_eq!(window.failures.total(), 0, "{}", window.failures);
    let quick = window.within(Duration::from_millis(10));
    let late = window.answered - quick;
    assert!((250..700).contains(&late), "{late} of {}", window.answered);
    let p99 = at(&window, Percentile::P99);
    assert!((0.25..0.7).contains(&p99), "{p99}");
    // Waiting for the server is not the generator's own lateness.
    let own = window.lateness(Percentile::P99).unwrap();
    assert!(own < 0.1, "{own}");
}

#[test]
fn resets_are_counted_and_connected_again() {
    let fake = Fake::start(Speaks::Redis, |number| match number % 10 {
        9 => Act::Reset,
        _ => Act::Say(VALUE.into()),
    });
    let mut generator = start(redis_spec(fake.port));
    generator.pace(Pace::Open(500.0));
    let window = window(&generator, Duration::from_secs(1));
    let reset = window.failures.of(Failure::Reset) + window.failures.of(Failure::Closed);
    assert!(reset > 0 && window.answered > reset * 2, "{window:?}");
    assert_eq!(window.due, window.answered + window.failures.total());
}

#[test]
fn silence_is_a_timeout_and_never_a_success() {
    let fake = Fake::start(Speaks::Redis, |number| match number {
        // The first one is the question whether it is a redis.
        0 => Act::Say(VALUE.into()),
        _ => Act::Ignore,
    });
    let mut generator = start(LoadSpec {
        timeout: Duration::from_millis(100),
        ..redis_spec(fake.port)
    });
    generator.pace(Pace::Open(200.0));
    let window = window(&generator, Duration::from_millis(500));
    assert_eq!(window.answered, 0);
    assert_eq!(window.failures.of(Failure::Timeout), window.due);
    let told = window.percentile(Percentile::P50).unwrap();
    assert!(told.at_least && told.seconds >= 0.1);
    assert_eq!(window.within(Duration::from_secs(10)), 0);
}

#[test]
fn half_open_servers_and_wrong_protocols_are_told() {
    // Accepts by its backlog, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let quick = |port| LoadSpec {
        connect_timeout: Duration::from_millis(300),
        ..redis_spec(port)
    };
    let text = message(
        try_start(quick(silent.local_addr().unwrap().port())),
        ErrorKind::Environment,
    );
    assert!(text.contains("does not answer"), "{text}");
    let refused = message(try_start(quick(free_port())), ErrorKind::Environment);
    assert!(
        refused.contains("nobody listens at 127.0.0.1:") && refused.contains("start the server"),
        "{refused}"
    );
    let http = Fake::start(Speaks::Http, |_| Act::Say(PAGE.into()));
    let garbage = Fake::start(Speaks::Http, |_| Act::Say(b"SSH-2.0-x\r\n".into()));
    let text = message(
        try_start(spec(&format!("http://127.0.0.1:{}/", garbage.port))),
        ErrorKind::Request,
    );
    assert!(
        text.contains("SSH-2.0-x") && text.contains("scheme"),
        "{text}"
    );
    let missing = Fake::start(Speaks::Http, |_| {
        Act::Say(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".into())
    });
    let text = message(
        try_start(spec(&format!("http://127.0.0.1:{}/x", missing.port))),
        ErrorKind::Request,
    );
    assert!(text.contains("404 Not Found"), "{text}");
    start(spec(&format!("http://127.0.0.1:{}/", http.port)));
}

#[test]
fn garbage_in_the_middle_is_a_failure_of_its_own() {
    let fake = Fake::start(Speaks::Redis, |number| match number % 20 {
        19 => Act::Say(b"HELLO?\r\n".into()),
        18 => Act::Say(b"-OOM no memory\r\n".into()),
        _ => Act::Say(VALUE.into()),
    });
    let mut generator = start(redis_spec(fake.port));
    generator.pace(Pace::Open(500.0));
    let window = window(&generator, Duration::from_secs(1));
    let words = window.failures.to_string();
    assert!(window.failures.of(Failure::Protocol) > 0, "{words}");
    assert!(window.failures.of(Failure::ErrorReply) > 0, "{words}");
    assert!(
        words.contains("HELLO?") && words.contains("OOM no memory"),
        "{words}"
    );
}

#[test]
fn answers_that_drip_are_whole() {
    for (speaks, scheme, answer) in [
        (Speaks::Redis, "redis", VALUE),
        (
            Speaks::Http,
            "http",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".as_slice(),
        ),
    ] {
        let fake = Fake::start(speaks, |_| Act::Drip(answer.into()));
        let mut generator = start(spec(&format!("{scheme}://127.0.0.1:{}", fake.port)));
        generator.pace(Pace::Open(200.0));
        let window = window(&generator, Duration::from_millis(500));
        assert!(window.answered > 30, "{}", window.answered);
        assert_eq!(window.failures.total(), 0, "{}", window.failures);
    }
}

#[test]
fn http_errors_are_no_successes() {
    let fake = Fake::start(Speaks::Http, |number| match number % 4 {
        2 => Act::Say(b"HTTP/1.1 503 Too Busy\r\nContent-Length: 4\r\n\r\nbusy".into()),
        3 => Act::Say(b"HTTP/1.1 404 Gone\r\nContent-Length: 0\r\n\r\n".into()),
        _ => Act::Say(PAGE.into()),
    });
    let mut generator = start(spec(&format!("http://127.0.0.1:{}/", fake.port)));
    generator.pace(Pace::Open(400.0));
    let window = window(&generator, Duration::from_millis(500));
    let (busy, gone) = (
        window.failures.of(Failure::Http5xx),
        window.failures.of(Failure::Http4xx),
    );
    assert!(busy > 10 && gone > 10, "{}", window.failures);
    assert!(window.answered.abs_diff(busy + gone) < window.due / 5);
}

#[test]
fn a_server_that_starts_slowly_is_waited_for() {
    let port = free_port();
    let began = Instant::now();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is still free");
        Fake::on(
            listener,
            Speaks::Redis,
            Arc::new(|_| Act::Say(VALUE.into())),
        );
    });
    start(redis_spec(port));
    assert!(began.elapsed() >= Duration::from_millis(500));
}

#[test]
fn the_same_seed_asks_for_the_same_keys() {
    let run = |seed| {
        let fake = Fake::start(Speaks::Http, |_| Act::Say(PAGE.into()));
        let recorder = record_requests();
        let mut generator = start(LoadSpec {
            connections: 1,
            seed,
            zipf_exponent: 0.9,
            keys: 1000,
            ..spec(&format!("http://127.0.0.1:{}/{{key}}", recorder.0))
        });
        drop(fake);
        generator.pace(Pace::Open(2000.0));
        wait_until("fifty requests", || recorder.1.lock().unwrap().len() >= 51);
        // The first is the question whether it is a server.
        recorder.1.lock().unwrap()[1..51].to_vec()
    };
    let first = run(5);
    assert_eq!(first, run(5));
    assert_ne!(first, run(6));
}

type Requests = Arc<Mutex<Vec<String>>>;

/// An HTTP server that remembers the first line of each request.
fn record_requests() -> (u16, Requests) {
    use std::io::BufRead;
    use std::io::BufReader;
    use std::io::Write;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Requests::default();
    let seen = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = seen.clone();
            std::thread::spawn(move || {
                let mut writer = stream.try_clone().unwrap();
                for line in BufReader::new(stream).lines().map_while(|line| line.ok()) {
                    if line.starts_with("GET") {
                        seen.lock().unwrap().push(line);
                    } else if line.is_empty() && writer.write_all(PAGE).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (port, requests)
}

#[test]
fn nothing_is_sent_while_suspended_and_the_pause_is_not_charged() {
    let fake = Fake::start(Speaks::Redis, |_| Act::Say(VALUE.into()));
    let mut generator = start(redis_spec(fake.port));
    generator.pace(Pace::Open(500.0));
    wait_until("requests come", || fake.served.load(Relaxed) > 50);
    generator.suspend();
    std::thread::sleep(Duration::from_millis(20));
    let before = fake.served.load(Relaxed);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(fake.served.load(Relaxed), before);
    generator.resume();
    let window = window(&generator, Duration::from_millis(500));
    assert!((100..500).contains(&window.due), "{}", window.due);
    let worst = window.percentile(Percentile::P90).unwrap().seconds;
    assert!(worst < 0.2, "{worst}");
    assert_eq!(window.failures.total(), 0, "{}", window.failures);
}

#[test]
fn windows_follow_each_other_without_a_gap() {
    let fake = Fake::start(Speaks::Redis, |_| Act::Say(VALUE.into()));
    let mut generator = start(redis_spec(fake.port));
    generator.pace(Pace::Open(2000.0));
    generator.open_window();
    let mut sum: Option<Window> = None;
    let mut ends = Vec::new();
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(50));
        let window = generator.next_window().unwrap();
        ends.push((window.from_ns, window.to_ns));
        match &mut sum {
            Some(sum) => sum.merge(&window),
            None => sum = Some(window),
        }
    }
    assert!(ends.windows(2).all(|two| two[0].1 == two[1].0), "{ends:?}");
    let sum = sum.unwrap();
    assert_eq!(sum.due, sum.answered);
    let rate = sum.due as f64 / sum.seconds();
    assert!((1500.0..2500.0).contains(&rate), "{rate}");
}

/// One thread answers one request each 2 ms: 500/s and no more.
#[test]
fn a_planted_capacity_is_found() {
    let gate = Arc::new(Mutex::new(()));
    let count = Arc::new(AtomicU64::new(0));
    let (turn, served) = (gate.clone(), count.clone());
    let fake = Fake::start(Speaks::Redis, move |_| {
        let _turn = turn.lock().unwrap();
        std::thread::sleep(Duration::from_millis(2));
        served.fetch_add(1, Relaxed);
        Act::Say(VALUE.into())
    });
    let mut generator = start(LoadSpec {
        timeout: Duration::from_millis(500),
        connections: 16,
        ..redis_spec(fake.port)
    });
    let target: LatencyTarget = "p50:10ms".parse().unwrap();
    let found = find_capacity(
        &mut generator,
        target,
        None,
        &AtomicBool::new(false),
        &mut |_, _| (),
    )
    .unwrap();
    let rate = found.rate_per_second;
    assert!((150.0..=510.0).contains(&rate), "{found:?}");
    assert!(found.missed_at_per_second.unwrap() > rate);
    assert!(found.curve.len() > 3 && found.search_seconds > 0.5);
}
