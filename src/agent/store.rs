//! The profiles of a node: a directory of `jostle-profile/1`, the newest of a
//! workload as `NAME.json`, older ones as `history/NAME/TIME.json`.

use jostle_profile as profile;
use jostle_profile::Profile;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::SystemTime;

/// Largest file that is taken for a profile, bytes.
const MOST_BYTES: u64 = 16 << 20;
/// Longest name.
const LONGEST_NAME: usize = 128;

/// Shared between threads.
pub struct Store {
    directory: PathBuf,
    /// Older profiles of a workload that are kept.
    history: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    profiles: BTreeMap<String, Stored>,
    /// By file: why it is no profile.
    broken: BTreeMap<PathBuf, String>,
}

struct Stored {
    /// Tells whether the file is still the one that was read.
    stamp: Stamp,
    profile: Arc<Profile>,
}

/// Length and time of change of a file.
type Stamp = (u64, Option<SystemTime>);

impl Store {
    /// The store in `directory`, which is made where it is missing.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn open(directory: &Path, history: usize) -> io::Result<Store> {
        fs::create_dir_all(directory)?;
        let store = Store {
            directory: directory.into(),
            history,
            known: Mutex::default(),
        };
        store.refresh()?;
        Ok(store)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads what was added, changed or removed by others since.
    ///
    /// # Errors
    /// What the file system answered to the listing; a file that cannot be read is
    /// among [`Self::broken`].
    pub fn refresh(&self) -> io::Result<()> {
        let mut seen = BTreeMap::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".json")) else {
                continue;
            };
            if check_name(name).is_ok()
                && let Ok(facts) = fs::metadata(&path)
                && facts.is_file()
            {
                seen.insert(name.to_string(), (path, facts.len(), facts.modified().ok()));
            }
        }
        let mut known = self.lock();
        known.profiles.retain(|name, _| seen.contains_key(name));
        known.broken.clear();
        for (name, (path, bytes, modified)) in seen {
            let stamp = (bytes, modified);
            if known
                .profiles
                .get(&name)
                .is_some_and(|it| it.stamp == stamp)
            {
                continue;
            }
            let read = match bytes > MOST_BYTES {
                true => Err(format!("{bytes} bytes are too many for a profile")),
                false => profile::load(&path).map_err(|error| error.problem),
            };
            match read {
                Ok(profile) => {
                    let profile = Arc::new(profile);
                    known.profiles.insert(name, Stored { stamp, profile });
                }
                Err(problem) => {
                    known.profiles.remove(&name);
                    known.broken.insert(path, problem);
                }
            }
        }
        Ok(())
    }

    /// Names of all profiles, sorted.
    pub fn names(&self) -> Vec<String> {
        self.lock().profiles.keys().cloned().collect()
    }

    /// The newest profile called `name`. Looked up among those that were read: a
    /// name never becomes a path.
    pub fn get(&self, name: &str) -> Option<Arc<Profile>> {
        self.lock().profiles.get(name).map(|it| it.profile.clone())
    }

    /// Files that are no profile, and why.
    pub fn broken(&self) -> BTreeMap<PathBuf, String> {
        self.lock().broken.clone()
    }

    /// Keeps `profile` as the newest called `name`; the one before goes into the
    /// history.
    ///
    /// # Errors
    /// A name that is no file name; what the file system answered. Then the one
    /// before is still the newest.
    pub fn put(&self, name: &str, profile: Profile) -> io::Result<()> {
        let invalid = |problem| io::Error::new(io::ErrorKind::InvalidInput, problem);
        check_name(name).map_err(invalid)?;
        let path = self.directory.join(format!("{name}.json"));
        if let Some(before) = self.get(name) {
            let directory = self.directory.join("history").join(name);
            fs::create_dir_all(&directory)?;
            let time = before.conditions.recorded_at.replace(':', "");
            profile::save(&before, &directory.join(format!("{time}.json")))?;
            self.prune(&directory)?;
        }
        profile::save(&profile, &path)?;
        let facts = fs::metadata(&path)?;
        let stored = Stored {
            stamp: (facts.len(), facts.modified().ok()),
            profile: Arc::new(profile),
        };
        self.lock().profiles.insert(name.into(), stored);
        Ok(())
    }

    /// Removes the oldest of a history; their names sort by time.
    fn prune(&self, directory: &Path) -> io::Result<()> {
        let mut kept: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(directory)? {
            kept.push(entry?.path());
        }
        kept.retain(|path| path.extension().is_some_and(|it| it == "json"));
        kept.sort_unstable();
        let surplus = kept.len().saturating_sub(self.history);
        for path in &kept[..surplus] {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// Letters, digits and a few more.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-@:+".contains(c)
}

/// `name` as a file name: `shop/cart-7` becomes `shop_cart-7`.
pub(super) fn file_name(name: &str) -> String {
    let name = name.trim_start_matches('.').chars().take(LONGEST_NAME);
    name.map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// A name that is a file name and nothing else.
fn check_name(name: &str) -> Result<(), String> {
    match name {
        "" => Err("a profile needs a name".into()),
        _ if name.len() > LONGEST_NAME => {
            Err(format!("a name of {} bytes is too long", name.len()))
        }
        _ if name.starts_with('.') => Err(format!("'{name}' begins with a dot")),
        _ if !name.chars().all(is_plain) => Err(format!(
            "'{name}': letters, digits and . _ - @ : + make a name"
        )),
        _ => Ok(()),
    }
}
