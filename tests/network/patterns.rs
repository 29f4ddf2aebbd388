//! Patterns of messages: from a capture, and played.

use crate::common::JOSTLE;
use crate::common::alone;
use crate::common::near;
use crate::common::once_of_three;
use crate::support::Sink;
use crate::support::output;
use crate::support::refused;
use crate::support::said;
use crate::support::source;
use jostle_host::inject::traffic;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::process::Output;

/// Bursts of eight messages of 1200 bytes and one of 300, 5 ms apart, with
/// acknowledgements, as tcpdump prints them.
fn captured(bursts: usize) -> String {
    let mut text = String::new();
    for burst in 0..bursts {
        for message in 0..9 {
            let seconds = 1_700_000_000.0 + burst as f64 * 0.005 + f64::from(message) * 20e-6;
            let bytes = if message == 8 { 300 } else { 1200 };
            text += &format!("{seconds:.6} IP 10.0.0.1.80 > 10.0.0.2.5: tcp {bytes}\n");
            text += &format!("{seconds:.6} IP 10.0.0.2.5 > 10.0.0.1.80: tcp 0\n");
        }
    }
    text
}

fn fit(trace: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(JOSTLE);
    command.args(["pattern", "fit"]).arg(trace).args(options);
    output(command)
}

/// The outcome of a run with the pattern in `file`.
fn played(sink: &Sink, file: &Path, intensity: &str) -> Value {
    let named = ["--network-pattern", file.to_str().unwrap(), "--json"];
    let asked = ["--network-protocol", "udp", "--intensity", intensity];
    let ran = output(source(
        None,
        sink.address,
        &[&named[..], &asked, &["--for", "1s"]].concat(),
    ));
    assert!(ran.status.success(), "{}", said(&ran));
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[test]
#[ignore = "full tier: takes long"]
fn a_pattern_is_fitted_to_a_capture_and_played() {
    let place = tempfile::tempdir().unwrap();
    let trace = place.path().join("capture.txt");
    let out = place.path().join("fitted.toml");
    std::fs::write(&trace, captured(1000)).unwrap();
    let fitted = fit(&trace, &["--out", out.to_str().unwrap()]);
    assert!(fitted.status.success(), "{}", said(&fitted));
    for word in ["2 sizes", "1.98", "180"] {
        let text = said(&fitted);
        assert!(text.contains(word), "no '{word}' in: {text}");
    }
    let pattern = traffic::load(out.to_str().unwrap()).unwrap();
    let (bytes, messages) = pattern.per_second(1).unwrap();
    assert!((bytes / 1.98e6 - 1.0).abs() < 0.01, "{bytes}");
    assert!((messages / 1800.0 - 1.0).abs() < 0.01, "{messages}");

    let _alone = alone();
    let sink = Sink::here("127.0.0.1");
    for (intensity, share) in [("100", 1.0), ("40", 0.4)] {
        once_of_three(intensity, || {
            let ran = played(&sink, &out, intensity);
            let number = |key: &str| ran[key].as_f64().unwrap();
            near(
                number("achieved_pressure") / 1.98e6,
                share * 0.85,
                share * 1.15,
            )?;
            near(
                number("requests_per_second") / 1800.0,
                share * 0.85,
                share * 1.15,
            )?;
            near(number("full_scale_pressure") / 1.98e6, 0.98, 1.02)
        });
    }
}

#[test]
fn what_cannot_be_sent_in_time_is_given_up_and_reported() {
    let _alone = alone();
    let sink = Sink::here("127.0.0.1");
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("flood.toml");
    // A terabyte a second.
    let text = "[[message]]\nname = \"all\"\nbytes = 1000000\n\
                [[transition]]\nfrom = \"all\"\nto = \"all\"\nprobability = 1\n\
                inter_arrival_us = 1\n";
    std::fs::write(&file, text).unwrap();
    let ran = played(&sink, &file, "100");
    let behind = ran["behind_percent"].as_f64().unwrap();
    assert!((80.0..=101.0).contains(&behind), "{ran}");
    assert!(ran["achieved_percent"].as_f64().unwrap() < 20.0, "{ran}");
}

#[test]
fn recordings_that_are_none_say_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let trace = place.path().join("capture.txt");
    let (few, one) = (captured(5), captured(20));
    let both = one.replace("tcp 0", "tcp 7");
    let late = captured(20) + "1700000060.0 IP 10.0.0.1.80 > 10.0.0.2.5: tcp 5\n";
    let cases: [(&[u8], &[&str], &[&str]); 8] = [
        (both.as_bytes(), &[], &["--from", "10.0.0.2 (180 messages)"]),
        (
            both.as_bytes(),
            &["--from", "10.0.0.9"],
            &["10.0.0.9", "10.0.0.1 ("],
        ),
        (
            few.as_bytes(),
            &[],
            &["holds 45 messages", "100 are the fewest"],
        ),
        (
            &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0],
            &[],
            &["binary", "tcpdump -r FILE -tt -nn -q"],
        ),
        (&[0x07, 0x74, 0x61, 0x65], &[], &["blkparse -i"]),
        (b"nothing of the kind\n", &[], &["tcpdump", "blkparse"]),
        (
            one.as_bytes(),
            &["--ranges", "4"],
            &["--ranges", "block I/O"],
        ),
        (one.as_bytes(), &["--format", "pcap"], &["tcpdump or csv"]),
    ];
    for (text, options, words) in cases {
        std::fs::write(&trace, text).unwrap();
        refused(&fit(&trace, options), 2, words);
    }
    std::fs::write(&trace, late).unwrap();
    let parted = fit(&trace, &[]);
    assert!(parted.status.success());
    assert!(said(&parted).contains("1 gaps"), "{}", said(&parted));
    let text = String::from_utf8(parted.stdout).unwrap();
    traffic::parse("fitted", &text).unwrap();
}
