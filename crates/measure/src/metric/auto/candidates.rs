//! Functions whose calls may serve as progress: those that a program is seen in,
//! those that called them, and those that these call.

use super::call::Call;
use super::image::Image;
use super::image::Mapped;
use crate::metric::spot;
use jostle_host::sys::probe;
use jostle_host::sys::sampling::Sample;
use jostle_statistics::ByNumber;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;

/// Most functions of each kind that are tried.
const MOST_SEEN: usize = 64;
const MOST_CALLED: usize = 96;
const MOST_IMPORTED: usize = 64;
/// Smallest share of the samples in which a function must be on the stack so
/// that what it calls is tried too.
const CALLER_SHARE: f64 = 0.1;

/// Smallest share of the time in a function whose calls and jumps are tried.
const HOT_SHARE: f64 = 0.02;
/// Most calls and jumps that are tried, together and of one function.
const MOST_BRANCHES: usize = 600;
const MOST_OF_ONE: usize = 300;

/// A function that may be counted, or an instruction within one.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    image: Rc<Image>,
    index: usize,
    /// Bytes from the beginning of the function.
    inside: u64,
    /// Share of the samples in the function itself; 0 for an instruction within one.
    pub hot: f64,
}

impl Candidate {
    pub(super) fn file(&self) -> &Path {
        &self.image.file
    }

    /// Symbol, or address as `0x…`; within the function with a distance.
    pub(super) fn name(&self) -> String {
        let function = &self.image.starts[self.index].name;
        match self.inside {
            0 => function.clone(),
            inside => format!("{function}+{inside:#x}"),
        }
    }

    /// The function that it is, or is in.
    pub(super) fn function(&self) -> (&Path, usize) {
        (self.file(), self.index)
    }

    /// Whether it is an instruction within a function.
    pub(super) fn is_within(&self) -> bool {
        self.inside != 0
    }

    /// Bytes from the beginning of the file to what is counted.
    pub(super) fn offset(&self) -> u64 {
        self.image.starts[self.index].offset + self.inside
    }

    /// What is counted of it.
    pub(super) fn call(&self) -> Call {
        Call {
            file: self.file().to_path_buf(),
            symbol: self.name(),
            offset: self.spot().0,
        }
    }

    /// The instruction that is probed, and its bytes.
    pub(super) fn spot(&self) -> (u64, Vec<u8>) {
        let code = self.image.code(self.offset(), 64);
        let ahead = if self.inside == 0 {
            spot::offset(code)
        } else {
            0
        };
        (self.offset() + ahead as u64, code[ahead..].to_vec())
    }

    /// Whether a probe leaves the program as it is.
    fn can_be_probed(&self) -> bool {
        !probe::is_mistaken(&self.spot().1)
    }
}

/// A function: its file and its index there.
type Key = (PathBuf, usize);

/// What the samples showed.
pub(super) struct Seen {
    /// Candidates by how promising they are.
    pub candidates: Vec<Candidate>,
    /// Functions of other files that those use, for when none of these will do.
    pub imported: Vec<Candidate>,
    /// Calls and jumps within the functions that take most of the time.
    pub branches: Vec<Candidate>,
    pub samples: usize,
    /// Share of the samples in code that belongs to no file: made at run time.
    pub unknown_share: f64,
}

/// Looks through `samples`; `mapped` holds what each process has mapped.
pub(super) fn collect(samples: &[Sample], mapped: &HashMap<i32, Mapped>) -> Seen {
    let mut images: BTreeMap<PathBuf, Rc<Image>> = BTreeMap::new();
    let mut counts: BTreeMap<Key, usize> = BTreeMap::new();
    let mut hot: BTreeMap<Key, usize> = BTreeMap::new();
    let mut unknown = 0;
    for sample in samples {
        let Some(mapped) = mapped.get(&sample.pid) else {
            continue;
        };
        let mut on_stack: BTreeSet<Key> = BTreeSet::new();
        let mut keep = |image: &Rc<Image>, offset: u64| {
            if let Some(index) = image.function(offset) {
                let known = images.entry(image.file.clone());
                known.or_insert_with(|| image.clone());
                on_stack.insert((image.file.clone(), index));
            }
        };
        match mapped.find(sample.address) {
            Some((image, offset)) => {
                keep(image, offset);
                if let Some(index) = image.function(offset) {
                    *hot.entry((image.file.clone(), index)).or_default() += 1;
                }
            }
            None => unknown += 1,
        }
        for &word in &sample.stack {
            // A return address follows the call that it returns from.
            if let Some((image, offset)) = mapped.find(word)
                && image.follows_call(offset)
            {
                keep(image, offset - 1);
            }
        }
        for key in on_stack {
            *counts.entry(key).or_default() += 1;
        }
    }
    let total = samples.len().max(1) as f64;
    let share = |count: usize| count as f64 / total;
    let ranked = |counts: BTreeMap<Key, usize>| {
        let counts = counts.into_iter();
        let mut ranked: Vec<(Key, f64)> = counts.map(|(key, count)| (key, share(count))).collect();
        ranked.sort_by_number(|it| -it.1);
        ranked
    };
    let (mut seen, hot) = (ranked(counts), ranked(hot));
    let known: BTreeSet<Key> = seen.iter().map(|(key, _)| key.clone()).collect();
    let mut called: BTreeMap<Key, f64> = BTreeMap::new();
    for ((file, index), share) in &seen {
        if *share < CALLER_SHARE {
            continue;
        }
        for callee in images[file].called_by(*index) {
            let key = (file.clone(), callee);
            if !known.contains(&key) {
                let most = called.entry(key).or_insert(0.0);
                *most = most.max(*share);
            }
        }
    }
    let mut called: Vec<(Key, f64)> = called.into_iter().collect();
    called.sort_by_number(|it| -it.1);
    let imported = imported(&images, mapped, &known);
    let branches = branches(&images, &hot);
    let hot: HashMap<Key, f64> = hot.into_iter().collect();
    seen.truncate(MOST_SEEN);
    called.truncate(MOST_CALLED);
    let candidate = |(key, _): (Key, f64)| Candidate {
        image: images[&key.0].clone(),
        index: key.1,
        inside: 0,
        hot: hot.get(&key).copied().unwrap_or(0.0),
    };
    let candidates: Vec<Candidate> = seen.into_iter().chain(called).map(candidate).collect();
    let [candidates, imported, branches] = [candidates, imported, branches].map(|mut all| {
        all.retain(Candidate::can_be_probed);
        all
    });
    Seen {
        candidates,
        imported,
        branches,
        samples: samples.len(),
        unknown_share: share(unknown),
    }
}

