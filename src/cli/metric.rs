//! How performance is read, from flags.

use super::duration::parse_duration;
use crate::metric::MetricOptions;
use crate::metric::StdoutKind;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use jostle_profile::Direction;
use std::time::Duration;

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
    kind: StdoutKind,
    /// Longest one run of a finite command may take
    #[arg(long, value_parser = parse_duration, default_value = "600s", value_name = "TIME")]
    run_timeout: Duration,
    /// Longest one run of an exec: command or one page of metrics may take
    #[arg(long, value_parser = parse_duration, default_value = "10s", value_name = "TIME")]
    probe_timeout: Duration,
    /// Shortest time from one such reading to the next
    #[arg(long, value_parser = parse_duration, default_value = "200ms", value_name = "TIME")]
    probe_interval: Duration,
}

impl MetricArgs {
    pub fn options(&self) -> MetricOptions {
        MetricOptions {
            direction: self.direction,
            kind: self.kind,
            run_timeout: self.run_timeout,
            probe_timeout: self.probe_timeout,
            probe_interval: self.probe_interval,
            ..MetricOptions::default()
        }
    }
}
