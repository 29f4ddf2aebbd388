//! Bytes through the machine's network devices, loopback left out.

use super::Kind;
use super::Owner;
use super::files;
use super::files::Text;
use super::part::Built;
use super::part::Context;
use super::part::Formula;
use super::part::Source;
use super::part::row;

pub(super) fn devices(context: &Context) -> Built {
    const SOURCE: &str = "/proc/net/dev";
    let rows = ["network-received", "network-sent"]
        .map(|name| row(name, "B/s", Kind::Rate, Owner::Machine, SOURCE))
        .to_vec();
    let opened = Text::open(&context.options.root, "proc/net/dev").and_then(|mut text| {
        bytes(text.read()?).map_err(|problem| format!("/proc/net/dev: {problem}"))?;
        Ok(text)
    });
    match opened {
        Err(reason) => Built::unavailable(rows, &reason),
        Ok(text) => Built {
            rows: rows
                .into_iter()
                .enumerate()
                .map(|(cell, row)| row.at(Formula::Rate { cell, scale: 1.0 }))
                .collect(),
            cells: 2,
            source: Some(Box::new(Devices { text })),
            notes: Vec::new(),
        },
    }
}

struct Devices {
    text: Text,
}

impl Source for Devices {
    fn sample(&mut self, cells: &mut [f64]) {
        if let Ok(text) = self.text.read()
            && let Ok(bytes) = bytes(text)
        {
            cells.copy_from_slice(&bytes);
        }
    }
}

/// Received and sent.
fn bytes(text: &str) -> Result<[f64; 2], String> {
    let mut sum = [0.0; 2];
    let mut found = 0;
    for line in text.lines().skip(2) {
        let (name, rest) = line
            .split_once(':')
            .ok_or_else(|| format!("'{line}' names no device"))?;
        if name.trim() == "lo" {
            continue;
        }
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        for (sum, place) in sum.iter_mut().zip([0, 8]) {
            *sum += files::number(words.get(place).unwrap_or(&""))?;
        }
        found += 1;
    }
    match found {
        0 => Err("no device but loopback".into()),
        _ => Ok(sum),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_add_up_without_loopback() {
        let text = "Inter-|\n face |\n    lo: 5 5 0 0 0 0 0 0 5 5\n\
                      eth0: 100 1 0 0 0 0 0 0 7 1 0\n  eth1:  11 1 0 0 0 0 0 0 1 1 0\n";
        assert_eq!(bytes(text), Ok([111.0, 8.0]));
        assert!(bytes("a\nb\nlo: 1 1\n").unwrap_err().contains("loopback"));
        assert!(bytes("a\nb\neth0: x\n").is_err());
        assert!(bytes("a\nb\nnonsense\n").is_err());
    }
}
