//! Performance monitoring units as sysfs describes them: their events, the
//! fields those are made of, units and scales.
//!
//! `perf_event::events::Dynamic` reads a part of this, but not below another
//! root, not fields in several pieces (`config:0-7,32-35`), and it wants every
//! field given.

use super::error::Error;
use jostle_host::os;
use jostle_host::os::cpulist;
use jostle_host::os::sysfs;
use jostle_host::os::sysfs::EVENT_SOURCES as DEVICES;
use jostle_host::os::text;
use jostle_host::sys::perf_group::EventConfig;
use std::path::Path;
use std::path::PathBuf;

/// One unit of the machine.
pub(super) struct Pmu {
    pub name: String,
    kind: u32,
    root: PathBuf,
    /// The CPUs to ask, for a unit that is not a CPU's own.
    pub cpus: Option<Vec<usize>>,
}

/// An event of a unit and what one count of it means.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PmuEvent {
    pub config: EventConfig,
    /// Of one count, in `unit`.
    pub scale: f64,
    /// As sysfs writes it: `Joules`, `MiB`, … or nothing.
    pub unit: String,
}

/// Names of all units, sorted.
pub(super) fn units(root: &Path) -> Vec<String> {
    text::names(root, DEVICES).unwrap_or_default()
}

impl PmuEvent {
    /// The unit of a rate of these events, and what to multiply by. Units other
    /// than these are counted as events.
    pub fn rate_unit(&self) -> (&'static str, f64) {
        match &*self.unit {
            "Joules" => ("W", 1.0),
            "MiB" => ("B/s", 1_048_576.0),
            "KiB" => ("B/s", 1024.0),
            "bytes" | "Bytes" | "B" => ("B/s", 1.0),
            "" => ("events/s", 1.0),
            _ => ("scaled events/s", 1.0),
        }
    }
}

impl Pmu {
    pub fn open(root: &Path, name: &str) -> Result<Pmu, Error> {
        let units = units(root);
        if !units.iter().any(|other| other == name) {
            let name = name.into();
            return Err(Error::NoPmu { name, units });
        }
        let kind = sysfs::event_source(root, name)?;
        let cpus = cpulist::read(root, format!("{DEVICES}/{name}/cpumask"));
        let cpus = os::Error::absent_as_none(cpus)?;
        Ok(Pmu {
            name: name.into(),
            kind,
            root: root.into(),
            cpus,
        })
    }

    fn file(&self, path: &str) -> Result<String, os::Error> {
        text::text(&self.root, format!("{DEVICES}/{}/{path}", self.name))
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let path = format!("{DEVICES}/{}/{directory}", self.name);
        text::names(&self.root, path).unwrap_or_default()
    }

    /// Names of its events, sorted.
    pub fn events(&self) -> Vec<String> {
        self.names("events")
            .into_iter()
            .filter(|name| {
                ![".scale", ".unit", ".snapshot", ".per-pkg"]
                    .iter()
                    .any(|end| name.ends_with(end))
            })
            .collect()
    }

    /// One of [`Pmu::events`], or terms like `event=0x3c,umask=0x1`.
    pub fn event(&self, text: &str) -> Result<PmuEvent, Error> {
        let mut event = PmuEvent {
            config: EventConfig::new(self.kind, 0),
            scale: 1.0,
            unit: String::new(),
        };
        for term in text.split(',').map(str::trim) {
            if term.is_empty() {
                return Err(Error::EmptyTerm(text.into()));
            }
            let named = self.events().iter().any(|name| name == term);
            match named {
                true => self.set_named(&mut event, term)?,
                false => self.set(&mut event.config, term)?,
            }
        }
        Ok(event)
    }

    fn set_named(&self, event: &mut PmuEvent, name: &str) -> Result<(), Error> {
        let terms = self.file(&format!("events/{name}"))?;
        for term in terms.split(',') {
            self.set(&mut event.config, term.trim())?;
        }
        if let Ok(unit) = self.file(&format!("events/{name}.unit")) {
            event.unit = unit;
        }
        if let Ok(scale) = self.file(&format!("events/{name}.scale")) {
            let parsed = scale.parse().ok();
            event.scale = parsed
                .filter(|scale: &f64| scale.is_finite() && *scale > 0.0)
                .ok_or_else(|| Error::Scale {
                    pmu: self.name.clone(),
                    event: name.into(),
                    scale,
                })?;
        }
        Ok(())
    }

    fn set(&self, config: &mut EventConfig, term: &str) -> Result<(), Error> {
        let (field, value) = match term.split_once('=') {
            Some((field, value)) => (field, Some(value)),
            None => (term, None),
        };
        let value = match value {
            Some(text) => parse_value(text).ok_or_else(|| Error::Number {
                term: term.into(),
                text: text.into(),
            })?,
            None => 1,
        };
        let format = match field {
            "config" | "config1" | "config2" | "config3" => format!("{field}:0-63"),
            _ => {
                let format = self.file(&format!("format/{field}"));
                format.map_err(|_| Error::NoField {
                    pmu: self.name.clone(),
                    field: field.into(),
                    events: self.events(),
                    fields: self.names("format"),
                })?
            }
        };
        let rest = scatter(config, &format, value);
        let (pmu, field) = (self.name.clone(), field.into());
        match rest {
            Some(0) => Ok(()),
            Some(_) => Err(Error::TooLarge {
                pmu,
                field,
                format,
                value,
            }),
            None => Err(Error::Format { pmu, field, format }),
        }
    }
}

