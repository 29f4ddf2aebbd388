//! What the tests of metrics share.

use jostle::metric;
use jostle::metric::Metric;
use jostle::metric::MetricOptions;
use jostle::workload;
use jostle::workload::CommandSpec;
use jostle::workload::Target;
use jostle::workload::TargetSpec;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

/// Long enough for the slowest machine; nothing is expected to take it.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn sh(script: &str) -> TargetSpec {
    TargetSpec::Command(CommandSpec::new(["sh", "-c", script]))
}

pub fn program(path: &Path) -> TargetSpec {
    TargetSpec::Command(CommandSpec::new([path.to_string_lossy()]))
}

pub fn impatient() -> MetricOptions {
    MetricOptions {
        print_timeout: Duration::from_millis(700),
        trial: Duration::from_millis(700),
        ..Default::default()
    }
}

pub type Started = (Target, Box<dyn Metric>);

/// Starts target and metric, and checks what every metric must say.
pub fn start(
    spec: &TargetSpec,
    name: &str,
    options: &MetricOptions,
) -> jostle::error::Result<Started> {
    workload::set_executable(env!("CARGO_BIN_EXE_jostle"));
    let started = metric::start(spec, Some(name), options, None)?;
    let metric = &started.1;
    assert!(!metric.window_rule().is_empty() && !metric.cost().is_empty());
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
pub fn window((target, metric): &mut Started, length: Duration) -> jostle::error::Result<f64> {
    metric.begin(target)?;
    std::thread::sleep(length);
    metric.end(target)
}

pub fn message<T>(result: jostle::error::Result<T>, code: u8) -> String {
    match result {
        Ok(_) => panic!("this should have failed"),
        Err(error) => {
            assert_eq!(error.exit_code(), code, "{error}");
            error.to_string()
        }
    }
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Compiles C; `None` when there is no compiler.
pub fn compiled(directory: &Path, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let (file, out) = (directory.join(format!("{name}.c")), directory.join(name));
    std::fs::write(&file, source).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-pthread"])
        .args(flags)
        .arg("-o")
        .arg(&out)
        .arg(&file);
    match gcc.status() {
        Ok(status) => {
            assert!(status.success(), "{source} does not compile");
            Some(out)
        }
        Err(error) => {
            println!("skipped: gcc: {error}");
            None
        }
    }
}
