//! `jostle counters`: what a target and the machine do, live.

use super::duration::parse_duration;
use super::interrupt;
use super::output;
use super::select;
use super::target::TargetArgs;
use jostle_host::machine::Machine;
use jostle_host::machine::format_bytes;
use jostle_measure::console::note;
use jostle_measure::counters;
use jostle_measure::counters::Counter;
use jostle_measure::counters::CounterOptions;
use jostle_measure::counters::Counters;
use jostle_measure::counters::EventError;
use jostle_measure::counters::Kind;
use jostle_measure::counters::Owner;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::workload::Exit;
use jostle_measure::workload::State;
use jostle_measure::workload::Target;
use serde::Serialize;
use serde_json::Value;
use serde_json::json;
use std::io::IsTerminal;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

/// Shortest interval: below it, looking is most of what is seen.
const SHORTEST: Duration = Duration::from_millis(5);
/// Longest sleep between two looks at Ctrl-C and the target.
const NAP: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
#[command(mut_group("target", |group| group.required(false)))]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Length of an interval
    #[arg(long, value_parser = parse_duration, default_value = "1s", value_name = "TIME")]
    every: Duration,
    /// End after this many intervals [default: with the target, or never]
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Further events: r01c2, PMU/EVENT/, cpu/event=0x3c,umask=0x1/,
    /// CATEGORY:NAME of a tracepoint, or names like page-faults
    #[arg(long, value_name = "LIST")]
    events: Option<String>,
    /// Show every counter that is not available, with its reason
    #[arg(long)]
    all: bool,
    /// List what can be counted, and why the rest cannot, and stop
    #[arg(long)]
    list: bool,
    /// Print one JSON document per interval, each on a line of its own
    #[arg(long)]
    json: bool,
}

/// What to count beside the usual, from `--events`.
///
/// # Errors
/// A request error for what is not well written. What is, and is not here, is
/// shown with its reason.
pub fn options(events: Option<&str>) -> Result<CounterOptions> {
    let mut options = CounterOptions::default();
    if let Some(list) = events {
        let wrong = |reason: EventError| Error::request(format!("--events: {reason}"));
        options.events = counters::split_list(list).map_err(wrong)?;
        for event in &options.events {
            if let Err(error @ EventError::Syntax(_)) = counters::check_event(&options, event) {
                return Err(wrong(error));
            }
        }
    }
    Ok(options)
}

pub fn run(args: Args) -> Result<()> {
    let options = options(args.events.as_deref())?;
    if args.every < SHORTEST {
        return Err(Error::request(format!(
            "--every: the shortest interval is {} ms",
            SHORTEST.as_millis()
        )));
    }
    if args.count == Some(0) {
        return Err(Error::request(
            "--count: give 1 or more, or leave it out to go on",
        ));
    }
    let flag = interrupt::flag()?;
    let mut target = args.start()?;
    let mut counters = match &target {
        Some(target) => Counters::open(&target.scope(), &target.cpus()?, &options),
        None => Counters::of_machine(&options),
    };
    if args.list {
        return match args.json {
            true => output::json(&catalogue(&counters)),
            false => output::text(&catalogue_text(&counters)),
        };
    }
    let ended = args.watch(&mut counters, target.as_mut(), &flag)?;
    if let (Some(target), Some(exit)) = (&target, ended) {
        note!("jostle: {} {exit}", target.name());
    }
    match interrupt::raised(&flag) {
        true => Err(Error::Interrupted(String::new())),
        false => Ok(()),
    }
}

impl Args {
    /// The target, or none, which means the machine.
    fn start(&self) -> Result<Option<Target>> {
        let placed = self.target.cpus.is_some();
        if !self.target.given() {
            return match placed {
                true => Err(Error::request(
                    "--cpus: only for a target; give --pid or a command after --",
                )),
                false => Ok(None),
            };
        }
        let machine = Machine::detect();
        let limits = select::LimitArgs::default().resolve(&machine, None)?;
        let spec = self.target.spec(&limits)?;
        spec.check()?;
        // Looking on must not move anything that was not asked to be moved.
        let cpus = match placed {
            true => Some(self.target.cpus(&machine, &spec, false)?.cpus),
            false => None,
        };
        Target::start(&spec, cpus.as_deref(), None).map(Some)
    }

    /// Shows interval after interval; how the target ended, if it did.
    fn watch(
        &self,
        counters: &mut Counters,
        mut target: Option<&mut Target>,
        flag: &AtomicBool,
    ) -> Result<Option<Exit>> {
        let redraw = !self.json && std::io::stdout().is_terminal();
        let began = Instant::now();
        let mut before = counters.sample();
        let mut since = Instant::now();
        let mut number = 0;
        loop {
            let ended = wait(self.every, since, &mut target, flag);
            let after = counters.sample();
            let length = since.elapsed();
            since = Instant::now();
            number += 1;
            let interval = Interval {
                number,
                at: began.elapsed(),
                length,
                values: counters.readings(&before, &after),
                shares: counters.running_shares(&before, &after),
            };
            before = after;
            match self.json {
                true => output::text(&format!("{}\n", interval.json(counters)))?,
                false => {
                    let text = interval.text(counters, self.all);
                    output::text(&match redraw {
                        true => format!("\x1b[H\x1b[2J{}", fitted(&text)),
                        false => format!("{text}\n"),
                    })?;
                }
            }
            if ended.is_some() || interrupt::raised(flag) || self.count == Some(number) {
                return Ok(ended);
            }
        }
    }
}

