//! How performance is read, from flags.

use super::duration::parse_duration;
use crate::metric::MetricOptions;
use crate::metric::StdoutKind;
use clap::ValueEnum;
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
    #[arg(long, value_enum, default_value = "higher")]
    direction: DirectionArg,
    /// Whether such a number is a value or a running total
    #[arg(long, value_enum, default_value = "value")]
    kind: KindArg,
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DirectionArg {
    Higher,
    Lower,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindArg {
    Value,
    Rate,
}

impl MetricArgs {
    pub fn options(&self) -> MetricOptions {
        MetricOptions {
            direction: match self.direction {
                DirectionArg::Higher => Direction::Higher,
                DirectionArg::Lower => Direction::Lower,
            },
            kind: match self.kind {
                KindArg::Value => StdoutKind::Value,
                KindArg::Rate => StdoutKind::Rate,
            },
            run_timeout: self.run_timeout,
            probe_timeout: self.probe_timeout,
            probe_interval: self.probe_interval,
            ..MetricOptions::default()
        }
    }
}
