//! How much of each shared resource a machine gets, as text.

use jostle_host::machine::gauge::Gauge;
use jostle_host::machine::gauge::What;
use std::time::Duration;

/// Width of one column.
const COLUMN: usize = 9;

/// What the columns are.
pub fn gauges_head(cpu: usize, gauges: &[Gauge]) -> String {
    let names: String = gauges
        .iter()
        .map(|gauge| format!("{:>COLUMN$}", gauge.name))
        .collect();
    format!(
        "CPU {cpu}: share of the looks in which each was free, percent (units: integer operations{})\n\
         {:>8}{names}\n",
        match gauges.iter().find_map(|gauge| gauge.other_cpu()) {
            Some(cpu) => format!("; shared: the last-level cache with CPU {cpu}"),
            None => String::new(),
        },
        "seconds"
    )
}

/// The last `count` looks.
pub fn gauges_line(at: Duration, gauges: &[Gauge], count: usize) -> String {
    let shares: String = gauges
        .iter()
        .map(|gauge| match gauge.free_percent(count) {
            Some(percent) => format!("{percent:>COLUMN$.0}"),
            None => format!("{:>COLUMN$}", "–"),
        })
        .collect();
    format!("{:>8.0}{shares}\n", at.as_secs_f64())
}

/// All looks, and what they were compared with.
pub fn gauges_sum(gauges: &[Gauge]) -> String {
    let mut text = gauges_line(Duration::ZERO, gauges, usize::MAX);
    text.replace_range(..8, "     all");
    for gauge in gauges {
        let Some(median) = gauge.quantile(0.5) else {
            continue;
        };
        let unit = match gauge.what {
            What::Units => "ns per 1000 operations",
            What::Walk => "ns per access",
            What::LineTo(cpu) => {
                text += &format!(
                    "{:>8}  with CPU {cpu} up to {:.0} ns for a cache line there and back, median \
                     {median:.0}\n",
                    gauge.name, gauge.reference_ns
                );
                continue;
            }
        };
        text += &format!(
            "{:>8}  free at {:.1} {unit} ({}), median {median:.1}{}\n",
            gauge.name,
            gauge.reference_ns,
            gauge.reference,
            match gauge.free_percent(usize::MAX) {
                Some(0.0) => ": never free",
                _ => "",
            }
        );
    }
    text
}
