//! Where functions begin in a file without symbols: the unwind information
//! (`.eh_frame`, and its search table `.eh_frame_hdr`; Linux Standard Base 5.0,
//! section 10.6), which stripping leaves in place.

use std::collections::BTreeMap;

/// Kinds of numbers in the table (`DW_EH_PE_*`).
const UDATA4: u8 = 0x03;
const UDATA8: u8 = 0x04;
const SDATA4: u8 = 0x0b;
const SDATA8: u8 = 0x0c;
const FORMAT: u8 = 0x0f;
const RELATIVE_TO: u8 = 0x70;
const TO_PLACE: u8 = 0x10;
const TO_TABLE: u8 = 0x30;
const OMITTED: u8 = 0xff;

/// Reads numbers one after another.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Address of the first byte.
    base: u64,
}

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.bytes.get(self.at..self.at + N)?;
        self.at += N;
        bytes.try_into().ok()
    }

    fn number(&mut self, encoding: u8) -> Option<u64> {
        let place = self.base.wrapping_add(self.at as u64);
        let raw = match encoding & FORMAT {
            UDATA4 => u64::from(u32::from_le_bytes(self.take()?)),
            SDATA4 => i64::from(i32::from_le_bytes(self.take()?)) as u64,
            0 | UDATA8 | SDATA8 => u64::from_le_bytes(self.take()?),
            _ => return None,
        };
        match encoding & RELATIVE_TO {
            0 => Some(raw),
            TO_PLACE => Some(raw.wrapping_add(place)),
            TO_TABLE => Some(raw.wrapping_add(self.base)),
            _ => None,
        }
    }
}

/// Addresses at which functions (and the parts that compilers move apart from
/// them) begin, ascending as in the table. `table` is the section at address
/// `base`. Empty where it is of another kind, or does not hold what it claims.
pub(super) fn starts(table: &[u8], base: u64) -> Vec<u64> {
    read(table, base).unwrap_or_default()
}

fn read(table: &[u8], base: u64) -> Option<Vec<u64>> {
    let mut cursor = Cursor {
        bytes: table,
        at: 0,
        base,
    };
    let [version, frames, count, entries] = cursor.take()?;
    if version != 1 || count == OMITTED || entries == OMITTED {
        return None;
    }
    if frames != OMITTED {
        cursor.number(frames)?;
    }
    let count = cursor.number(count)?;
    if count > table.len() as u64 {
        return None;
    }
    (0..count)
        .map(|_| {
            let start = cursor.number(entries)?;
            cursor.number(entries)?;
            Some(start)
        })
        .collect()
}

/// As [`starts`], of the records themselves: a static program has no table.
/// `records` is the section at address `base`, where functions begin in any
/// order. What follows a record that cannot be read is left out.
pub(super) fn starts_of_records(records: &[u8], base: u64) -> Vec<u64> {
    let mut found = Vec::new();
    // By where the common part of some records lies.
    let mut encodings = BTreeMap::new();
    let mut at = 0;
    while let Some((begin, end)) = record(records, at) {
        let mut cursor = Cursor {
            bytes: &records[..end],
            at: begin,
            base,
        };
        let Some(id) = cursor.take().map(u32::from_le_bytes) else {
            break;
        };
        if id == 0 {
            encodings.insert(begin - 4, encoding(&records[begin + 4..end]));
        } else if let Some(Some(encoding)) = begin
            .checked_sub(id as usize)
            .and_then(|common| encodings.get(&common))
        {
            found.extend(cursor.number(*encoding).filter(|start| *start != 0));
        }
        at = end;
    }
    found
}

/// Where the record at `at` begins behind its length, and ends; `None` for the
/// last, and for the long form that nobody uses.
fn record(records: &[u8], at: usize) -> Option<(usize, usize)> {
    let length = u32::from_le_bytes(records.get(at..at + 4)?.try_into().ok()?);
    let end = (at + 4).checked_add(length as usize)?;
    (length != 0 && length != u32::MAX && end <= records.len()).then_some((at + 4, end))
}

