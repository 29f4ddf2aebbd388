//! The profiles that annotations name, and their version.

use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::regular;
use jostle_schedule::App;
use jostle_schedule::predict::Population;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Largest file that is taken for a profile, bytes.
const MOST_BYTES: u64 = 16 << 20;

/// Files by name, as they were found.
pub type Files = BTreeMap<String, Vec<u8>>;

/// All profiles of one version.
#[derive(Default)]
pub struct Profiles {
    /// The same for the same names and contents, wherever they were read: replicas
    /// can be compared by it.
    pub version: String,
    pub apps: BTreeMap<String, Arc<App>>,
    /// By file: why it is no profile.
    pub broken: BTreeMap<String, String>,
}

impl Profiles {
    /// Every file is called as annotations name it, with `.json`.
    pub fn of(files: &Files) -> Profiles {
        let mut profiles = Profiles::default();
        let mut hash = Hash::default();
        for (file, text) in files {
            hash.add(file.as_bytes());
            hash.add(text);
            let name = file.strip_suffix(".json").unwrap_or(file);
            match read(text) {
                Ok(Some(read)) => {
                    let app = App::completed(&read, Population::bundled());
                    profiles.apps.insert(name.into(), Arc::new(app));
                }
                Ok(None) => {}
                Err(problem) => {
                    profiles.broken.insert(file.clone(), problem);
                }
            }
        }
        profiles.version = format!("{:016x}", hash.0);
        profiles
    }
}

/// `None` for another document of jostle.
fn read(text: &[u8]) -> Result<Option<Profile>, String> {
    #[derive(Deserialize)]
    struct Head {
        format: String,
    }
    let others = ["jostle-pairs/", "jostle-blame/", "jostle-node/"];
    if let Ok(head) = serde_json::from_slice::<Head>(text)
        && others.iter().any(|other| head.format.starts_with(other))
    {
        return Ok(None);
    }
    let read = profile::parse(text).map_err(|error| error.to_string())?;
    profile::check(&read).map_err(|error| error.to_string())?;
    Ok(Some(read))
}

/// FNV-1a of 64 bits: short, and the same on every machine and in every version.
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Tells whether a directory is still what was read: name, length and time of change
/// of every file.
pub type Stamp = Vec<(String, u64, Option<SystemTime>)>;

/// The `.json` files of a directory but schemas; a mounted ConfigMap is one.
///
/// # Errors
/// What the file system answered.
pub fn stamp(directory: &Path) -> io::Result<Stamp> {
    let mut stamp = Stamp::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let hidden = name.starts_with('.');
        if hidden || !name.ends_with(".json") || name.ends_with(".schema.json") {
            continue;
        }
        // Follows links: a ConfigMap is mounted as such.
        if let Ok(facts) = fs::metadata(entry.path())
            && facts.is_file()
        {
            stamp.push((name, facts.len(), facts.modified().ok()));
        }
    }
    stamp.sort_unstable();
    Ok(stamp)
}

/// What the files of `stamp` hold; an empty text for one that cannot be read.
pub fn read_directory(directory: &Path, stamp: &Stamp) -> Files {
    let text = |(name, bytes, _): &(String, u64, Option<SystemTime>)| {
        let text = match *bytes <= MOST_BYTES {
            true => regular::read(&directory.join(name), MOST_BYTES).unwrap_or_default(),
            false => Vec::new(),
        };
        (name.clone(), text)
    };
    stamp.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_files_are_told_and_the_version_follows_the_contents() {
        let redis = include_bytes!("../../../profiles/redis-closed.json").to_vec();
        let mut files = Files::from([
            ("redis.json".to_string(), redis.clone()),
            ("broken.json".to_string(), b"{\"format\": 7}".to_vec()),
            ("empty.json".to_string(), Vec::new()),
        ]);
        let first = Profiles::of(&files);
        assert_eq!(first.apps.keys().collect::<Vec<_>>(), ["redis"]);
        assert_eq!(
            first.broken.keys().collect::<Vec<_>>(),
            ["broken.json", "empty.json"]
        );
        assert_eq!(first.version, Profiles::of(&files).version);
        files.insert("other.json".into(), redis);
        assert_ne!(first.version, Profiles::of(&files).version);
    }

    #[test]
    fn a_directory_is_read_without_schemas_and_hidden_files() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["a.json", ".b.json", "c.schema.json", "d.txt"] {
            fs::write(directory.path().join(name), "{}").expect("a file");
        }
        let stamp = stamp(directory.path()).expect("readable");
        let files = read_directory(directory.path(), &stamp);
        assert_eq!(files.keys().collect::<Vec<_>>(), ["a.json"]);
    }
}
