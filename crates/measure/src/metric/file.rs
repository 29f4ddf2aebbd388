//! Follows a file that is written by somebody else: a log that grows, or a
//! status file that is rewritten each time.

use super::error::Reason;
use super::feed::Feed;
use crate::error::Result;
use crate::workload::OutputSink;
use jostle_host::sys::clock::monotonic_ns;
use std::fs;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How often the file is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// Bytes before the place reached that must still be the same.
const REMEMBERED: usize = 64;

/// A backlog beyond this is skipped: the newest lines count.
const BACKLOG: u64 = 4 << 20;

/// Follows one file from a thread of its own, until dropped.
pub(super) struct Tail {
    pub(super) path: PathBuf,
    stop: Arc<AtomicBool>,
    problem: Arc<Mutex<Option<String>>>,
}

impl Tail {
    pub(super) fn new(path: &Path) -> Tail {
        Tail {
            path: path.into(),
            stop: Arc::default(),
            problem: Arc::default(),
        }
    }

    /// Feeds what is added to the file or rewritten from now on.
    ///
    /// # Errors
    /// A request error when the file is there and not an ordinary one, or may
    /// not be read. One that is not there yet is waited for.
    pub(super) fn start(&self, feed: Arc<Feed>) -> Result<()> {
        let name = format!("file:{}", self.path.display());
        let mut follower = Follower::new(&self.path);
        match fs::metadata(&self.path) {
            // Opening a pipe would wait for its writer.
            Ok(facts) if !facts.is_file() => return Err(Reason::NotOrdinary.wrong(&name)),
            Ok(_) => follower
                .skip_to_end()
                .map_err(|error| Reason::CannotRead(error).wrong(&name))?,
            Err(_) => {}
        }
        let (stop, problem) = (self.stop.clone(), self.problem.clone());
        let thread = std::thread::Builder::new().name("file-metric".into());
        let spawned = thread.spawn(move || {
            while !stop.load(Relaxed) {
                let said = follower.look(&feed).err().map(|error| error.to_string());
                *problem.lock().unwrap_or_else(PoisonError::into_inner) = said;
                std::thread::sleep(LOOK);
            }
        });
        spawned.map_err(|error| Reason::Thread(error).failed(&name))?;
        Ok(())
    }

    /// Why the file could not be read when it was last looked at.
    pub(super) fn problem(&self) -> Option<String> {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        problem.clone()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

#[derive(Default)]
struct Follower {
    path: PathBuf,
    open: Option<File>,
    /// Bytes read so far, and the last of them.
    position: u64,
    last: Vec<u8>,
    changed: (i64, i64),
    /// Whether it was changed without growing, as of the last look.
    suspect: bool,
}

impl Follower {
    fn new(path: &Path) -> Follower {
        Follower {
            path: path.into(),
            ..Follower::default()
        }
    }

    fn skip_to_end(&mut self) -> std::io::Result<()> {
        let file = File::open(&self.path)?;
        let facts = file.metadata()?;
        self.position = facts.len();
        self.changed = (facts.mtime(), facts.mtime_nsec());
        self.last = vec![0; REMEMBERED.min(facts.len() as usize)];
        let from = facts.len() - self.last.len() as u64;
        file.read_exact_at(&mut self.last, from)?;
        self.open = Some(file);
        Ok(())
    }

    /// Feeds what is new.
    fn look(&mut self, feed: &Feed) -> Result<(), Reason> {
        self.try_look(feed).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Reason::NoFile(self.path.clone()),
            _ => Reason::Unreadable {
                file: self.path.clone(),
                error,
            },
        })
    }

    fn try_look(&mut self, feed: &Feed) -> std::io::Result<()> {
        let there = fs::metadata(&self.path);
        if let Some(file) = self.open.take() {
            let facts = file.metadata()?;
            let same = there
                .as_ref()
                .is_ok_and(|there| (there.dev(), there.ino()) == (facts.dev(), facts.ino()));
            // What was added to a file before it was moved away still counts.
            self.read(&file, feed)?;
            if same {
                self.open = Some(file);
                return Ok(());
            }
            self.restart(feed);
        }
        if !there?.is_file() {
            return Err(std::io::Error::other("not an ordinary file"));
        }
        let file = File::open(&self.path)?;
        self.read(&file, feed)?;
        self.open = Some(file);
        Ok(())
    }

    fn restart(&mut self, feed: &Feed) {
        self.position = 0;
        self.last.clear();
        // What stood there ended, with or without a newline.
        feed.chunk(b"\n", monotonic_ns());
    }

