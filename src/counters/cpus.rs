//! What happens to the target's CPUs, whoever runs there: busy and stolen time,
//! clock frequency, throttling by heat.

use super::Kind;
use super::Owner;
use super::files;
use super::files::Text;
use super::part::Built;
use super::part::Context;
use super::part::Formula;
use super::part::Row;
use super::part::Source;
use super::part::row;
use std::path::Path;

/// The kernel's USER_HZ, which is 100 on every architecture Linux runs on.
const TICKS_PER_SECOND: f64 = 100.0;
/// Bytes of one line of a CPU in `/proc/stat` at most.
const LINE: usize = 256;
/// CPUs whose own files are read per sample at most.
const MAX_FILES: usize = 16;

/// `/proc/stat`, in ticks of 10 ms.
pub(super) fn time(context: &Context) -> Built {
    const SOURCE: &str = "/proc/stat";
    let rows = vec![
        row("steal", "%", Kind::Ratio, Owner::Cpus, SOURCE),
        row("cpu-busy", "%", Kind::Ratio, Owner::Cpus, SOURCE),
    ];
    let root = &context.options.root;
    let cpus = context.cpus.clone();
    let last = cpus.iter().max().map_or(0, |cpu| cpu + 2);
    let opened = Text::open(root, "proc/stat").and_then(|text| {
        let mut text = text.only_first(last * LINE);
        ticks(text.read()?, &cpus).map_err(|problem| format!("/proc/stat: {problem}"))?;
        Ok(text)
    });
    match opened {
        Err(reason) => Built::unavailable(rows, &reason),
        Ok(text) => {
            // Percent of the time of one CPU.
            let scale = 100.0 / TICKS_PER_SECOND / cpus.len().max(1) as f64;
            let rows = rows
                .into_iter()
                .enumerate()
                .map(|(cell, row)| row.at(Formula::Percent { cell, scale }))
                .collect();
            Built {
                rows,
                cells: 2,
                source: Some(Box::new(Time { text, cpus })),
                notes: Vec::new(),
            }
        }
    }
}

struct Time {
    text: Text,
    cpus: Vec<usize>,
}

impl Source for Time {
    fn sample(&mut self, cells: &mut [f64]) {
        if let Ok(text) = self.text.read()
            && let Ok(ticks) = ticks(text, &self.cpus)
        {
            cells.copy_from_slice(&ticks);
        }
    }
}

/// Stolen and busy ticks of `cpus`, which are all in `text`.
fn ticks(text: &str, cpus: &[usize]) -> Result<[f64; 2], String> {
    let mut sum = [0.0; 2];
    let mut found = 0;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("cpu") else {
            break;
        };
        let mut words = rest.split_ascii_whitespace();
        if rest.starts_with(' ') {
            continue;
        }
        let cpu: usize = words
            .next()
            .and_then(|word| word.parse().ok())
            .ok_or_else(|| format!("'{line}' names no CPU"))?;
        if !cpus.contains(&cpu) {
            continue;
        }
        // user nice system idle iowait irq softirq steal
        let mut ticks = [0.0; 8];
        for tick in &mut ticks {
            *tick = files::number(words.next().unwrap_or_default())?;
        }
        sum[0] += ticks[7];
        sum[1] += ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
        found += 1;
    }
    match found == cpus.len() && found > 0 {
        true => Ok(sum),
        false => Err(format!("{found} of {} CPUs found", cpus.len())),
    }
}

/// Clock frequency by cpufreq, the mean over the CPUs.
pub(super) fn frequency(context: &Context) -> Built {
    let line = row("frequency", "Hz", Kind::Level, Owner::Cpus, "cpufreq");
    let path = |cpu: usize| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
    each(&context.options.root, &context.cpus, &path).finish(
        vec![(
            line,
            Formula::Level {
                cell: 0,
                // From kHz, over all of them.
                scale: 1e3,
            },
        )],
        Mean::Yes,
    )
}

