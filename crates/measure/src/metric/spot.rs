//! Which instruction of a function is probed. A `push` or a `nop` is imitated by
//! the kernel; for most others it traps a second time, which costs twelve times
//! as much in a 2-vCPU VM (9.6 instead of 0.8 µs). So the probe is put on the
//! first `push` that every call passes, if only moves lie before it.

/// Most bytes that are looked through.
const LONGEST: usize = 48;

/// Bytes from the begin of a function to the instruction that is probed best;
/// `code` begins with the function. 0 where its first instruction is.
#[cfg(target_arch = "x86_64")]
pub(super) fn offset(code: &[u8]) -> usize {
    let mut at = 0;
    while at < LONGEST.min(code.len()) {
        let rest = &code[at..];
        if is_push(rest) {
            return at;
        }
        match length(rest) {
            Some(length) => at += length,
            None => return 0,
        }
    }
    0
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn offset(_code: &[u8]) -> usize {
    0
}

fn is_push(code: &[u8]) -> bool {
    matches!(code, [0x50..=0x57, ..] | [0x41, 0x50..=0x57, ..])
}

/// Length of an instruction that neither jumps nor traps, of the kinds that
/// stand at the begin of functions; `None` for any other. Intel's manual,
/// volume 2, chapter 2.
fn length(code: &[u8]) -> Option<usize> {
    if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) {
        return Some(4);
    }
    let prefixed = usize::from(matches!(code, [0x40..=0x4f, ..]));
    let wide = prefixed == 1 && code[0] & 8 != 0;
    let operation = *code.get(prefixed)?;
    let (form, immediate) = match operation {
        // mov, lea, add, or, and, sub, xor, cmp, test, movslq.
        0x89 | 0x8b | 0x8d | 0x01 | 0x03 | 0x09 | 0x0b | 0x21 | 0x23 | 0x29 | 0x2b | 0x31
        | 0x33 | 0x39 | 0x3b | 0x85 | 0x84 | 0x88 | 0x8a | 0x63 => (true, 0),
        0x83 | 0x80 | 0xc1 => (true, 1),
        0x81 | 0xc7 => (true, 4),
        0xc6 => (true, 1),
        // mov of a constant to a register.
        0xb8..=0xbf => (false, if wide { 8 } else { 4 }),
        0x90 => (false, 0),
        0x0f => {
            let second = *code.get(prefixed + 1)?;
            // movzx, movsx, nop.
            let known = matches!(second, 0xb6 | 0xb7 | 0xbe | 0xbf | 0x1f);
            let rest = known.then(|| memory_form(code.get(prefixed + 2..)?))??;
            return Some(prefixed + 2 + rest);
        }
        _ => return None,
    };
    let rest = match form {
        true => memory_form(code.get(prefixed + 1..)?)?,
        false => 0,
    };
    Some(prefixed + 1 + rest + immediate)
}

/// Bytes that name the operands, from the ModRM byte on.
fn memory_form(code: &[u8]) -> Option<usize> {
    let form = *code.first()?;
    let (mode, register) = (form >> 6, form & 7);
    let indexed = mode != 3 && register == 4;
    let displacement = match (mode, register) {
        (0, 5) | (2, _) => 4,
        (0, 4) if code.get(1)? & 7 == 5 => 4,
        (1, _) => 1,
        _ => 0,
    };
    Some(1 + usize::from(indexed) + displacement)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_push_behind_moves_is_found() {
        assert_eq!(offset(&[0x55]), 0);
        assert_eq!(offset(&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57]), 4);
        // mov %rdi,%rax; mov 0x8(%rsp),%ecx; lea 0x10(%rip),%rdx; push %rbx.
        let moves = [
            0x48, 0x89, 0xf8, 0x8b, 0x4c, 0x24, 8, 0x48, 0x8d, 0x15, 16, 0, 0, 0, 0x53,
        ];
        assert_eq!(offset(&moves), 14);
        // movzbl (%rdi),%eax; mov $1,%ecx; push %rbp.
        let more = [0x0f, 0xb6, 0x07, 0xb9, 1, 0, 0, 0, 0x55];
        assert_eq!(offset(&more), 8);
        // movabs $…,%rax; push.
        let wide = [0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 0x50];
        assert_eq!(offset(&wide), 10);
    }

    #[test]
    fn nothing_is_looked_for_behind_a_jump() {
        assert_eq!(offset(&[0x74, 2, 0x55]), 0);
        assert_eq!(offset(&[0xe8, 0, 0, 0, 0, 0x55]), 0);
        assert_eq!(offset(&[0xc3, 0x55]), 0);
        // What is cut off is not guessed.
        assert_eq!(offset(&[0x48, 0x8b]), 0);
        assert_eq!(offset(&[]), 0);
        assert_eq!(offset(&[0x90; 200]), 0);
    }
}