    fn read(&mut self, file: &File, feed: &Feed) -> std::io::Result<()> {
        let facts = file.metadata()?;
        let changed = (facts.mtime(), facts.mtime_nsec());
        let length = facts.len();
        if changed == self.changed && length == self.position {
            return Ok(());
        }
        let rewritten = length < self.position || !self.unchanged(file);
        // Changed without growing: the kernel tells the time of a change before the
        // new length, so that the next look decides between more and the same again.
        let again = !rewritten && length == self.position;
        if again && !self.suspect {
            self.suspect = true;
            return Ok(());
        }
        self.suspect = false;
        if rewritten || again {
            self.restart(feed);
        }
        self.changed = changed;
        if length - self.position > BACKLOG {
            self.position = length - BACKLOG;
            self.last.clear();
        }
        let mut buffer = vec![0; 64 * 1024];
        // Not beyond the length seen with the time of the change, or what comes
        // meanwhile would look like a change without growth.
        while self.position < length {
            let room = buffer.len().min((length - self.position) as usize);
            let read = file.read_at(&mut buffer[..room], self.position)?;
            if read == 0 {
                break;
            }
            feed.chunk(&buffer[..read], monotonic_ns());
            self.position += read as u64;
            self.last.extend(&buffer[..read]);
            let excess = self.last.len().saturating_sub(REMEMBERED);
            self.last.drain(..excess);
        }
        Ok(())
    }

    fn unchanged(&self, file: &File) -> bool {
        let mut there = vec![0; self.last.len()];
        let from = self.position - self.last.len() as u64;
        file.read_exact_at(&mut there, from).is_ok() && there == self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    struct Case {
        directory: tempfile::TempDir,
        feed: Arc<Feed>,
        follower: Follower,
    }

    impl Case {
        fn new(before: &str) -> Case {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("log");
            fs::write(&path, before).unwrap();
            let mut follower = Follower::new(&path);
            follower.skip_to_end().unwrap();
            Case {
                directory,
                feed: Feed::new("test", r"v=(\d+)").unwrap(),
                follower,
            }
        }

        fn path(&self) -> PathBuf {
            self.directory.path().join("log")
        }

        fn add(&self, text: &str) {
            let file = fs::OpenOptions::new().append(true).open(self.path());
            file.unwrap().write_all(text.as_bytes()).unwrap();
        }

        fn seen(&mut self) -> (u64, f64) {
            let _ = self.follower.look(&self.feed);
            let seen = self.feed.lock();
            (seen.numbers, seen.window.last.1)
        }
    }

    #[test]
    fn only_what_is_added_counts() {
        let mut case = Case::new("v=1\nv=2\n");
        assert_eq!(case.seen(), (0, 0.0));
        case.add("v=3\nv=");
        assert_eq!(case.seen(), (1, 3.0));
        case.add("4\n");
        assert_eq!(case.seen(), (2, 4.0));
    }

    #[test]
    fn truncated_and_rewritten_files_restart() {
        let mut case = Case::new("v=1\n");
        fs::write(case.path(), "").unwrap();
        case.seen();
        fs::write(case.path(), "v=5\n").unwrap();
        assert_eq!(case.seen(), (1, 5.0));
        // As long as before, longer, and shorter than before.
        for (text, value) in [("v=6\n", 6.0), ("v=10\n", 10.0), ("v=7\n", 7.0)] {
            std::thread::sleep(Duration::from_millis(20));
            fs::write(case.path(), text).unwrap();
            assert_eq!(case.seen().1, value);
        }
    }

    #[test]
    fn a_change_whose_text_is_still_to_come_is_no_new_beginning() {
        let mut case = Case::new("v=1\n");
        let touch = |case: &Case| {
            let file = File::options().append(true).open(case.path()).unwrap();
            let later = std::time::SystemTime::now() + Duration::from_secs(1);
            file.set_modified(later).unwrap();
        };
        touch(&case);
        assert_eq!(case.seen().0, 0);
        case.add("v=2\n");
        assert_eq!(case.seen(), (1, 2.0));
        // The same again, and nothing to come.
        touch(&case);
        assert_eq!(case.seen().0, 1);
        assert_eq!(case.seen(), (3, 2.0));
    }

    #[test]
    fn rotated_files_are_followed_to_the_end() {
        let mut case = Case::new("v=1\n");
        case.add("v=2\n");
        fs::rename(case.path(), case.directory.path().join("log.1")).unwrap();
        assert_eq!(case.seen(), (1, 2.0));
        let error = case.follower.look(&case.feed).unwrap_err();
        assert!(matches!(error, Reason::NoFile(_)), "{error}");
        fs::write(case.path(), "v=3\n").unwrap();
        assert_eq!(case.seen(), (2, 3.0));
    }

    #[test]
    fn garbage_and_pipes_do_no_harm() {
        let mut case = Case::new("");
        let garbage: Vec<u8> = (0..200_000u32).map(|n| ((n * 7919) >> 3) as u8).collect();
        fs::write(case.path(), garbage).unwrap();
        case.seen();
        case.add("\nv=9\n");
        assert_eq!(case.seen().1, 9.0);
        let feed = case.feed.clone();
        assert!(
            Tail::new(case.directory.path())
                .start(feed.clone())
                .is_err()
        );
        assert!(Tail::new(Path::new("/dev/zero")).start(feed).is_err());
    }
}
