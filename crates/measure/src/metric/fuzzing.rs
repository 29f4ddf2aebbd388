//! What a fuzzer calls: readers of what a target brings along.

use super::binary;
use super::eh_frame;
use super::prometheus::fuzzing::page as read_page;
use super::symbols;

/// Where functions begin in an ELF file.
pub fn elf(bytes: &[u8]) {
    eh_frame::starts(bytes, 0x1000);
    eh_frame::starts_of_records(bytes, u64::MAX - 16);
    let Ok(functions) = symbols::parse(bytes) else {
        return;
    };
    for wanted in ["main", "foo::bar", "0x1000"] {
        for hit in functions.matching(wanted) {
            assert!(!hit.name.is_empty());
            functions.offset(hit.address);
        }
    }
    for address in &functions.unwound {
        functions.offset(*address);
    }
}

/// A page of metrics.
pub fn page(text: &str) {
    read_page(text);
}

/// `/proc/PID/maps`.
pub fn maps(text: &str) {
    for line in text.lines() {
        if let Some((area, _, path)) = binary::area(line) {
            assert!(area.start <= area.end, "{line}");
            assert!(path.is_absolute());
        }
    }
}
