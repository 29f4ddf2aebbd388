//! Loading and saving profiles.

use super::Profile;
use std::path::Path;
use std::path::PathBuf;
use thiserror::Error;

/// Why a profile could not be loaded; always names the file.
#[derive(Debug, Error)]
#[error("{}: {problem}", path.display())]
pub struct LoadError {
    pub path: PathBuf,
    pub problem: String,
}

pub fn load(_path: &Path) -> Result<Profile, LoadError> {
    unimplemented!()
}

pub fn load_dir(_dir: &Path) -> Result<Vec<(PathBuf, Profile)>, LoadError> {
    unimplemented!()
}

pub fn save(_profile: &Profile, _path: &Path) -> std::io::Result<()> {
    unimplemented!()
}