/// How often the hardware slowed a core, or its package, down because of heat.
pub(super) fn heat(context: &Context) -> Built {
    const SOURCE: &str = "thermal_throttle";
    let mut parts = Vec::new();
    for (name, file) in [
        ("core-throttles", "core_throttle_count"),
        ("package-throttles", "package_throttle_count"),
    ] {
        let path = |cpu: usize| format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{file}");
        let line = row(name, "events/s", Kind::Rate, Owner::Cpus, SOURCE);
        parts.push((line, each(&context.options.root, &context.cpus, &path)));
    }
    let mut rows = Vec::new();
    let mut texts = Vec::new();
    for (line, files) in parts {
        let cell = texts.len();
        match files.texts {
            Err(reason) => rows.push(line.unavailable(reason)),
            Ok(found) => {
                rows.push(line.at(Formula::Rate { cell, scale: 1.0 }));
                texts.push(found);
            }
        }
    }
    Built {
        rows,
        cells: texts.len(),
        source: (!texts.is_empty()).then(|| {
            Box::new(Numbers {
                texts,
                mean: Mean::No,
            }) as Box<dyn Source>
        }),
        notes: Vec::new(),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Mean {
    Yes,
    No,
}

/// One file per CPU, of at most [`MAX_FILES`] CPUs.
struct Each {
    texts: Result<Vec<Text>, String>,
    all: usize,
}

fn each(root: &Path, cpus: &[usize], path: &dyn Fn(usize) -> String) -> Each {
    let texts = cpus
        .iter()
        .take(MAX_FILES)
        .map(|&cpu| {
            let mut text = Text::open(root, &path(cpu))?;
            files::number(text.read()?).map_err(|problem| format!("{}: {problem}", text.path()))?;
            Ok(text)
        })
        .collect();
    Each {
        texts,
        all: cpus.len(),
    }
}

impl Each {
    fn finish(self, rows: Vec<(Row, Formula)>, mean: Mean) -> Built {
        match self.texts {
            Err(reason) => {
                Built::unavailable(rows.into_iter().map(|(row, _)| row).collect(), &reason)
            }
            Ok(texts) => {
                let mut notes = Vec::new();
                if texts.len() < self.all {
                    notes.push(format!(
                        "{} is read of {} of the {} CPUs",
                        rows[0].0.counter.name,
                        texts.len(),
                        self.all
                    ));
                }
                Built {
                    cells: rows.len(),
                    rows: rows
                        .into_iter()
                        .map(|(row, formula)| row.at(formula))
                        .collect(),
                    source: Some(Box::new(Numbers {
                        texts: vec![texts],
                        mean,
                    })),
                    notes,
                }
            }
        }
    }
}

/// Sums or means over files that hold one number each.
struct Numbers {
    texts: Vec<Vec<Text>>,
    mean: Mean,
}

impl Source for Numbers {
    fn sample(&mut self, cells: &mut [f64]) {
        for (texts, cell) in self.texts.iter_mut().zip(cells) {
            let count = texts.len().max(1) as f64;
            let sum: Option<f64> = texts
                .iter_mut()
                .map(|text| files::number(text.read().ok()?).ok())
                .sum();
            if let Some(sum) = sum {
                *cell = match self.mean {
                    Mean::Yes => sum / count,
                    Mean::No => sum,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pmu::tests::tree;
    use super::*;

    #[test]
    fn ticks_of_the_chosen_cpus() {
        let text = "cpu  9 9 9 9 9 9 9 99 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n\
                    cpu1 1 2 3 4 5 6 7 30 0 0\nintr 5\n";
        assert_eq!(ticks(text, &[0]), Ok([8.0, 19.0]));
        assert_eq!(ticks(text, &[0, 1]), Ok([38.0, 38.0]));
        assert!(ticks(text, &[0, 7]).unwrap_err().contains("1 of 2"));
        assert!(ticks("cpu0 1 x 3 4 5 6 7 8\n", &[0]).is_err());
        assert!(ticks("", &[0]).is_err());
    }

    #[test]
    fn one_number_per_cpu() {
        let at = |cpu: usize| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        let (zero, one) = (at(0), at(1));
        let root = tree(&[(&zero, "2000000\n"), (&one, "3000000\n")]);
        let mut texts = each(root.path(), &[0, 1], &at).finish(
            vec![(
                row("frequency", "Hz", Kind::Level, Owner::Cpus, "cpufreq"),
                Formula::Level {
                    cell: 0,
                    scale: 1e3,
                },
            )],
            Mean::Yes,
        );
        let mut cells = [f64::NAN];
        texts.source.as_mut().unwrap().sample(&mut cells);
        assert_eq!(cells, [2_500_000.0]);
        let bad = tree(&[(&zero, "<unsupported>\n")]);
        assert!(each(bad.path(), &[0], &at).texts.is_err());
        assert!(each(bad.path(), &[5], &at).texts.is_err());
    }
}
