//! What happens to the target's CPUs, whoever runs there: busy and stolen time,
//! clock frequency, throttling by heat.

use super::counter::Kind;
use super::counter::Owner;
use super::part::Built;
use super::part::Context;
use super::part::Row;
use super::part::row;
use super::read;
use super::read::Files;
use jostle_host::os::Error;
use jostle_host::os::stat;
use jostle_host::os::text::Text;
use jostle_host::os::text::count;
use std::path::Path;

/// CPUs whose own files are read per sample at most.
const MAX_FILES: usize = 16;

/// `/proc/stat`, in percent of the time of one CPU.
pub(super) fn time(context: &Context) -> Built {
    const SOURCE: &str = "/proc/stat";
    let mut files = Files::default();
    let cpus = context.cpus.clone();
    let scale = 100.0 / stat::ticks_per_second() / cpus.len().max(1) as f64;
    let opened = Text::open(&context.options.root, SOURCE).and_then(|text| {
        let text = text.only_first(stat::bytes_of(&cpus));
        files.add(vec![text], 0..2, move |text, numbers| {
            let ticks = stat::ticks(text, &cpus)?;
            numbers.copy_from_slice(&[ticks.stolen, ticks.busy]);
            Ok(())
        })
    });
    let rows = ["steal", "cpu-busy"]
        .into_iter()
        .enumerate()
        .map(|(cell, name)| {
            row(name, "%", Kind::Ratio, Owner::Cpus, SOURCE).of_cell(cell, scale, &opened)
        });
    files.built(rows)
}

/// Clock frequency by cpufreq, the mean over the CPUs.
pub(super) fn frequency(context: &Context) -> Built {
    let mut files = Files::default();
    let (root, cpus) = (&context.options.root, &context.cpus);
    let opened = per_cpu(&mut files, root, cpus, 0, "cpufreq/scaling_cur_freq");
    let mut notes = Vec::new();
    if opened.is_ok() && cpus.len() > MAX_FILES {
        let all = cpus.len();
        notes.push(format!(
            "frequency is read of {MAX_FILES} of the {all} CPUs"
        ));
    }
    // From kHz, over all of them.
    let scale = 1e3 / cpus.len().clamp(1, MAX_FILES) as f64;
    let row = row("frequency", "Hz", Kind::Level, Owner::Cpus, "cpufreq");
    Built {
        notes,
        ..files.built([row.of_cell(0, scale, &opened)])
    }
}

/// How often the hardware slowed a core, or its package, down because of heat.
pub(super) fn heat(context: &Context) -> Built {
    const SOURCE: &str = "thermal_throttle";
    let mut files = Files::default();
    let (root, cpus) = (&context.options.root, &context.cpus);
    let rows: Vec<Row> = [
        ("core-throttles", "thermal_throttle/core_throttle_count"),
        (
            "package-throttles",
            "thermal_throttle/package_throttle_count",
        ),
    ]
    .into_iter()
    .enumerate()
    .map(|(cell, (name, file))| {
        let opened = per_cpu(&mut files, root, cpus, cell, file);
        row(name, "events/s", Kind::Rate, Owner::Cpus, SOURCE).of_cell(cell, 1.0, &opened)
    })
    .collect();
    files.built(rows)
}

/// The sum of one file per CPU, of at most [`MAX_FILES`] CPUs.
fn per_cpu(
    files: &mut Files,
    root: &Path,
    cpus: &[usize],
    cell: usize,
    file: &str,
) -> Result<(), Error> {
    let read = cpus.iter().take(MAX_FILES);
    let paths = read.map(|cpu| format!("sys/devices/system/cpu/cpu{cpu}/{file}"));
    files.add_one(read::open(root, paths)?, cell, count)
}

#[cfg(test)]
mod tests {
    use super::super::part::tests::context;
    use super::*;
    use jostle_host::os::fake::tree;

    #[test]
    fn one_number_per_cpu() {
        let at = |cpu: usize| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        let (zero, one) = (at(0), at(1));
        let open = |root: &Path, cpus: &[usize]| {
            let mut context = context(root, None);
            context.cpus = cpus.to_vec();
            frequency(&context)
        };
        let root = tree(&[(&zero, "2000000\n"), (&one, "3000000\n")]);
        let mut built = open(root.path(), &[0, 1]);
        let mut cells = [f64::NAN];
        built.source.as_mut().unwrap().sample(&mut cells);
        assert_eq!(cells, [5_000_000.0]);
        let formula = built.rows[0].formula.clone();
        assert_eq!(
            formula,
            Some(super::super::part::Formula::Level {
                cell: 0,
                scale: 500.0
            })
        );
        let bad = tree(&[(&zero, "<unsupported>\n")]);
        for cpu in [0, 5] {
            let built = open(bad.path(), &[cpu]);
            assert!(built.source.is_none());
            assert!(built.rows[0].counter.unavailable.is_some());
        }
    }
}
