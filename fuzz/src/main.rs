//! All targets in one program; `scripts/fuzz` starts it with the name of one in
//! `JOSTLE_FUZZ`.
#![no_main]

use std::sync::OnceLock;

type Target = fn(&[u8]);

fn chosen() -> Target {
    let own: [(&str, Target); 2] = [
        ("answers", jostle_load::fuzzing::answers),
        ("url", jostle_load::fuzzing::url),
    ];
    let asked = std::env::var("JOSTLE_FUZZ").unwrap_or_default();
    let mut all = jostle::fuzzing::TARGETS.into_iter().chain(own);
    let found = all.find(|(name, _)| *name == asked);
    found.expect("set JOSTLE_FUZZ to the name of a target").1
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(chosen)(data);
});
