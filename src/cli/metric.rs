//! How performance is read, from flags.

use super::duration::parse_duration;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::metric::MetricOptions;
use jostle_measure::metric::StdoutKind;
use jostle_profile::Direction;
use std::path::PathBuf;
use std::time::Duration;

/// What a printed number means.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    /// The level since the last print: a window's reading is the mean.
    Value,
    /// A running total: a window's reading is its growth per second.
    Rate,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Metric")]
pub struct MetricArgs {
    /// How performance is read; `jostle metrics` lists the ways
    /// [default: the best available]
    #[arg(long)]
    pub metric: Option<String>,
    /// Which way a number is better that is printed or exposed
    #[arg(
        long,
        default_value = "higher",
        value_parser = PossibleValuesParser::new(["higher", "lower"]).map(|word| match &*word {
            "lower" => Direction::Lower,
            _ => Direction::Higher,
        })
    )]
    direction: Direction,
    /// Whether such a number is a value or a running total
    #[arg(long, value_enum, default_value = "value")]
    kind: Kind,
    /// Longest one run of a finite command may take
    #[arg(long, value_parser = parse_duration, default_value = "600s", value_name = "TIME")]
    run_timeout: Duration,
    /// Longest one run of an exec: command or one page of metrics may take
    #[arg(long, value_parser = parse_duration, default_value = "10s", value_name = "TIME")]
    probe_timeout: Duration,
    /// Shortest time from one such reading to the next
    #[arg(long, value_parser = parse_duration, default_value = "200ms", value_name = "TIME")]
    probe_interval: Duration,
    /// PEM file of the certificate authorities to believe where a page of metrics is
    /// read with https:// [default: those of the system]
    #[arg(long, value_name = "FILE")]
    metric_ca: Option<PathBuf>,
}

impl MetricArgs {
    pub fn options(&self) -> Result<MetricOptions> {
        let metric = self.metric.as_deref().unwrap_or_default();
        if self.metric_ca.is_some() && !metric.starts_with("prometheus:https://") {
            return Err(Error::request(
                "--metric-ca: this is for --metric prometheus:https://… alone; leave it out",
            ));
        }
        Ok(MetricOptions {
            direction: self.direction,
            kind: match self.kind {
                Kind::Value => StdoutKind::Value,
                Kind::Rate => StdoutKind::Rate,
            },
            run_timeout: self.run_timeout,
            probe_timeout: self.probe_timeout,
            probe_interval: self.probe_interval,
            ca: self.metric_ca.clone(),
            ..MetricOptions::default()
        })
    }
}
