//! What a fuzzer calls: one function for each kind of input that comes from elsewhere.
//!
//! Each takes any bytes and panics where something is wrong: the code under test
//! panics, accepts a number that is not finite, or contradicts itself. `fuzz/` wraps
//! them for libFuzzer; the tests here run them over the corpus there.

mod finite;
mod kernel;
mod placing;
mod profiles;
mod servers;
mod texts;

pub use kernel::elf;
pub use kernel::kernel;
pub use placing::nodes;
pub use placing::scenario;
pub use placing::stream;
pub use placing::windows;
pub use profiles::compare;
pub use profiles::profile;
pub use servers::extender;
pub use servers::sink;
pub use texts::config;
pub use texts::metrics_page;
pub use texts::pattern;
pub use texts::trace;

/// A function by the name of its corpus.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 14] = [
    ("compare", compare),
    ("config", config),
    ("elf", elf),
    ("extender", extender),
    ("kernel", kernel),
    ("metrics_page", metrics_page),
    ("nodes", nodes),
    ("pattern", pattern),
    ("profile", profile),
    ("scenario", scenario),
    ("sink", sink),
    ("stream", stream),
    ("trace", trace),
    ("windows", windows),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use std::path::PathBuf;

    fn corpus(name: &str) -> Vec<PathBuf> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        let files = fs::read_dir(directory.join(name)).unwrap();
        let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    #[test]
    fn every_corpus_is_read_without_a_fault() {
        for (name, run) in TARGETS {
            let files = corpus(name);
            assert!(!files.is_empty(), "{name} has no corpus");
            for file in files {
                run(&fs::read(file).unwrap());
            }
        }
    }

    /// Ends and single bytes changed: what a fuzzer tries first.
    #[test]
    fn damaged_inputs_are_refused_without_a_fault() {
        for (name, run) in TARGETS {
            let Some(file) = corpus(name).into_iter().next() else {
                continue;
            };
            let whole = fs::read(file).unwrap();
            let step = (whole.len() / 40).max(1);
            for at in (0..whole.len()).step_by(step) {
                run(&whole[..at]);
                for byte in [0, b'9', 0xff] {
                    let mut changed = whole.clone();
                    changed[at] = byte;
                    run(&changed);
                }
            }
        }
    }
}
