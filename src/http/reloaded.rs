//! What is made of files, made again when they are replaced: certificates are
//! renewed while a server runs.

use jostle_measure::console::note;
use jostle_measure::console::warning;
use jostle_measure::error::Result;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

/// Files are looked at no more often than this.
const INTERVAL: Duration = Duration::from_secs(1);

type Load<T> = Box<dyn Fn() -> Result<T> + Send + Sync>;

/// A `T` that is as new as its files.
pub struct Reloaded<T> {
    files: Vec<PathBuf>,
    load: Load<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// Made of the newest files of which one could be made.
    made: T,
    /// Of the files that were last tried.
    tried: Vec<Stamp>,
    looked: Instant,
}

/// Differs between a file and what replaces it; `None` where there is none.
type Stamp = Option<(u64, u64, i64, i64, u64)>;

impl<T: Clone> Reloaded<T> {
    /// By `load`, which reads `files`.
    ///
    /// # Errors
    /// Those of `load`, the first time.
    pub fn new(
        files: Vec<PathBuf>,
        load: impl Fn() -> Result<T> + Send + Sync + 'static,
    ) -> Result<Self> {
        // Before they are read: what changes meanwhile is read again.
        let tried = stamps(&files);
        let made = load()?;
        let state = Mutex::new(State {
            made,
            tried,
            looked: Instant::now(),
        });
        Ok(Reloaded {
            files,
            load: Box::new(load),
            state,
        })
    }

    /// That of now. Where new files are wrong, which is said once, the one before.
    pub fn get(&self) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= INTERVAL {
            self.look(&mut state);
        }
        state.made.clone()
    }

    fn look(&self, state: &mut State<T>) {
        state.looked = Instant::now();
        let stamps = stamps(&self.files);
        if stamps == state.tried {
            return;
        }
        state.tried = stamps;
        match (self.load)() {
            Ok(made) => {
                state.made = made;
                note!("{}: read again", self.names());
            }
            Err(error) => warning!("{error}; what was read before stays in use"),
        }
    }

    fn names(&self) -> String {
        let names = self.files.iter().map(|file| file.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let it = std::fs::metadata(path).ok()?;
        Some((it.dev(), it.ino(), it.mtime(), it.mtime_nsec(), it.len()))
    };
    files.iter().map(stamp).collect()
}
