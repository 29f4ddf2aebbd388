//! Another machine, as `jostle machine --json` printed it there, or as its machine
//! file.

use super::calibration::Calibration;
use super::calibration::FORMAT as MACHINE_FILE;
use jostle_profile::document;
use jostle_profile::reading::Reading;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_DOCUMENT;
use serde::Deserialize;
use std::path::Path;

/// What `jostle machine --json` prints.
pub const FORMAT: &str = "jostle-machine/1";

/// What is known of a machine from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// Of the file, without its ending.
    pub name: String,
    pub fingerprint: String,
    pub model: String,
    /// Logical CPUs that were allowed, and memory; a machine file does not say.
    pub cpus: Reading<u32>,
    pub memory_bytes: Reading<u64>,
    pub kernel: Reading<String>,
    /// `none` on bare metal.
    pub hypervisor: Reading<String>,
    pub smt: Reading<bool>,
    /// Name, size and CPUs that share one, from the first level on.
    pub caches: Vec<(String, u64, usize)>,
    pub calibration: Reading<Box<Calibration>>,
}

#[derive(Deserialize)]
struct Raw {
    fingerprint: String,
    model: String,
    smt: bool,
    allowed_cpus: Vec<usize>,
    memory: RawMemory,
    caches: Vec<RawCache>,
    kernel: String,
    hypervisor: Option<String>,
    calibration: Reading<Box<Calibration>>,
}

#[derive(Deserialize)]
struct RawMemory {
    total_bytes: u64,
}

#[derive(Deserialize)]
struct RawCache {
    level: u8,
    kind: String,
    size_bytes: u64,
    shared_cpus: Vec<usize>,
}

/// Reads `path`.
///
/// # Errors
/// In words, naming the file, where it cannot be read or is of something else.
pub fn load(path: &Path) -> Result<Described, String> {
    let named = |problem: String| format!("{}: {problem}", path.display());
    let bytes = regular::read(path, LONGEST_DOCUMENT).map_err(|error| named(error.to_string()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    parse(&bytes, &name).map_err(named)
}

/// A machine from the bytes of a file called `name`.
///
/// # Errors
/// In words, where they are of something else.
pub fn parse(bytes: &[u8], name: &str) -> Result<Described, String> {
    #[derive(Deserialize)]
    struct Head {
        format: Option<String>,
    }
    let head = serde_json::from_slice::<Head>(bytes).ok();
    let format = head.and_then(|head| head.format);
    let of_file = format.is_some_and(|it| it.starts_with("jostle-machine-file/"));
    let mut described = match of_file {
        true => {
            let what = "jostle machine file";
            let file: Calibration = document::parse(bytes, MACHINE_FILE, what).map_err(text)?;
            from_file(file)
        }
        false => {
            let what = "document of `jostle machine --json`";
            let raw: Raw = document::parse(bytes, FORMAT, what).map_err(text)?;
            from_document(raw)
        }
    };
    described.name = name.to_string();
    if let Reading::Value(calibration) = &described.calibration {
        calibration.check()?;
    }
    Ok(described)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn from_document(raw: Raw) -> Described {
    let mut caches: Vec<(String, u64, usize)> = Vec::new();
    for cache in raw.caches {
        let name = match (cache.level, cache.kind.as_str()) {
            (1, "data") => "L1d".to_string(),
            (1, "instruction") => "L1i".to_string(),
            (level, _) => format!("L{level}"),
        };
        let one = (name, cache.size_bytes, cache.shared_cpus.len());
        if !caches.contains(&one) {
            caches.push(one);
        }
    }
    Described {
        name: String::new(),
        fingerprint: raw.fingerprint,
        model: raw.model,
        cpus: Reading::Value(raw.allowed_cpus.len() as u32),
        memory_bytes: match raw.memory.total_bytes {
            0 => Reading::unavailable("the kernel did not tell"),
            bytes => Reading::Value(bytes),
        },
        kernel: Reading::Value(raw.kernel),
        hypervisor: Reading::Value(raw.hypervisor.unwrap_or("none".into())),
        smt: Reading::Value(raw.smt),
        caches,
        calibration: raw.calibration,
    }
}

fn from_file(file: Calibration) -> Described {
    const WHY: &str = "a machine file does not say; give what `jostle machine --json` prints";
    let sizes = file.sizes.iter().filter(|size| size.unit == "bytes");
    let caches = sizes.filter_map(|size| Some((size.name.clone(), *size.reported.value()?, 0)));
    Described {
        name: String::new(),
        fingerprint: file.fingerprint.clone(),
        model: file.model.clone(),
        cpus: Reading::unavailable(WHY),
        memory_bytes: Reading::unavailable(WHY),
        kernel: Reading::unavailable(WHY),
        hypervisor: Reading::unavailable(WHY),
        smt: Reading::unavailable(WHY),
        caches: caches.collect(),
        calibration: Reading::Value(Box::new(file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &[u8] = include_bytes!("../../../../tests/fixtures/machine.json");

    #[test]
    fn a_machine_file_is_a_machine_without_its_cpus() {
        let found = parse(FIXTURE, "m").unwrap();
        assert_eq!(
            (found.name.as_str(), found.model.as_str()),
            ("m", "Intel(R) Xeon(R) Processor")
        );
        assert!(
            found
                .cpus
                .reason()
                .unwrap()
                .contains("jostle machine --json")
        );
        assert!(found.caches.contains(&("L2".into(), 2_097_152, 0)));
    }

    #[test]
    fn half_a_file_and_other_documents_are_refused() {
        let half = parse(&FIXTURE[..FIXTURE.len() / 2], "m").unwrap_err();
        assert!(half.contains("cut short"), "{half}");
        let other = parse(b"{\"format\": \"jostle-profile/1\"}", "m").unwrap_err();
        assert!(other.contains("jostle-machine/1"), "{other}");
        let text = String::from_utf8_lossy(FIXTURE).replace(
            "\"duration_seconds\": 46.93790313",
            "\"duration_seconds\": -1",
        );
        let bad = parse(text.as_bytes(), "m").unwrap_err();
        assert!(bad.contains("duration_seconds"), "{bad}");
    }
}
