//! The code that a process has mapped: which function an address belongs to.

use crate::metric::binary;
use crate::metric::symbols;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_RECORDING;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;

/// One function of a file.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// Bytes from the beginning of the file.
    pub offset: u64,
    /// Its symbol, or its address as `0x…`.
    pub name: String,
}

/// All functions of one file.
#[derive(Debug)]
pub(super) struct Image {
    /// As it is reached from here.
    pub file: PathBuf,
    /// Ascending by offset.
    pub starts: Vec<Start>,
    /// Names of functions of other files that this one uses.
    pub imported: Vec<String>,
    /// The executable segments, each with its offset in the file.
    code: Vec<(u64, Vec<u8>)>,
}

impl Image {
    /// Reads the functions of `file`; `None` where it is no ELF file or knows
    /// none.
    fn read(file: &Path) -> Option<Image> {
        let bytes = regular::read(file, LONGEST_RECORDING).ok()?;
        let functions = symbols::parse(&bytes[..]).ok()?;
        let unwound = functions.unwound.iter();
        let unwound = unwound.map(|&address| (functions.offset(address), address, None));
        // What is chosen at load time is called once.
        let named = functions.named.iter().filter(|it| !it.indirect);
        let named = named.map(|it| (functions.offset(it.address), it.address, Some(it.name)));
        let mut starts: Vec<_> = unwound.chain(named).collect();
        starts.sort_unstable();
        // A name comes after none, and of several the last is taken.
        let last = |group: &[(Option<u64>, u64, Option<&str>)]| {
            let (offset, address, name) = *group.last()?;
            let name = name.map_or_else(|| format!("{address:#x}"), str::to_string);
            offset.map(|offset| Start { offset, name })
        };
        let starts = starts
            .chunk_by(|a, b| a.0 == b.0)
            .filter_map(last)
            .collect();
        let code = functions.segments.iter().filter_map(|(_, offset, size)| {
            let end = offset.checked_add(*size)?.min(bytes.len() as u64);
            let bytes = bytes.get(*offset as usize..end as usize)?;
            Some((*offset, bytes.to_vec()))
        });
        let image = Image {
            file: file.to_path_buf(),
            starts,
            imported: functions.imported.into_iter().map(str::to_string).collect(),
            code: code.collect(),
        };
        (!image.starts.is_empty()).then_some(image)
    }

    /// The function that the code at `offset` belongs to, by its index.
    pub(super) fn function(&self, offset: u64) -> Option<usize> {
        let next = self.starts.partition_point(|start| start.offset <= offset);
        next.checked_sub(1)
    }

    /// The function that begins at `offset`.
    pub(super) fn begins(&self, offset: u64) -> Option<usize> {
        let found = self.starts.binary_search_by_key(&offset, |it| it.offset);
        found.ok()
    }

    /// Names without their versions, and the functions they stand for.
    pub(super) fn exported(&self) -> impl Iterator<Item = (&str, usize)> {
        let starts = self.starts.iter().enumerate();
        starts.map(|(index, start)| (start.name.split('@').next().unwrap_or(""), index))
    }

    /// At most `count` bytes of code from `offset` on.
    pub(super) fn code(&self, offset: u64, count: usize) -> &[u8] {
        let inside = self.code.iter().find_map(|(start, bytes)| {
            let rest = bytes.get(offset.checked_sub(*start)? as usize..)?;
            Some(&rest[..rest.len().min(count)])
        });
        inside.unwrap_or_default()
    }

    /// `count` bytes of code before `offset`, or less.
    fn before(&self, offset: u64, count: usize) -> &[u8] {
        let inside = self.code.iter().find_map(|(start, bytes)| {
            let end = offset.checked_sub(*start)? as usize;
            (end <= bytes.len()).then(|| &bytes[end.saturating_sub(count)..end])
        });
        inside.unwrap_or_default()
    }

    /// Whether the instruction before `offset` is a call.
    pub(super) fn follows_call(&self, offset: u64) -> bool {
        is_call(self.before(offset, 8))
    }