/// How addresses are written in the records that share `common`, which begins
/// with its version.
fn encoding(common: &[u8]) -> Option<u8> {
    let (version, rest) = common.split_first()?;
    let length = rest.iter().position(|byte| *byte == 0)?;
    let (letters, mut rest) = (&rest[..length], &rest[length + 1..]);
    let Some((b'z', letters)) = letters.split_first() else {
        return letters.is_empty().then_some(0);
    };
    // Alignment of code and of data, the return address, the letters' length.
    number(&mut rest)?;
    number(&mut rest)?;
    match version {
        1 => rest = rest.get(1..)?,
        _ => number(&mut rest)?,
    }
    number(&mut rest)?;
    for letter in letters {
        let (first, after) = rest.split_first()?;
        rest = match letter {
            b'R' => return Some(*first),
            b'L' => after,
            b'P' => after.get(
                if matches!(first & FORMAT, UDATA4 | SDATA4) {
                    4
                } else {
                    8
                }..,
            )?,
            b'S' | b'B' => rest,
            _ => return None,
        };
    }
    Some(0)
}

/// Skips a number of variable length.
fn number(bytes: &mut &[u8]) -> Option<()> {
    let length = bytes.iter().position(|byte| byte & 0x80 == 0)?;
    *bytes = &bytes[length + 1..];
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A common part and two records, as gcc writes them.
    fn records() -> Vec<u8> {
        let mut bytes = vec![20, 0, 0, 0, 0, 0, 0, 0, 1];
        bytes.extend(b"zR\0\x01\x78\x10\x01\x1b");
        bytes.resize(24, 0);
        for (start, common) in [(0x100i32, 28u32), (0x80, 48)] {
            bytes.extend(16u32.to_le_bytes());
            bytes.extend(common.to_le_bytes());
            bytes.extend(start.to_le_bytes());
            bytes.extend([0x40, 0, 0, 0, 0, 0, 0, 0]);
        }
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn records_without_a_table_are_read() {
        // Relative to where each number stands.
        let found = starts_of_records(&records(), 0x1000);
        assert_eq!(found, [0x1000 + 32 + 0x100, 0x1000 + 52 + 0x80]);
        let whole = records();
        for length in 0..whole.len() - 4 {
            assert!(starts_of_records(&whole[..length], 0x1000).len() < 2);
        }
        // One that names a common part that is none.
        let mut wrong = records();
        wrong[28] = 200;
        assert_eq!(starts_of_records(&wrong, 0x1000).len(), 1);
    }

    fn table(count: u32, entries: &[[i32; 2]]) -> Vec<u8> {
        let mut bytes = vec![1, 0x1b, UDATA4, TO_TABLE | SDATA4];
        bytes.extend(0x100i32.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        let words = entries.iter().flatten();
        bytes.extend(words.flat_map(|word| word.to_le_bytes()));
        bytes
    }

    #[test]
    fn functions_lie_before_and_behind_the_table() {
        let bytes = table(2, &[[-0x1000, 0x40], [0x20, 0x60]]);
        assert_eq!(starts(&bytes, 0x5000), [0x4000, 0x5020]);
    }

    #[test]
    fn tables_that_lie_hold_nothing() {
        let whole = table(2, &[[-0x1000, 0x40], [0x20, 0x60]]);
        for length in 0..whole.len() {
            assert!(starts(&whole[..length], 0x5000).is_empty(), "{length}");
        }
        assert!(starts(&table(u32::MAX, &[[1, 1]]), 0).is_empty());
        let mut other = whole;
        other[0] = 2;
        assert!(starts(&other, 0x5000).is_empty());
        other[0] = 1;
        other[3] = 0x50;
        assert!(starts(&other, 0x5000).is_empty());
    }
}
