//! Where in an ELF file a function begins.

use super::eh_frame;
use super::error::Reason;
use super::spot;
use crate::near;
use jostle_profile::regular;
use object::Object;
use object::ObjectSection;
use object::ObjectSegment;
use object::ObjectSymbol;
use object::ReadCache;
use object::ReadRef;
use object::SegmentFlags;
use object::SymbolFlags;
use object::SymbolKind;
use object::elf::PF_X;
use object::elf::STT_GNU_IFUNC;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// Most parts of a file that can be executed; linkers make one or two. Each is kept whole.
const MOST_SEGMENTS: usize = 64;

/// A function as the kernel is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// As it stands in the file, mangled if so.
    pub symbol: String,
    /// Bytes from the beginning of the file to the instruction that is probed:
    /// the first, or one that every call passes and that costs less.
    pub offset: u64,
    /// The bytes there.
    pub code: Vec<u8>,
    /// Whether nothing shows that an instruction begins there.
    pub unproven: bool,
}

/// A function as a file names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named<'data> {
    pub name: &'data str,
    pub address: u64,
    /// Whether it is resolved when the program is loaded.
    pub indirect: bool,
}

/// Everything that a file says about its functions.
pub(super) struct Functions<'data> {
    /// In the order of the file: of those with one name the last counts.
    pub named: Vec<Named<'data>>,
    /// Where functions begin by the unwind information, named or not.
    pub unwound: Vec<u64>,
    /// Names that are used here and defined elsewhere.
    pub imported: Vec<&'data str>,
    stripped: bool,
    /// (address, file offset, bytes) of what can be executed.
    pub segments: Vec<(u64, u64, u64)>,
}

/// Finds function `wanted` in `file`: by its name in the file, by that name
/// without its version (`malloc@@GLIBC_2.2.5`), or by what its mangled name
/// stands for in C++ or Rust, with or without the parameters. `0x…` is the
/// address at which a function without a name begins, and what follows a `+0x`
/// the distance of an instruction from there.
///
/// # Errors
/// When it is not an ELF file, there is no such function (with near names) or
/// several of that name, or it is chosen when the program is loaded.
pub(super) fn find(file: &Path, wanted: &str) -> Result<Function, Reason> {
    if let Some((name, digits)) = wanted.rsplit_once("+0x")
        && let Ok(inside) = u64::from_str_radix(digits, 16)
    {
        let function = find_begin(file, name, false)?;
        let offset = function.offset.saturating_add(inside);
        return Ok(Function {
            symbol: wanted.to_string(),
            offset,
            code: first_bytes(file, offset),
            unproven: true,
        });
    }
    find_begin(file, wanted, true)
}

/// Finds a function; its first instruction, or, `cheaply`, one that costs less.
fn find_begin(file: &Path, wanted: &str, cheaply: bool) -> Result<Function, Reason> {
    let opened = regular::open(file).map_err(|error| Reason::Unreadable {
        file: file.into(),
        error,
    })?;
    let cache = ReadCache::new(opened);
    let functions = parse(&cache).map_err(|problem| not_elf(file, problem))?;
    let hits = functions.matching(wanted);
    let Some(hit) = hits.first() else {
        return Err(functions.missing(file, wanted));
    };
    let (wanted, file) = (wanted.to_string(), file.to_path_buf());
    if hits.iter().any(|other| other.address != hit.address) {
        let names: Vec<&str> = hits.iter().take(5).map(|other| other.name).collect();
        return Err(Reason::SeveralFunctions {
            wanted,
            file,
            count: hits.len(),
            names: names.join(", "),
        });
    }
    if hit.indirect {
        let otherwise = "; probe one of those by its own name";
        let hint = near::hint(&wanted, functions.direct_names(), otherwise);
        return Err(Reason::Indirect { wanted, file, hint });
    }
    match functions.offset(hit.address) {
        Some(offset) => {
            let mut code = first_bytes(&file, offset);
            let spot = if cheaply { spot::offset(&code) } else { 0 };
            code.drain(..spot);
            Ok(Function {
                symbol: hit.name.to_string(),
                offset: offset.saturating_add(spot as u64),
                code,
                unproven: false,
            })
        }
        None => Err(Reason::Uncovered {
            wanted,
            file,
            address: hit.address,
        }),
    }
}

