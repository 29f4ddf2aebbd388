//! Over a link of known speed, built from two network namespaces and `tc`.
//! Without root or without iproute2 these tests say so and are skipped.

use crate::common::alone;
use crate::common::near;
use crate::common::once_of_three;
use crate::common::skip::have;
use crate::support::NOTICED;
use crate::support::Sink;
use crate::support::achieved;
use crate::support::refused;
use crate::support::said;
use crate::support::source;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

/// Of the links built here, payload and headers together.
const LINK_BYTES_PER_SECOND: f64 = 125e6;

/// Two namespaces and a link between them that carries 1 Gbit/s, gone with the
/// test.
struct Link {
    near: String,
    far: String,
}

impl Link {
    const NEAR: [&str; 2] = ["10.77.61.1/24", "fd77:61::1/64"];
    const FAR: [&str; 2] = ["10.77.61.2/24", "fd77:61::2/64"];

    /// `None`, saying why, where it cannot be had.
    fn build() -> Option<Link> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "jostle-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Relaxed)
        );
        let link = Link {
            near: format!("{name}-near"),
            far: format!("{name}-far"),
        };
        have("netns", link.configure()).map(|()| link)
    }

    fn configure(&self) -> Result<(), String> {
        let (near, far) = (self.near.as_str(), self.far.as_str());
        run("ip", &["netns", "add", near])?;
        run("ip", &["netns", "add", far])?;
        run(
            "ip",
            &[
                "-n", near, "link", "add", "veth", "type", "veth", "peer", "name", "veth", "netns",
                far,
            ],
        )?;
        for (namespace, addresses) in [(near, Self::NEAR), (far, Self::FAR)] {
            for address in addresses {
                let mut words = vec!["-n", namespace, "addr", "add", address, "dev", "veth"];
                if address.contains(':') {
                    words.push("nodad");
                }
                run("ip", &words)?;
            }
            run("ip", &["-n", namespace, "link", "set", "veth", "up"])?;
            let shaped = ["tbf", "rate", "1gbit", "burst", "128kb", "latency", "20ms"];
            let device = ["-n", namespace, "qdisc", "add", "dev", "veth", "root"];
            run("tc", &[&device[..], &shaped].concat())?;
        }
        Ok(())
    }

    fn sink(&self, family: usize) -> Sink {
        let ip = Self::FAR[family].split('/').next().unwrap();
        Sink::start(Some(&self.far), ip, &[])
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for namespace in [&self.near, &self.far] {
            let _ = run("ip", &["netns", "del", namespace]);
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program}: {error} (Debian package iproute2)"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{program} {}: {}",
            arguments.join(" "),
            said(&output).trim()
        )),
    }
}

#[test]
#[ignore = "full tier: takes long"]
fn a_link_of_known_speed_is_filled_and_dialled() {
    let _alone = alone();
    let Some(link) = Link::build() else {
        return;
    };
    for (family, protocol) in [(0, "tcp"), (1, "tcp"), (0, "udp"), (1, "udp")] {
        let sink = link.sink(family);
        let run = |intensity: &str| {
            let asked = [
                "--for",
                "1500ms",
                "--network-protocol",
                protocol,
                "--intensity",
                intensity,
            ];
            achieved(source(Some(&link.near), sink.address, &asked))
        };
        once_of_three(&format!("{protocol} to {} at 100 %", sink.address), || {
            let (rate, _) = run("100");
            assert!(
                rate < LINK_BYTES_PER_SECOND * 1.02,
                "more than the link carries: {rate}"
            );
            near(
                rate,
                LINK_BYTES_PER_SECOND * 0.85,
                LINK_BYTES_PER_SECOND * 1.02,
            )
        });
        if (family, protocol) == (1, "tcp") || (family, protocol) == (0, "udp") {
            continue;
        }
        for intensity in [10.0, 25.0, 50.0, 75.0] {
            once_of_three(
                &format!("{protocol} to {} at {intensity} %", sink.address),
                || {
                    near(
                        run(&intensity.to_string()).1,
                        intensity - 10.0,
                        intensity + 10.0,
                    )
                },
            );
        }
    }
}

#[test]
#[ignore = "full tier: takes long"]
fn a_link_that_breaks_ends_the_source_with_the_reason() {
    let _alone = alone();
    let Some(link) = Link::build() else {
        return;
    };
    for protocol in ["tcp", "udp"] {
        let sink = link.sink(0);
        let asked = [
            "--for",
            "100s",
            "--network-protocol",
            protocol,
            "--intensity",
            "50",
        ];
        let source = source(Some(&link.near), sink.address, &asked)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        run("ip", &["-n", &link.far, "link", "set", "veth", "down"]).unwrap();
        let began = Instant::now();
        let output = source.wait_with_output().unwrap();
        assert!(began.elapsed() < NOTICED, "{:?}", began.elapsed());
        refused(&output, 3, &[&sink.address.to_string(), "the sink "]);
        run("ip", &["-n", &link.far, "link", "set", "veth", "up"]).unwrap();
    }
}
