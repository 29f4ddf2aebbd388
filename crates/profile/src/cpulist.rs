//! CPU lists as the kernel writes them: `0-2,5`.

use thiserror::Error;

/// The part of a list that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CpuListError {
    #[error("'{0}' is not a CPU number or a range like 0-3")]
    NotANumber(String),
    #[error("'{0}' is not an ascending CPU range")]
    NotAscending(String),
    #[error("it names more than {MOST} CPUs")]
    TooMany,
}

/// More than any machine has; overlapping ranges count again.
const MOST: usize = 1 << 20;

/// Parses a CPU list as the kernel writes it (`0-2,5`), ascending, no doubles.
///
/// # Errors
/// The part that is not a CPU number or range, or that there are too many.
pub fn parse_list(text: &str) -> Result<Vec<usize>, CpuListError> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let number = |word: &str| {
            let number = word.trim().parse::<usize>();
            number.map_err(|_| CpuListError::NotANumber(part.into()))
        };
        match part.split_once('-') {
            None => cpus.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last || last - first > 65_536 {
                    return Err(CpuListError::NotAscending(part.into()));
                }
                cpus.extend(first..=last);
            }
        }
        if cpus.len() > MOST {
            return Err(CpuListError::TooMany);
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Writes a CPU list as the kernel does: `0-2,5`.
pub fn format_list(cpus: &[usize]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = cpus;
    while let Some(&first) = rest.first() {
        let run = rest
            .iter()
            .enumerate()
            .take_while(|(offset, cpu)| **cpu == first + offset)
            .count();
        parts.push(match run {
            1 => first.to_string(),
            _ => format!("{first}-{}", first + run - 1),
        });
        rest = &rest[run..];
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_round_trip() {
        for text in ["0", "0-3", "0-2,5", "1,3,5-6"] {
            assert_eq!(format_list(&parse_list(text).unwrap()), text);
        }
        assert_eq!(parse_list("3,1-2,2").unwrap(), [1, 2, 3]);
        assert_eq!(parse_list("").unwrap(), [] as [usize; 0]);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for text in ["x", "1-", "3-1", "-1", "0-99999999"] {
            assert!(parse_list(text).is_err(), "{text}");
        }
        let endless = "0-65535,".repeat(100_000);
        assert_eq!(parse_list(&endless), Err(CpuListError::TooMany));
    }
}