fn parse_value(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Lays the bits of `value`, lowest first, into the places that `format` names:
/// `config1:0-7,32-35`. The bits that are left over; `None` for another format.
fn scatter(config: &mut EventConfig, format: &str, value: u64) -> Option<u64> {
    let (word, places) = format.trim().split_once(':')?;
    let word = match word {
        "config" => &mut config.config,
        "config1" => &mut config.config1,
        "config2" => &mut config.config2,
        "config3" => &mut config.config3,
        _ => return None,
    };
    let mut rest = value;
    for place in places.split(',') {
        let (low, high) = place.split_once('-').unwrap_or((place, place));
        let low: u32 = low.trim().parse().ok()?;
        let high: u32 = high.trim().parse().ok()?;
        if low > high || high > 63 {
            return None;
        }
        let width = high - low + 1;
        let mask = u64::MAX >> (64 - width);
        *word &= !(mask << low);
        *word |= (rest & mask) << low;
        rest = rest.checked_shr(width).unwrap_or(0);
    }
    Some(rest)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use jostle_host::os::fake::tree;

    pub fn cpu_and_memory() -> tempfile::TempDir {
        let d = |path: &str| format!("{DEVICES}/{path}");
        let files: Vec<(String, &str)> = vec![
            (d("cpu/type"), "4\n"),
            (d("cpu/format/event"), "config:0-7,32-35\n"),
            (d("cpu/format/umask"), "config:8-15\n"),
            (d("cpu/format/inv"), "config:23\n"),
            (d("cpu/format/offcore"), "config1:0-63\n"),
            (d("cpu/format/broken"), "somewhere\n"),
            (d("cpu/events/loads"), "event=0x1d0,umask=0x81\n"),
            (d("uncore_imc_0/type"), "20\n"),
            (d("uncore_imc_0/cpumask"), "0,4\n"),
            (d("uncore_imc_0/format/event"), "config:0-7\n"),
            (d("uncore_imc_0/format/umask"), "config:8-15\n"),
            (
                d("uncore_imc_0/events/cas_count_read"),
                "event=0x04,umask=0x03\n",
            ),
            (
                d("uncore_imc_0/events/cas_count_read.scale"),
                "6.103515625e-5\n",
            ),
            (d("uncore_imc_0/events/cas_count_read.unit"), "MiB\n"),
            (
                d("uncore_imc_0/events/cas_count_write"),
                "event=0x04,umask=0x0c\n",
            ),
            (
                d("uncore_imc_0/events/cas_count_write.scale"),
                "6.103515625e-5\n",
            ),
            (d("uncore_imc_0/events/cas_count_write.unit"), "MiB\n"),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, *text)).collect();
        tree(&files)
    }

    #[test]
    fn events_become_numbers() {
        let root = cpu_and_memory();
        let cpu = Pmu::open(root.path(), "cpu").unwrap();
        let config = |text: &str| cpu.event(text).unwrap().config;
        assert_eq!(
            config("event=0x3c,umask=0x1,inv"),
            EventConfig::new(4, 0x80_013c)
        );
        // A field in two pieces.
        assert_eq!(config("loads"), EventConfig::new(4, 0x1_0000_81d0));
        assert_eq!(config("config=0xff").config, 0xff);
        assert_eq!(config("event=1,offcore=0x10").config1, 0x10);
        let memory = Pmu::open(root.path(), "uncore_imc_0").unwrap();
        assert_eq!(memory.cpus, Some(vec![0, 4]));
        let read = memory.event("cas_count_read").unwrap();
        assert_eq!(read.config, EventConfig::new(20, 0x0304));
        assert_eq!((read.scale, &*read.unit), (6.103515625e-5, "MiB"));
        assert_eq!(memory.events(), ["cas_count_read", "cas_count_write"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let root = cpu_and_memory();
        let cpu = Pmu::open(root.path(), "cpu").unwrap();
        let refuse = |text: &str, word: &str| {
            let problem = cpu.event(text).unwrap_err().to_string();
            assert!(problem.contains(word), "{text}: {problem}");
        };
        refuse("lods", "its events are loads");
        refuse("event=0x1000", "too large");
        refuse("event=x", "not a number");
        refuse("broken=1", "no format");
        refuse("", "empty term");
        let Err(problem) = Pmu::open(root.path(), "gpu") else {
            panic!("opened a PMU that is not there");
        };
        let problem = problem.to_string();
        assert!(problem.contains("it has cpu, uncore_imc_0"), "{problem}");
    }
}