/// Sleeps until the interval is over, the target has ended or Ctrl-C came.
fn wait(
    every: Duration,
    since: Instant,
    target: &mut Option<&mut Target>,
    flag: &AtomicBool,
) -> Option<Exit> {
    loop {
        if let Some(target) = target
            && let State::Exited(exit) = target.state()
        {
            return Some(exit);
        }
        let left = every.saturating_sub(since.elapsed());
        if left.is_zero() || interrupt::raised(flag) {
            return None;
        }
        sleep(left.min(NAP));
    }
}

/// One interval's readings, in the order of the list.
struct Interval {
    number: u64,
    at: Duration,
    length: Duration,
    values: Vec<Option<f64>>,
    shares: Vec<Option<f64>>,
}

impl Interval {
    fn json(&self, counters: &Counters) -> Value {
        let mut readings = serde_json::Map::new();
        for (index, counter) in counters.list().iter().enumerate() {
            let reading = match (&counter.unavailable, self.values[index]) {
                (Some(reason), _) => json!({ "unavailable": reason }),
                (None, None) => json!({ "unavailable": NOTHING }),
                (None, Some(value)) => {
                    let mut reading = json!({
                        "value": value,
                        "unit": counter.unit,
                        "of": owner(counter.owner),
                        "source": counter.source,
                    });
                    if let Some(share) = self.shares[index] {
                        reading["running_share"] = share.into();
                    }
                    reading
                }
            };
            readings.insert(counter.name.clone(), reading);
        }
        json!({
            "interval": self.number,
            "at_seconds": self.at.as_secs_f64(),
            "length_seconds": self.length.as_secs_f64(),
            "counters": readings,
            "notes": counters.notes(),
        })
    }

    fn text(&self, counters: &Counters, all: bool) -> String {
        let available = counters.list().iter().enumerate();
        let available = available.filter(|(_, counter)| counter.unavailable.is_none());
        let rows = available.map(|(index, counter)| {
            let value = self.values[index].map_or("-".into(), |value| shown(value, counter.unit));
            let share = self.shares[index].map(|share| format!("{:.0} %", share * 100.0));
            [
                counter.name.clone(),
                value,
                owner(counter.owner).into(),
                share.unwrap_or_default(),
                counter.source.into(),
            ]
        });
        let mut text = format!(
            "after {:.1} s, over {:.2} s:\n{}",
            self.at.as_secs_f64(),
            self.length.as_secs_f64(),
            aligned(["counter", "value", "of", "counting", "source"], rows)
        );
        for note in counters.notes() {
            text += &format!("note: {note}\n");
        }
        // What was asked for by name is answered by name.
        for counter in counters.list() {
            if let (counters::ASKED, Some(reason)) = (counter.source, &counter.unavailable) {
                text += &format!("{} is not available: {reason}\n", counter.name);
            }
        }
        text + &unavailable(counters.list(), all)
    }
}

/// As much of `text` as the terminal shows at once.
fn fitted(text: &str) -> String {
    let (height, width) = console::Term::stdout().size();
    let height = usize::from(height).max(4);
    // A long line takes several of the terminal's.
    let width = usize::from(width).max(1);
    let rows = |line: &str| line.chars().count().div_ceil(width).max(1);
    if text.lines().map(rows).sum::<usize>() < height {
        return text.into();
    }
    let mut left = height - 2;
    let fits = |line: &&str| {
        let rest = left.checked_sub(rows(line));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let shown: Vec<&str> = text.lines().take_while(fits).collect();
    let hidden = text.lines().count() - shown.len();
    let shown: String = shown.iter().map(|line| format!("{line}\n")).collect();
    format!("{shown}… {hidden} more lines: a taller window or `| less` shows them\n")
}

const NOTHING: &str = "no reading in this interval: it did not run, or was not counted";

fn owner(owner: Owner) -> &'static str {
    match owner {
        Owner::Target => "target",
        Owner::Cpus => "CPUs",
        Owner::Machine => "machine",
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Rate => "rate",
        Kind::Ratio => "ratio",
        Kind::Level => "level",
    }
}

/// A value for people.
fn shown(value: f64, unit: &str) -> String {
    match unit {
        "B" | "B/s" => {
            let bytes = format_bytes(value.max(0.0) as u64);
            bytes + unit.strip_prefix('B').unwrap_or_default()
        }
        "us/s" => time_share(value / 1e6),
        "ns/s" => time_share(value / 1e9),
        "%" => format!("{value:.2} %"),
        "Hz" => format!("{:.3} GHz", value / 1e9),
        _ if value.abs() >= 1e9 => format!("{:.3} G {unit}", value / 1e9),
        _ if value.abs() >= 1e6 => format!("{:.3} M {unit}", value / 1e6),
        _ if value.abs() >= 1e4 => format!("{:.1} k {unit}", value / 1e3),
        _ if value.abs() >= 100.0 || value == value.round() => format!("{value:.0} {unit}"),
        _ => format!("{value:.3} {unit}"),
    }
}

