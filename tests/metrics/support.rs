//! What the tests of metrics share.

use jostle_measure::metric;
use jostle_measure::metric::Metric;
use jostle_measure::metric::MetricOptions;
use jostle_measure::workload;
use jostle_measure::workload::CommandSpec;
use jostle_measure::workload::Target;
use jostle_measure::workload::TargetSpec;
use std::path::Path;
use std::time::Duration;

pub fn program(path: &Path) -> TargetSpec {
    TargetSpec::Command(CommandSpec::new([path.to_string_lossy()]))
}

pub type Started = (Target, Box<dyn Metric>);

/// Starts target, on `cpus` if given, and metric; guards and the like run the program under
/// test.
pub fn start_on(
    spec: &TargetSpec,
    name: Option<&str>,
    options: &MetricOptions,
    cpus: Option<&[usize]>,
) -> jostle_measure::error::Result<Started> {
    workload::set_executable(env!("CARGO_BIN_EXE_jostle"));
    metric::start(spec, name, options, cpus)
}

/// Starts target and metric, and checks what every metric must say.
pub fn start(
    spec: &TargetSpec,
    name: &str,
    options: &MetricOptions,
) -> jostle_measure::error::Result<Started> {
    let started = start_on(spec, Some(name), options, None)?;
    let metric = &started.1;
    assert!(!metric.window_rule().is_empty() && !metric.cost().is_empty());
    let row = metric::METRICS
        .iter()
        .filter(|row| name.starts_with(row.name))
        .max_by_key(|row| row.name.len());
    assert_eq!(row.map(|row| row.resolution), Some(metric.resolution()));
    assert!(metric.cost().contains(|c: char| c.is_ascii_digit()) || name == "ips");
    println!(
        "{name}: {:?}; {}; {}",
        metric.natural_window(),
        metric.window_rule(),
        metric.cost()
    );
    Ok(started)
}

/// One window of `length`.
pub fn window(
    (target, metric): &mut Started,
    length: Duration,
) -> jostle_measure::error::Result<f64> {
    metric.begin(target)?;
    std::thread::sleep(length);
    metric.end(target)
}