    /// Functions of this file that function `index` calls directly.
    pub(super) fn called_by(&self, index: usize) -> Vec<usize> {
        let begin = self.starts[index].offset;
        let mut called: Vec<usize> = calls(self.body(index))
            .into_iter()
            .filter_map(|(at, distance)| {
                let place = begin + at as u64;
                self.begins(place.wrapping_add(distance as u64))
            })
            .filter(|callee| *callee != index)
            .collect();
        called.sort_unstable();
        called.dedup();
        called
    }

    /// Where calls and jumps of function `index` may stand, from its beginning:
    /// the kernel imitates these when they are probed. Some may lie within
    /// another instruction, where nothing is ever executed.
    pub(super) fn branches(&self, index: usize) -> Vec<u64> {
        let body = self.body(index);
        let inside =
            |at: usize, distance: i64| (0..body.len() as i64).contains(&(at as i64 + distance));
        let begin = self.starts[index].offset;
        let mut found: Vec<u64> = calls(body)
            .into_iter()
            .filter(|(at, distance)| {
                let to = (begin + *at as u64).wrapping_add(*distance as u64);
                self.code.iter().any(|(start, bytes)| {
                    to.checked_sub(*start)
                        .is_some_and(|to| to < bytes.len() as u64)
                })
            })
            .map(|(at, _)| at as u64 - CALL_LENGTH)
            .collect();
        let jumps = jumps(body).into_iter();
        let jumps = jumps.filter(|(at, end, distance)| *at > 0 && inside(*end, *distance));
        found.extend(jumps.map(|(at, _, _)| at as u64));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The code of function `index`, or the first part of a long one.
    fn body(&self, index: usize) -> &[u8] {
        const LONGEST: u64 = 64 << 10;
        let begin = self.starts[index].offset;
        let next = self.starts.get(index + 1).map(|next| next.offset);
        let length = next.map_or(LONGEST, |next| (next - begin).min(LONGEST));
        self.code(begin, length as usize)
    }
}

/// Whether `code` ends with a call: `call rel32`, or one through a register or
/// memory with an operand of any length.
#[cfg(target_arch = "x86_64")]
fn is_call(code: &[u8]) -> bool {
    let at = |back: usize| code.len().checked_sub(back).map(|at| code[at]);
    let through = |back: usize| {
        at(back) == Some(0xff) && at(back - 1).is_some_and(|form| form & 0x38 == 0x10)
    };
    at(5) == Some(0xe8) || [2, 3, 4, 6, 7].into_iter().any(through)
}

/// `bl` and `blr`.
#[cfg(not(target_arch = "x86_64"))]
fn is_call(code: &[u8]) -> bool {
    let word = code.last_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    word.is_some_and(|word| word >> 26 == 0x25 || word & 0xffff_fc1f == 0xd63f_0000)
}

/// Bytes of a direct call, of which the end is what distances refer to.
#[cfg(target_arch = "x86_64")]
const CALL_LENGTH: u64 = 5;
#[cfg(not(target_arch = "x86_64"))]
const CALL_LENGTH: u64 = 0;

/// Jumps: where each begins and ends, and its distance from there.
#[cfg(target_arch = "x86_64")]
fn jumps(code: &[u8]) -> Vec<(usize, usize, i64)> {
    let long = |at: usize| -> Option<i64> {
        let bytes = code.get(at..at + 4)?.try_into().ok()?;
        Some(i64::from(i32::from_le_bytes(bytes)))
    };
    let at = |index: usize| {
        let second = code.get(index + 1).copied().unwrap_or(0);
        match code[index] {
            0x0f if second & 0xf0 == 0x80 => Some((index, index + 6, long(index + 2)?)),
            0xe9 => Some((index, index + 5, long(index + 1)?)),
            0x70..=0x7f | 0xeb => Some((index, index + 2, i64::from(second as i8))),
            _ => None,
        }
    };
    (0..code.len()).filter_map(at).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn jumps(_code: &[u8]) -> Vec<(usize, usize, i64)> {
    Vec::new()
}

/// Where something is called directly: bytes from the begin of `code`, and the
/// distance from there.
#[cfg(target_arch = "x86_64")]
fn calls(code: &[u8]) -> Vec<(usize, i64)> {
    let at = |index: usize| {
        let bytes = code.get(index + 1..index + 5)?.try_into().ok()?;
        let distance = i64::from(i32::from_le_bytes(bytes));
        (code[index] == 0xe8).then_some((index + 5, distance))
    };
    (0..code.len()).filter_map(at).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn calls(code: &[u8]) -> Vec<(usize, i64)> {
    let words = code.chunks_exact(4).enumerate();
    words
        .filter_map(|(index, bytes)| {
            let word = u32::from_le_bytes(bytes.try_into().ok()?);
            let distance = i64::from((word << 6) as i32 >> 6) * 4;
            (word >> 26 == 0x25).then_some((index * 4, distance))
        })
        .collect()
}

/// What one process has mapped.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    /// Addresses, the offset of the first in the file, and the file.
    areas: Vec<(Range<u64>, u64, Rc<Image>)>,
}

impl Mapped {
    /// The image that `address` lies in, and where in its file.
    pub(super) fn find(&self, address: u64) -> Option<(&Rc<Image>, u64)> {
        let next = self.areas.partition_point(|area| area.0.start <= address);
        let (range, offset, image) = self.areas.get(next.checked_sub(1)?)?;
        let inside = address.checked_sub(range.start)?;
        let at = offset.checked_add(inside)?;
        range.contains(&address).then_some((image, at))
    }

    /// Where the code at `offset` of `file` lies in this process.
    pub(super) fn address(&self, file: &Path, offset: u64) -> Option<u64> {
        self.areas.iter().find_map(|(range, begin, image)| {
            let inside = offset.checked_sub(*begin)?;
            (image.file == file && inside < range.end - range.start).then(|| range.start + inside)
        })
    }

    pub(super) fn images(&self) -> Vec<&Rc<Image>> {
        let mut images: Vec<&Rc<Image>> = self.areas.iter().map(|area| &area.2).collect();
        images.dedup_by(|a, b| Rc::ptr_eq(a, b));
        images
    }
}

/// Files that were read, each once.
#[derive(Default)]
pub(super) struct Images {
    read: HashMap<PathBuf, Option<Rc<Image>>>,
}

impl Images {
    /// What process `pid` has mapped now.
    pub(super) fn of(&mut self, pid: i32) -> Mapped {
        let mut mapped = Mapped::default();
        for (range, offset, path) in binary::executable_areas(pid) {
            let Some(file) = binary::inside(pid, &path) else {
                continue;
            };
            let image = self.read.entry(file);
            let image = image.or_insert_with_key(|file| Image::read(file).map(Rc::new));
            if let Some(image) = image {
                mapped.areas.push((range, offset, image.clone()));
            }
        }
        mapped.areas.sort_by_key(|area| area.0.start);
        mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_are_told_from_other_code() {
        for call in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd3],
            &[0xff, 0x50, 8],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0xff, 0x54, 0x24, 8],
        ] {
            assert!(is_call(call), "{call:x?}");
        }
        for other in [&[0x90, 0x90, 0x90][..], &[0xff, 0xe0], &[], &[0xe8, 0, 0]] {
            assert!(!is_call(other), "{other:x?}");
        }
        let code = [0x90, 0xe8, 0xfa, 0xff, 0xff, 0xff, 0xe8, 0];
        assert_eq!(calls(&code), [(6, -6)]);
        // je +2, jmp -2, jne far.
        let code = [0x74, 2, 0xeb, 0xfe, 0x0f, 0x85, 1, 0, 0, 0];
        assert_eq!(jumps(&code), [(0, 2, 2), (2, 4, -2), (4, 10, 1)]);
    }

    #[inline(never)]
    fn outer() -> u64 {
        std::hint::black_box(inner()) + 1
    }

    #[inline(never)]
    fn inner() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    fn own_functions_are_found_by_address() {
        assert_eq!(outer(), 8);
        let mapped = Images::default().of(std::process::id() as i32);
        let address = inner as *const () as usize as u64;
        let (image, offset) = mapped.find(address + 1).unwrap();
        let index = image.function(offset).unwrap();
        assert!(image.starts[index].name.contains("inner"));
        assert_eq!(image.begins(offset - 1), Some(index));
        assert_eq!(mapped.address(&image.file, offset), Some(address + 1));
        let (_, caller) = mapped.find(outer as *const () as usize as u64).unwrap();
        let caller = image.function(caller).unwrap();
        assert!(image.called_by(caller).contains(&index));
        assert!(!image.branches(caller).is_empty());
        assert!(mapped.find(8).is_none());
    }
}
