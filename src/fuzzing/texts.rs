//! Files that people and other programs write: patterns, recordings, configurations,
//! metric pages.

use super::finite;
use crate::agent::Config;
use jostle_host::inject::fit;
use jostle_host::inject::fit::capture;
use jostle_host::inject::fit::messages;
use jostle_host::inject::fit::trace;
use jostle_host::inject::pattern as storage;
use jostle_host::inject::traffic;
use jostle_measure::metric::fuzzing as metric;
use std::path::Path;

/// Patterns of I/O and of messages.
pub fn pattern(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(pattern) = storage::parse("pattern.toml", text) {
        finite::check("a pattern", &pattern);
    }
    if let Ok(pattern) = traffic::parse("traffic.toml", text) {
        finite::check("a pattern", &pattern);
        finite::check("its rate", &pattern.per_second(1));
    }
}

/// A recording, from which a pattern is made.
pub fn trace(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(read) = trace::read(&text, None, None)
        && let Ok(fitted) = fit::fit(&read, 4)
    {
        finite::check("a pattern", &fitted);
        let written = fit::toml(&fitted, "a recording");
        if let Err(error) = storage::parse("pattern.toml", &written) {
            panic!("what was written cannot be read: {error}\n{written}");
        }
    }
    for format in [capture::Format::Tcpdump, capture::Format::Csv] {
        if let Ok(read) = capture::read(&text, format, None)
            && let Ok(fitted) = messages::fit(&read, 2)
        {
            finite::check("a pattern", &fitted);
            let written = fit::traffic_toml(&fitted, "a recording");
            if let Err(error) = traffic::parse("traffic.toml", &written) {
                panic!("what was written cannot be read: {error}\n{written}");
            }
        }
    }
}

/// `agent.toml`.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(config) = Config::parse(text) {
        finite::check("the configuration", &config);
        config.describe(Path::new("agent.toml"));
    }
}

/// A page of metrics, in the format of Prometheus.
pub fn metrics_page(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        metric::page(text);
    }
}
