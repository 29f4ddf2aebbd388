//! Pages of metrics, from a server that does what it is told.

use crate::common::impatient;
use crate::common::message;
use crate::common::sh;
use crate::support::start;
use crate::support::window;
use jostle_measure::metric::MetricOptions;
use jostle_measure::metric::StdoutKind;
use jostle_profile::Direction;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::time::Duration;
use std::time::Instant;

/// Serves what `page` makes of the seconds since the start, until the tests end.
fn server(page: impl Fn(f64, &mut TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let begin = Instant::now();
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            page(begin.elapsed().as_secs_f64(), &mut stream);
        }
    });
    address
}

fn answer(stream: &mut TcpStream, status: &str, body: &str) {
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
}

fn pages(page: impl Fn(f64) -> String + Send + 'static) -> String {
    server(move |seconds, stream| answer(stream, "200 OK", &page(seconds)))
}

fn quick() -> MetricOptions {
    MetricOptions {
        probe_interval: Duration::from_millis(20),
        ..Default::default()
    }
}

fn read(
    address: &str,
    metric: &str,
    options: &MetricOptions,
) -> jostle_measure::error::Result<f64> {
    let request = format!("prometheus:http://{address}/metrics:{metric}");
    let mut started = start(&sh("exec sleep 1000"), &request, options)?;
    let length = started.1.natural_window().unwrap();
    assert!(length < Duration::from_secs(20), "{length:?}");
    window(&mut started, length)
}

#[test]
fn counters_become_rates_even_when_reset() {
    let address = pages(|seconds| {
        // Begins anew every two seconds.
        let served = (1000.0 * (seconds % 2.0)) as u64;
        format!(
            "# TYPE served counter\nserved{{code=\"200\"}} {served}\nserved{{code=\"500\"}} 7\n"
        )
    });
    for _ in 0..3 {
        let rate = read(&address, "served", &quick()).unwrap();
        assert!(rate > 1.0 && rate < 1500.0, "{rate}");
    }
    let text = message(read(&address, "served{code=\"500\"}", &impatient()), 2);
    assert!(text.contains("stood still"), "{text}");
}

#[test]
fn gauges_are_averaged_and_untyped_totals_taken_at_their_word() {
    let address = pages(|seconds| format!("level 8\ntotal {}\n", 100.0 * seconds));
    assert_eq!(read(&address, "level", &quick()).unwrap(), 8.0);
    let lower = MetricOptions {
        direction: Direction::Lower,
        ..quick()
    };
    assert_eq!(read(&address, "level", &lower).unwrap(), 0.125);
    let rate = MetricOptions {
        kind: StdoutKind::Rate,
        ..quick()
    };
    let value = read(&address, "total", &rate).unwrap();
    assert!(value > 50.0 && value < 150.0, "{value}");
}

#[test]
fn percentiles_come_from_histograms_and_summaries() {
    let address = pages(|seconds| {
        let all = (10_000.0 * seconds) as u64;
        let fast = all / 2;
        format!(
            "# TYPE took histogram\ntook_bucket{{le=\"0.1\"}} {fast}\ntook_bucket{{le=\"0.3\"}} {all}\n\
             took_bucket{{le=\"+Inf\"}} {all}\ntook_count {all}\ntook_sum 1\n\
             # TYPE waited summary\nwaited{{quantile=\"0.9\"}} 0.25\nwaited_count 3\n"
        )
    });
    // Half of the way from 0.1 to 0.3; lower is better.
    let performance = read(&address, "took:p75", &quick()).unwrap();
    assert!((1.0 / performance - 0.2).abs() < 0.01, "{performance}");
    assert_eq!(read(&address, "waited:p90", &quick()).unwrap(), 4.0);
    let rate = read(&address, "took_count", &quick()).unwrap();
    assert!(rate > 5000.0 && rate < 15_000.0, "{rate}");
    let text = message(read(&address, "waited:p99", &quick()), 2);
    assert!(text.contains("it has p90"), "{text}");
}

#[test]
fn what_is_no_page_of_metrics_is_explained() {
    let ask = |address: &str, metric: &str, code| {
        let options = MetricOptions {
            probe_timeout: Duration::from_secs(1),
            ..impatient()
        };
        message(read(address, metric, &options), code)
    };
    let malformed = pages(|_| "up 1\nthis is { not\n".into());
    let text = ask(&malformed, "up", 2);
    assert!(
        text.contains("line 2") && text.contains("this is"),
        "{text}"
    );
    let fine = pages(|_| "requests_total 1\n".into());
    let text = ask(&fine, "request_total", 2);
    assert!(text.contains("near names: requests_total"), "{text}");
    let lost = server(|_, stream| answer(stream, "404 Not Found", "no"));
    let text = ask(&lost, "up", 2);
    assert!(text.contains("status 404"), "{text}");
    let slow = server(|_, stream| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n");
        std::thread::sleep(Duration::from_secs(3));
    });
    let text = ask(&slow, "up", 2);
    assert!(text.contains("--probe-timeout"), "{text}");
    let garbage = server(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\n\xff\n");
    });
    let text = ask(&garbage, "up", 2);
    assert!(text.contains("line 2 is not UTF-8"), "{text}");
    let huge = server(|_, stream| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        let block = b"some_metric 1\n".repeat(10_000);
        for _ in 0..1000 {
            if stream.write_all(&block).is_err() {
                return;
            }
        }
    });
    let options = MetricOptions {
        probe_timeout: Duration::from_secs(60),
        ..impatient()
    };
    let text = message(read(&huge, "up", &options), 2);
    assert!(text.contains("larger than 16 MiB"), "{text}");
    // Nobody there, and a server that speaks something else.
    let text = ask("127.0.0.1:1", "up", 3);
    assert!(text.contains("127.0.0.1:1"), "{text}");
    let other = server(|_, stream| drop(stream.write_all(b"-ERR unknown command\r\n")));
    assert!(ask(&other, "up", 2).contains("--metric prometheus"));
}

#[test]
fn a_server_that_starts_late_is_waited_for() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(400));
        let listener = TcpListener::bind(address).unwrap();
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            answer(&mut stream, "200 OK", "level 2\n");
        }
    });
    assert_eq!(read(&address.to_string(), "level", &quick()).unwrap(), 2.0);
}
