//! Logs on standard error, with a level that can be changed while the agent runs.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// Changes the level.
pub struct Log {
    level: reload::Handle<Targets, Registry>,
}

fn filter(level: &str) -> Targets {
    let level: LevelFilter = level.parse().unwrap_or(LevelFilter::INFO);
    // What libraries tell is for those who develop them.
    Targets::new().with_target("jostle", level)
}

impl Log {
    /// Writes to standard error from now on. The journal adds the time itself.
    pub fn start(level: &str) -> Log {
        let (layer, handle) = reload::Layer::new(filter(level));
        let registry = tracing_subscriber::registry().with(layer);
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .with_target(false);
        // A second start, as in tests, leaves the first one as it is.
        let _ = match std::env::var_os("JOURNAL_STREAM").is_some() {
            true => registry.with(lines.without_time()).try_init(),
            false => registry.with(lines).try_init(),
        };
        Log { level: handle }
    }

    pub fn set_level(&self, level: &str) {
        let _ = self.level.reload(filter(level));
    }
}
