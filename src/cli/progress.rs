//! How the measurement goes, on standard error.

use crate::console::note;
use crate::console::warning;
use crate::experiment::run::Observer;
use crate::experiment::run::Progress;
use indicatif::ProgressBar;
use indicatif::ProgressStyle;
use std::io::IsTerminal;
use std::time::Duration;

/// A bar with the time left where standard error is a terminal; nothing
/// elsewhere.
pub struct Bar {
    bar: ProgressBar,
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
            bar: bar(budget.as_millis() as u64, "{bar:24} {msg}"),
        }
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
        self.bar.set_length(progress.budget.as_millis() as u64);
        self.bar.set_position(progress.elapsed.as_millis() as u64);
        self.bar
            .set_message(format!("at most {left} s left: {what}"));
    }

    fn warn(&mut self, text: &str) {
        self.bar.suspend(|| warning!("{text}"));
    }
}
