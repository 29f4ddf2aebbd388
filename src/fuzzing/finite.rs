//! Whether all numbers in a value are finite, whatever it is made of.

use std::fmt::Debug;

/// Panics where `value` holds a number that is not finite.
pub fn check(what: &str, value: &impl Debug) {
    let text = format!("{value:?}");
    if let Some(at) = infinite(&text) {
        let begin = (0..=at.saturating_sub(200)).rev();
        let begin = begin.into_iter().find(|it| text.is_char_boundary(*it));
        panic!(
            "{what} is not finite: …{}",
            &text[begin.unwrap_or(0)..at + 3]
        );
    }
}

/// Where a number that is not finite stands in the `Debug` text of a value, outside of
/// strings.
fn infinite(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut quoted) = (0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            byte if !quoted && (byte.is_ascii_alphanumeric() || byte == b'_') => {
                let word = bytes[at..].iter();
                let length = word
                    .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
                    .count();
                if matches!(&bytes[at..at + length], b"NaN" | b"inf") {
                    return Some(at);
                }
                at += length - 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_words() {
        assert_eq!(infinite(&format!("{:?}", [1.0, -2.5])), None);
        assert!(infinite(&format!("{:?}", Some(f64::NAN))).is_some());
        assert!(infinite(&format!("{:?}", (1, f64::NEG_INFINITY))).is_some());
        assert_eq!(infinite(&format!("{:?}", "a \" NaN inf")), None);
        assert_eq!(infinite("Point { info: 1.0, NaNo: 2.0 }"), None);
    }
}