/// A few bytes of code; fewer where the file ends, none when they cannot be
/// read.
fn first_bytes(file: &Path, offset: u64) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; 64];
    let read = File::open(file).and_then(|file| file.read_at(&mut bytes, offset));
    bytes.truncate(read.unwrap_or(0));
    bytes
}

/// What an ELF file says about its functions.
///
/// # Errors
/// When it is none.
pub(super) fn parse<'data>(file: impl ReadRef<'data>) -> object::Result<Functions<'data>> {
    let object = object::File::parse(file)?;
    let mut functions = Functions {
        named: Vec::new(),
        unwound: Vec::new(),
        imported: Vec::new(),
        stripped: object.symbols().next().is_none(),
        segments: Vec::new(),
    };
    for segment in object.segments() {
        if let SegmentFlags::Elf { p_flags, .. } = segment.flags()
            && p_flags.0 & PF_X.0 != 0
            && functions.segments.len() < MOST_SEGMENTS
        {
            let (offset, size) = segment.file_range();
            functions.segments.push((segment.address(), offset, size));
        }
    }
    if let Some(table) = object.section_by_name(".eh_frame_hdr") {
        let bytes = table.data().unwrap_or_default();
        functions.unwound = eh_frame::starts(bytes, table.address());
    }
    if functions.unwound.is_empty()
        && let Some(records) = object.section_by_name(".eh_frame")
    {
        let bytes = records.data().unwrap_or_default();
        functions.unwound = eh_frame::starts_of_records(bytes, records.address());
    }
    for symbol in object.symbols().chain(object.dynamic_symbols()) {
        let Ok(name) = symbol.name() else { continue };
        if symbol.is_undefined() {
            functions.imported.push(base(name));
            continue;
        }
        if symbol.kind() != SymbolKind::Text || symbol.address() == 0 || name.is_empty() {
            continue;
        }
        let indirect = matches!(
            symbol.flags(),
            SymbolFlags::Elf { st_info, .. } if st_info.st_type() == STT_GNU_IFUNC
        );
        functions.named.push(Named {
            name,
            address: symbol.address(),
            indirect,
        });
    }
    Ok(functions)
}

fn not_elf(path: &Path, problem: object::Error) -> Reason {
    use std::io::Read;
    let mut start = [0; 2];
    let script = File::open(path)
        .and_then(|mut file| file.read_exact(&mut start))
        .is_ok_and(|()| &start == b"#!");
    let file = path.to_path_buf();
    match script {
        true => Reason::Script(file),
        false => Reason::NoElf { file, problem },
    }
}