/// Seconds per second.
fn time_share(share: f64) -> String {
    match share {
        share if share >= 0.1 => format!("{share:.3} s/s"),
        share if share >= 1e-4 => format!("{:.2} ms/s", share * 1e3),
        share => format!("{:.1} us/s", share * 1e6),
    }
}

/// Titles and rows with their columns aligned, the second one to the right.
fn aligned(titles: [&str; 5], rows: impl Iterator<Item = [String; 5]>) -> String {
    let rows: Vec<_> = std::iter::once(titles.map(String::from))
        .chain(rows)
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let [a, b, c, d] = [0, 1, 2, 3].map(|column| width(column).unwrap_or_default());
    let line = |[name, value, of, kind, source]: &[String; 5]| {
        let line = format!("{name:<a$}  {value:>b$}  {of:<c$}  {kind:>d$}  {source}");
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}

/// What cannot be counted: each reason once with `all`, else the one that
/// takes most away.
fn unavailable(list: &[Counter], all: bool) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for counter in list {
        let Some(reason) = &counter.unavailable else {
            continue;
        };
        match reasons.iter_mut().find(|(other, _)| other == reason) {
            Some((_, names)) => names.push(&counter.name),
            None => reasons.push((reason, vec![&counter.name])),
        }
    }
    let count: usize = reasons.iter().map(|(_, names)| names.len()).sum();
    // Of equal ones the first, which is the weightier.
    let Some(most) = reasons.iter().rev().max_by_key(|(_, names)| names.len()) else {
        return String::new();
    };
    if !all {
        return format!(
            "{count} counters are not available here, {} of them ({}) because {}; --all shows \
             every reason\n",
            most.1.len(),
            some(&most.1),
            most.0
        );
    }
    let mut text = String::from("\nnot available here:\n");
    for (reason, names) in reasons {
        text += &format!("{}\n    {reason}\n", names.join(", "));
    }
    text
}

fn some(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    match names.len() > SHOWN {
        true => format!("{}, …", names[..SHOWN].join(", ")),
        false => names.join(", "),
    }
}

/// One counter as `--list --json` shows it.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    unit: &'a str,
    kind: &'static str,
    of: &'static str,
    source: &'a str,
    available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

fn catalogue(counters: &Counters) -> Vec<Entry<'_>> {
    let list = counters.list().iter();
    list.map(|counter| Entry {
        name: &counter.name,
        unit: counter.unit,
        kind: kind(counter.kind),
        of: owner(counter.owner),
        source: counter.source,
        available: counter.unavailable.is_none(),
        reason: counter.unavailable.as_deref(),
    })
    .collect()
}

fn catalogue_text(counters: &Counters) -> String {
    let list = counters.list().iter();
    let rows = list.filter(|counter| counter.unavailable.is_none());
    let rows = rows.map(|counter| {
        [
            counter.name.clone(),
            counter.unit.into(),
            owner(counter.owner).into(),
            kind(counter.kind).into(),
            counter.source.into(),
        ]
    });
    let mut text = aligned(["counter", "unit", "of", "kind", "source"], rows);
    for note in counters.notes() {
        text += &format!("note: {note}\n");
    }
    text + &unavailable(counters.list(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_readable() {
        assert_eq!(shown(0.0, "faults/s"), "0 faults/s");
        assert_eq!(shown(2.5e9, "cycles/s"), "2.500 G cycles/s");
        assert_eq!(shown(12_345.0, "switches/s"), "12.3 k switches/s");
        assert_eq!(
            shown(0.731, "instructions/cycle"),
            "0.731 instructions/cycle"
        );
        assert_eq!(shown(2048.0, "B/s"), "2 KiB/s");
        assert_eq!(shown(250_000.0, "us/s"), "0.250 s/s");
        assert_eq!(shown(4_000.0, "ns/s"), "4.0 us/s");
        assert_eq!(shown(3e9, "Hz"), "3.000 GHz");
    }

    #[test]
    fn reasons_are_said_once() {
        let counter = |name: &str, unavailable: Option<&str>| Counter {
            name: name.into(),
            unit: "x",
            kind: Kind::Rate,
            owner: Owner::Target,
            source: "s",
            unavailable: unavailable.map(String::from),
        };
        let list = [
            counter("a", Some("no PMU")),
            counter("b", None),
            counter("c", Some("off")),
            counter("d", Some("no PMU")),
        ];
        let short = unavailable(&list, false);
        assert!(
            short.starts_with("3 counters are not available here, 2 of them (a, d) because no PMU")
        );
        let long = unavailable(&list, true);
        assert!(long.contains("a, d\n    no PMU\nc\n    off\n"), "{long}");
        assert_eq!(unavailable(&list[1..2], true), "");
    }
}
