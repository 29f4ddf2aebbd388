//! How the measurement goes, on standard error.

use crate::report::so_far;
use indicatif::ProgressBar;
use indicatif::ProgressStyle;
use jostle_measure::console::note;
use jostle_measure::console::warning;
use jostle_measure::experiment::run::Observer;
use jostle_measure::experiment::run::Progress;
use std::io::IsTerminal;
use std::time::Duration;
use std::time::Instant;

const BAR_WIDTH: usize = 24;
/// Lines of the terminal that the losses known so far leave free.
const BESIDE: usize = 4;

/// A bar with the time left, and what is known so far, where standard error is a
/// terminal; nothing elsewhere. Keeps account of where the time goes.
pub struct Bar {
    bar: ProgressBar,
    /// What was done, in the order of its beginning, and how long.
    spent: Vec<(String, Duration)>,
    /// What is being done, and since when.
    current: Option<(String, Instant)>,
}

/// A bar of `length` steps where standard error is a terminal.
pub fn bar(length: u64, template: &str) -> ProgressBar {
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::new(length),
        false => ProgressBar::hidden(),
    };
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.progress_chars("━╸ "));
    bar
}

impl Bar {
    pub fn new(budget: Duration) -> Self {
        Bar {
            bar: bar(
                budget.as_millis() as u64,
                &format!("{{bar:{BAR_WIDTH}}} {{msg}}"),
            ),
            spent: Vec::new(),
            current: None,
        }
    }

    /// Books the time since the last call on what was done, and goes on to
    /// `next`.
    fn book(&mut self, next: Option<String>) {
        if let Some((what, since)) = self.current.take() {
            let entry = self.spent.iter_mut().find(|(known, _)| *known == what);
            match entry {
                Some((_, total)) => *total += since.elapsed(),
                None => self.spent.push((what, since.elapsed())),
            }
        }
        self.current = next.map(|what| (what, Instant::now()));
    }

    /// Where the time went, one line each, in the order of the beginnings.
    pub fn account(&mut self) -> String {
        self.book(None);
        let lines = self.spent.iter();
        let lines = lines.map(|(what, time)| format!("\n  {:6.2} s  {what}", time.as_secs_f64()));
        format!("where the time went:{}", lines.collect::<String>())
    }

    /// Says what is being done, at the place the clock stands at.
    pub fn step(&self, text: &str) {
        let elapsed = self.bar.elapsed().as_millis() as u64;
        let length = self.bar.length().unwrap_or(elapsed);
        self.bar.set_position(elapsed.min(length));
        let left = length.saturating_sub(elapsed).div_ceil(1000);
        self.bar.set_message(format!("about {left} s left: {text}"));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Bar {
    fn preparing(&mut self, text: &str) {
        self.book(Some(text.to_string()));
        self.bar.set_message(text.to_string());
        self.bar.tick();
    }

    fn plan(&mut self, lines: &[String]) {
        for line in lines {
            self.bar.suspend(|| note!("jostle: {line}"));
        }
    }

    fn progress(&mut self, progress: Progress) {
        let left = progress.budget.saturating_sub(progress.elapsed).as_secs();
        let what = match (progress.subject, progress.half) {
            (Some(resource), Some(half)) => format!("{resource}, {}", half.as_str()),
            _ => progress.note.clone(),
        };
        self.book(Some(what.clone()));
        self.bar.set_length(progress.budget.as_millis() as u64);
        self.bar.set_position(progress.elapsed.as_millis() as u64);
        let (rows, columns) = console::Term::stderr().size();
        let room = usize::from(rows).saturating_sub(BESIDE);
        let message = format!("at most {left} s left: {what}");
        let beside_bar = usize::from(columns).saturating_sub(BAR_WIDTH + 2);
        let mut message: String = message.chars().take(beside_bar).collect();
        for line in so_far(&progress.so_far, columns.into(), room) {
            message += "\n";
            message += &line;
        }
        self.bar.set_message(message);
    }

    fn warn(&mut self, text: &str) {
        self.bar.suspend(|| warning!("{text}"));
    }
}