/// A symbol's name without its version.
fn base(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

impl<'data> Functions<'data> {
    /// Bytes from the beginning of the file to the code at `address`.
    pub(super) fn offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|(start, offset, size)| {
            let inside = address.checked_sub(*start)?;
            offset.checked_add(inside).filter(|_| inside < *size)
        })
    }

    /// Whether a function is known to begin at `address`: a probe within an
    /// instruction would break the program.
    fn begins_at(&self, address: u64) -> bool {
        self.unwound.contains(&address) || self.named.iter().any(|it| it.address == address)
    }

    /// Each name once, in their order.
    fn by_name(&self) -> BTreeMap<&'data str, Named<'data>> {
        self.named.iter().map(|it| (it.name, *it)).collect()
    }

    pub(super) fn matching<'a>(&self, wanted: &'a str) -> Vec<Named<'a>>
    where
        'data: 'a,
    {
        if let Some(hit) = self.named.iter().rfind(|it| it.name == wanted) {
            return vec![*hit];
        }
        if let Some(digits) = wanted.strip_prefix("0x")
            && let Ok(address) = u64::from_str_radix(digits, 16)
            && self.begins_at(address)
        {
            return vec![Named {
                name: wanted,
                address,
                indirect: false,
            }];
        }
        let all = self.by_name();
        let of = |is_it: &dyn Fn(&str) -> bool| -> Vec<Named<'a>> {
            let hits = all.values().filter(|it| is_it(it.name));
            hits.copied().collect()
        };
        let plain = of(&|name| base(name) == base(wanted));
        if !plain.is_empty() {
            return plain;
        }
        of(&|name| demangled(name).is_some_and(|full| full == wanted || bare(&full) == wanted))
    }

    fn direct_names(&self) -> impl Iterator<Item = &'data str> {
        let direct = self.by_name().into_values().filter(|it| !it.indirect);
        direct.map(|it| it.name)
    }

    fn missing(&self, file: &Path, wanted: &str) -> Reason {
        let (file, wanted) = (file.to_path_buf(), wanted.to_string());
        if self.imported.contains(&base(&wanted)) {
            return Reason::Imported { wanted, file };
        }
        let names = self.by_name();
        let readable = names.keys().map(|name| {
            demangled(name).map_or_else(|| name.to_string(), |full| bare(&full).into())
        });
        let otherwise = match names.is_empty() {
            true => "; it names no function at all",
            false => "; no name is near",
        };
        let mut hint = near::hint(&wanted, readable, otherwise);
        if self.stripped {
            hint += &format!(
                "; the file is stripped: only the {} functions it exports have names, so name one of those, give the address at which a function begins (0x…), or install a build with symbols",
                names.len()
            );
        }
        Reason::NoFunction { wanted, file, hint }
    }
}

/// What a mangled name of C++ or Rust stands for.
fn demangled(name: &str) -> Option<String> {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return Some(format!("{rust:#}"));
    }
    // Parsing is slow, and everything in C would be tried.
    if !name.starts_with("_Z") {
        return None;
    }
    cpp_demangle::Symbol::new(name).ok()?.demangle().ok()
}

/// A demangled name without its parameters.
fn bare(full: &str) -> &str {
    full.split('(').next().unwrap_or(full).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangled_names_are_read() {
        assert_eq!(demangled("_ZN3foo3barEi").unwrap(), "foo::bar(int)");
        assert_eq!(bare("foo::bar(int)"), "foo::bar");
        assert_eq!(
            demangled("_ZN4core3fmt5write17h0123456789abcdefE").unwrap(),
            "core::fmt::write"
        );
        assert_eq!(demangled("malloc"), None);
    }

    #[test]
    fn own_functions_are_found_and_wrong_names_explained() {
        let own = std::env::current_exe().unwrap();
        let found = find(&own, "main").unwrap();
        assert!(found.offset > 0);
        assert!(!found.unproven);
        let inside = find(&own, "main+0x10").unwrap();
        assert!(inside.unproven && inside.offset >= found.offset);
        let text = find(&own, "jostle_no_such_function_x")
            .unwrap_err()
            .to_string();
        assert!(text.contains("there is no function"), "{text}");
        let text = find(Path::new("/nonexistent"), "main")
            .unwrap_err()
            .to_string();
        assert!(text.contains("cannot read /nonexistent"), "{text}");
    }

    #[test]
    fn what_is_no_program_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert!(
            find(&script, "main")
                .unwrap_err()
                .to_string()
                .contains("is a script")
        );
        let garbage = directory.path().join("garbage");
        std::fs::write(&garbage, [0xff; 4096]).unwrap();
        assert!(
            find(&garbage, "main")
                .unwrap_err()
                .to_string()
                .contains("no ELF")
        );
        // A file that claims to be ELF and is cut off must not be believed.
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in [4, 64, 200, 5000] {
            let cut = directory.path().join("cut");
            std::fs::write(&cut, &own[..length]).unwrap();
            find(&cut, "main").unwrap_err();
        }
    }
}
