//! `jostle profiles list`: one line for each profile.

use super::scan;
use crate::cli::output;
use crate::report::Style;
use crate::report::fleet_page;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::resource::Resource;
use jostle_profile::summary::Document;
use jostle_profile::summary::Summary;
use serde::Serialize;
use std::cmp::Ordering;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directories or files
    #[arg(default_value = ".", value_name = "DIR")]
    from: Vec<PathBuf>,
    /// Order of the lines; equal ones by name
    #[arg(long, value_enum, default_value = "name")]
    sort: Order,
    /// The other way round
    #[arg(long)]
    reverse: bool,
    /// Only profiles whose name contains this
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Only of machines whose fingerprint begins with this or whose model contains it
    #[arg(long, value_name = "TEXT")]
    machine: Option<String>,
    /// Only of metrics whose name contains this
    #[arg(long, value_name = "TEXT")]
    metric: Option<String>,
    /// Only profiles on which a source of this resource was shown to cost something
    #[arg(long, value_name = "RESOURCE")]
    sensitive_to: Option<Resource>,
    /// Only profiles recorded at this day or later, like 2026-01-31
    #[arg(long, value_name = "DAY", value_parser = parse_day)]
    since: Option<String>,
    /// Only profiles recorded before this day
    #[arg(long, value_name = "DAY", value_parser = parse_day)]
    before: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Lay out for this many columns instead of the terminal's (120 in a pipe)
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(60..))]
    width: Option<u16>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Order {
    Name,
    Machine,
    Metric,
    Date,
    /// Share of the entries that are decided
    Decided,
    /// Largest loss that was shown
    Loss,
}

/// A day as `2026-01-31`, or a moment that starts so.
pub fn parse_day(text: &str) -> Result<String, String> {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        let digits = bytes.get(range).unwrap_or_default();
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
    };
    let dashes = bytes.get(4) == Some(&b'-') && bytes.get(7) == Some(&b'-');
    let rest = bytes.get(10).is_none_or(|byte| *byte == b'T');
    match dashes && rest && digits(0..4) && digits(5..7) && digits(8..10) {
        true => Ok(text.to_string()),
        false => Err("write the day as 2026-01-31".into()),
    }
}

/// A profile of the list with the file that holds it.
#[derive(Serialize)]
struct Line<'a> {
    file: &'a PathBuf,
    #[serde(flatten)]
    summary: &'a Summary,
}

pub fn run(args: Args) -> Result<()> {
    let documents = scan::documents(scan::files(&args.from)?)?;
    let mut lines: Vec<Line> = Vec::new();
    let mut refused = Vec::new();
    let mut other = 0;
    for (file, document) in &documents {
        match document {
            Document::Profile(summary) if args.wanted(summary) => {
                lines.push(Line { file, summary })
            }
            Document::Profile(_) => {}
            Document::Other(_) => other += 1,
            Document::Refused(problem) => refused.push((file, problem.to_string())),
        }
    }
    lines.sort_by(|a, b| {
        let order = args.sort.compare(a.summary, b.summary);
        let order = if args.reverse { order.reverse() } else { order };
        order
            .then_with(|| a.summary.name.cmp(&b.summary.name))
            .then_with(|| a.file.cmp(b.file))
    });
    if args.json {
        let refused: Vec<_> = refused
            .iter()
            .map(|(file, problem)| serde_json::json!({"file": file, "problem": problem}))
            .collect();
        return output::json(&serde_json::json!({
            "profiles": serde_json::to_value(&lines).map_err(Error::environment)?,
            "other_documents": other,
            "refused": refused,
        }));
    }
    scan::warn_of_refused(&documents);
    let style = Style::for_stdout();
    let style = args.width.map_or(style, |width| style.with_width(width));
    let summaries: Vec<&Summary> = lines.iter().map(|line| line.summary).collect();
    output::text(&fleet_page(&summaries, style))
}

impl Args {
    fn wanted(&self, it: &Summary) -> bool {
        let contains = |part: &Option<String>, text: &str| {
            part.as_ref()
                .is_none_or(|part| text.contains(part.as_str()))
        };
        let machine = self.machine.as_ref().is_none_or(|text| {
            it.machine.starts_with(text.as_str()) || it.model.contains(text.as_str())
        });
        let sensitive = self
            .sensitive_to
            .is_none_or(|resource| it.sensitive.iter().any(|id| id == resource.id()));
        let since = self
            .since
            .as_deref()
            .is_none_or(|day| *it.recorded_at >= *day);
        let before = self
            .before
            .as_deref()
            .is_none_or(|day| *it.recorded_at < *day);
        let text = contains(&self.name, &it.name) && contains(&self.metric, &it.metric);
        text && machine && sensitive && since && before
    }
}

impl Order {
    fn compare(self, a: &Summary, b: &Summary) -> Ordering {
        let share = |it: &Summary| it.decided as f64 / it.entries.max(1) as f64;
        let loss = |it: &Summary| {
            let shown = it.most_sensitive.as_ref();
            shown
                .and_then(|it| it.loss_percent)
                .unwrap_or(f64::NEG_INFINITY)
        };
        match self {
            Order::Name => a.name.cmp(&b.name),
            Order::Machine => a.machine.cmp(&b.machine),
            Order::Metric => a.metric.cmp(&b.metric),
            Order::Date => a.recorded_at.cmp(&b.recorded_at),
            // The most first: that is what is looked for.
            Order::Decided => share(b).total_cmp(&share(a)),
            Order::Loss => loss(b).total_cmp(&loss(a)),
        }
    }
}
