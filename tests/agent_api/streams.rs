//! Server-sent events.

use crate::live::Live;
use jostle::agent::api::MOST_STREAMS;
use jostle_profile::node::EventKind;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use std::time::Instant;

struct Stream(BufReader<UnixStream>);

fn open(live: &Live, more: &str) -> Stream {
    let mut stream = live.connect();
    let head = "GET /v1/events HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n";
    write!(stream, "{head}{more}\r\n").unwrap();
    Stream(BufReader::new(stream))
}

impl Stream {
    /// Lines up to the one that holds `text`.
    #[track_caller]
    fn until(&mut self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let count = self.0.read_line(&mut line).unwrap();
            assert!(count > 0, "the stream ended before {text}: {lines:?}");
            lines.push(line.trim_end().to_string());
            if line.contains(text) {
                return lines;
            }
        }
    }
}

#[test]
fn a_stream_tells_what_was_and_what_comes() {
    let live = Live::start();
    let mut stream = open(&live, "");
    let begin = stream.until("\"refresh\":5");
    assert!(
        begin.contains(&"content-type: text/event-stream".into()),
        "{begin:?}"
    );
    assert!(begin.contains(&"retry: 2000".into()));
    assert!(begin.contains(&"id: 2".into()));
    live.board
        .tell(EventKind::Drifted, Some("gzip"), "changed\nits ways");
    let news = stream.until("changed");
    assert!(news.contains(&"id: 3".into()), "{news:?}");
    // A line break in a text does not end the data.
    assert!(
        news.last().unwrap().contains(r"changed\nits ways"),
        "{news:?}"
    );
    live.board.publish(crate::made::node(4, 6));
    stream.until("\"refresh\":6");
}

#[test]
fn who_comes_back_gets_what_was_missed() {
    let live = Live::start();
    let mut stream = open(&live, "last-event-id: 1\r\n");
    let begin = stream.until("\"refresh\"");
    assert!(
        !begin.contains(&"id: 1".into()) && begin.contains(&"id: 2".into()),
        "{begin:?}"
    );
    let mut wrong = open(&live, "last-event-id: x\r\n");
    assert!(wrong.until("HTTP/1.1")[0].contains("400"));
}

#[test]
fn streams_are_counted() {
    let live = Live::start();
    let mut streams: Vec<Stream> = (0..MOST_STREAMS).map(|_| open(&live, "")).collect();
    for stream in &mut streams {
        stream.until("\"refresh\"");
    }
    let asked = "GET /v1/events HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\nconnection: \
                 close\r\n\r\n";
    let error = live.send(asked).error(503);
    assert!(error.contains("32 event streams are open"), "{error}");
    // The list is still there, and one that ends makes place.
    assert_eq!(live.get("/v1/events").status, 200);
    drop(streams.pop());
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let mut again = open(&live, "");
        if again.until("HTTP/1.1")[0].contains("200") {
            break;
        }
        assert!(Instant::now() < deadline, "a place comes free");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn streams_end_with_the_server() {
    let mut live = Live::start();
    let mut stream = open(&live, "");
    stream.until("\"refresh\"");
    let begin = Instant::now();
    live.handle.take().unwrap().stop();
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stream.0, &mut rest).unwrap();
    // The last chunk: an end, not a broken connection.
    assert!(rest.ends_with("0\r\n\r\n"), "{rest:?}");
}