/// Calls and jumps of the functions in `hot`, evenly over a long one.
fn branches(images: &BTreeMap<PathBuf, Rc<Image>>, hot: &[(Key, f64)]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for ((file, index), share) in hot {
        if *share < HOT_SHARE {
            break;
        }
        let all = images[file].branches(*index);
        let step = all.len().div_ceil(MOST_OF_ONE).max(1);
        found.extend(all.into_iter().step_by(step).map(|inside| Candidate {
            image: images[file].clone(),
            index: *index,
            inside,
            hot: 0.0,
        }));
    }
    found.truncate(MOST_BRANCHES);
    found
}

/// Functions of other files that the files which were seen use by name.
fn imported(
    images: &BTreeMap<PathBuf, Rc<Image>>,
    mapped: &HashMap<i32, Mapped>,
    known: &BTreeSet<Key>,
) -> Vec<Candidate> {
    let names: BTreeSet<&String> = images.values().flat_map(|it| &it.imported).collect();
    let mut all: BTreeMap<PathBuf, &Rc<Image>> = BTreeMap::new();
    for image in mapped.values().flat_map(Mapped::images) {
        all.insert(image.file.clone(), image);
    }
    let mut found = Vec::new();
    for image in all.values() {
        for (name, index) in image.exported() {
            let key = (image.file.clone(), index);
            if names.contains(&name.to_string()) && !known.contains(&key) {
                found.push(Candidate {
                    image: (*image).clone(),
                    index,
                    inside: 0,
                    hot: 0.0,
                });
            }
        }
    }
    found.truncate(MOST_IMPORTED);
    found
}

#[cfg(test)]
mod tests {
    use super::super::image::Images;
    use super::*;

    #[inline(never)]
    fn caller() -> u64 {
        std::hint::black_box(called()) + 1
    }

    #[inline(never)]
    fn called() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    fn hot_functions_their_callers_and_what_those_call_are_found() {
        assert_eq!(caller(), 8);
        let pid = std::process::id() as i32;
        let mapped = HashMap::from([(pid, Images::default().of(pid))]);
        let address = |function: fn() -> u64| function as *const () as usize as u64;
        let (image, offset) = mapped[&pid].find(address(caller)).unwrap();
        // A return address within it, and somebody who is there.
        let inside = (1..64)
            .find(|back| image.follows_call(offset + back))
            .unwrap();
        let sample = |stack| Sample {
            pid,
            address: address(hot_functions_their_callers_and_what_those_call_are_found_probe),
            stack,
        };
        let samples = [
            Sample {
                pid,
                address: address(caller),
                stack: Vec::new(),
            },
            sample(vec![0, 5, address(caller) + inside]),
            sample(vec![]),
            Sample {
                pid,
                address: 16,
                stack: Vec::new(),
            },
        ];
        let seen = collect(&samples, &mapped);
        assert_eq!(seen.samples, 4);
        assert!((seen.unknown_share - 0.25).abs() < 1e-9);
        let find = |part: &str| {
            let mut all = seen.candidates.iter();
            all.find(|candidate| candidate.name().contains(part))
        };
        let hot = find("call_are_found_probe").unwrap();
        assert!(hot.spot().0 >= hot.offset());
        assert!(find("candidates5tests6caller").is_some());
        assert!(find("candidates5tests6called").is_some());
        let mut within = seen.branches.iter().map(Candidate::name);
        assert!(within.any(|name| name.contains("6caller") && name.contains("+0x")));
        // Whoever is seen nowhere is no candidate.
        assert!(find("jostle_no_such_function").is_none());
    }

    #[inline(never)]
    fn hot_functions_their_callers_and_what_those_call_are_found_probe() -> u64 {
        std::hint::black_box(9)
    }
}
