//! Bytes through the machine's network devices since boot, loopback left out.

use super::ParseError;
use super::text::count;

/// Received and sent, from the text of `/proc/net/dev`.
///
/// # Errors
/// A line that is not understood, or no device but loopback.
pub fn bytes(text: &str, sum: &mut [f64]) -> Result<(), ParseError> {
    sum.fill(0.0);
    let mut found = 0;
    for line in text.lines().skip(2) {
        let (name, rest) = line
            .split_once(':')
            .ok_or_else(|| ParseError::text(line, "names no device"))?;
        if name.trim() == "lo" {
            continue;
        }
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        for (sum, place) in sum.iter_mut().zip([0, 8]) {
            *sum += count(words.get(place).unwrap_or(&""))?;
        }
        found += 1;
    }
    match found {
        0 => Err(ParseError::NoDevice),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_add_up_without_loopback() {
        let text = "Inter-|\n face |\n    lo: 5 5 0 0 0 0 0 0 5 5\n\
                      eth0: 100 1 0 0 0 0 0 0 7 1 0\n  eth1:  11 1 0 0 0 0 0 0 1 1 0\n";
        let mut sum = [7.0; 2];
        assert_eq!(bytes(text, &mut sum), Ok(()));
        assert_eq!(sum, [111.0, 8.0]);
        let mut fails = |text| bytes(text, &mut sum).unwrap_err().to_string();
        assert!(fails("a\nb\nlo: 1 1\n").contains("loopback"));
        assert!(fails("a\nb\neth0: x\n").contains("'x'"));
        assert!(fails("a\nb\nnonsense\n").contains("names no device"));
    }
}
