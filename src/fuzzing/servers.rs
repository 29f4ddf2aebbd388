//! What comes over sockets.

use crate::serve::extender::fuzzing::Asked;
use jostle_kernels::network::protocol::Answer;
use jostle_kernels::network::protocol::Header;
use jostle_kernels::network::protocol::Opening;
use jostle_kernels::network::protocol::Report;
use serde_json::Value;

/// Most lines of one input.
const MOST_LINES: usize = 16;

/// Lines of `METHOD PATH BODY`; `NODE`, `-NODE`, `POD` and `-POD` in place of a method
/// are objects that the API server has set or removed.
pub fn extender(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let asked = Asked::new();
    for line in text.lines().take(MOST_LINES) {
        let (method, rest) = line.split_once(' ').unwrap_or((line, ""));
        match method {
            "NODE" | "-NODE" => asked.object(true, method == "NODE", rest),
            "POD" | "-POD" => asked.object(false, method == "POD", rest),
            _ => {
                let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
                answered(&asked, method, path, body);
            }
        }
    }
}

fn answered(asked: &Asked, method: &str, path: &str, body: &str) {
    let Some((status, answer)) = asked.answer(method, path, body.as_bytes()) else {
        return;
    };
    assert!(
        !status.is_server_error(),
        "{method} {path}: {status}: {}",
        String::from_utf8_lossy(&answer)
    );
    if status.is_success() && matches!(path, "/filter" | "/prioritize" | "/v1/nodes") {
        let answer: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
        for host in answer.as_array().into_iter().flatten() {
            let score = host["Score"].as_i64().expect("a score is a whole number");
            assert!(
                (0..=10).contains(&score) || (0..=100).contains(&score),
                "{score}"
            );
        }
    }
}

/// What a sink and a source say to each other.
pub fn sink(data: &[u8]) {
    if let Some(header) = Header::read(data) {
        let mut written = [0; Header::BYTES];
        header.write(&mut written);
        assert_eq!(written[..], data[..Header::BYTES]);
    }
    let text = String::from_utf8_lossy(data);
    for line in text.lines().take(MOST_LINES) {
        match Opening::parse(line) {
            Ok(opening) => {
                let written = opening.line();
                assert_eq!(Opening::parse(written.trim_end_matches('\n')), Ok(opening));
            }
            Err(reason) => harmless(&reason),
        }
        match Answer::parse(line) {
            Ok(answer) => {
                let written = answer.line();
                assert_eq!(Answer::parse(written.trim_end_matches('\n')), Ok(answer));
            }
            Err(reason) => harmless(&reason),
        }
        if let Some(report) = Report::parse(line) {
            assert_eq!(
                Report::parse(report.line().trim_end_matches('\n')),
                Some(report)
            );
        }
    }
}

/// What goes to a terminal does not steer it, and is short.
fn harmless(text: &str) {
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert!(text.chars().count() < 400, "{} characters", text.len());
}
