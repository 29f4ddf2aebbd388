//! The Unix socket of the API: who may use it is a matter of file permissions.

use crate::agent::config::ApiSection;
use crate::http::tcp::BACKLOG;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use nix::sys::stat::Mode;
use nix::sys::stat::fchmod;
use nix::unistd::Gid;
use nix::unistd::Group;
use socket2::Domain;
use socket2::SockAddr;
use socket2::Socket;
use socket2::Type;
use std::fs;
use std::fs::File;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;

/// A socket that is listened on. Its file is removed when this is dropped.
pub struct SocketFile {
    pub listener: UnixListener,
    path: PathBuf,
    /// Device and inode, to remove no file of somebody else.
    identity: (u64, u64),
    _lock: Flock<File>,
}

impl SocketFile {
    /// Listens on `api.socket`; a file that a dead agent left behind is replaced.
    ///
    /// # Errors
    /// A request error for a path, mode or group that is none, and where another
    /// agent listens there.
    pub fn listen(config: &ApiSection) -> Result<SocketFile> {
        let path = &config.socket;
        let mode = mode(&config.socket_mode)?;
        let group = config.socket_group.as_deref().map(group).transpose()?;
        if let Some(directory) = path.parent() {
            let shown = directory.display();
            let failed = |error| unusable(path, format!("{shown} cannot be made: {error}"));
            fs::create_dir_all(directory).map_err(failed)?;
        }
        let lock = lock(path)?;
        remove_stale(path)?;
        let listener =
            bind(path, mode, group).map_err(|error| unusable(path, error.to_string()))?;
        let facts = fs::symlink_metadata(path);
        let facts = facts.map_err(|error| unusable(path, error.to_string()))?;
        Ok(SocketFile {
            listener,
            path: path.clone(),
            identity: (facts.dev(), facts.ino()),
            _lock: lock,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let facts = fs::symlink_metadata(&self.path);
        if facts.is_ok_and(|it| (it.dev(), it.ino()) == self.identity) {
            // The next agent replaces what is left.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn unusable(path: &Path, problem: String) -> Error {
    Error::request(format!("api.socket = \"{}\": {problem}", path.display()))
}

fn another_agent(path: &Path) -> Error {
    let problem = "another agent listens here; stop it, or give this one a socket and a state \
                   directory of its own";
    unusable(path, problem.into())
}

/// Held as long as the agent runs, so that of two that start at once one wins.
fn lock(path: &Path) -> Result<Flock<File>> {
    let mut beside = path.as_os_str().to_os_string();
    beside.push(".lock");
    let beside = PathBuf::from(beside);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&beside)
        .map_err(|error| unusable(path, format!("{}: {error}", beside.display())))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        Errno::EWOULDBLOCK => another_agent(path),
        error => unusable(path, format!("{}: {error}", beside.display())),
    })
}

fn remove_stale(path: &Path) -> Result<()> {
    let facts = match fs::symlink_metadata(path) {
        Ok(facts) => facts,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unusable(path, error.to_string())),
    };
    if !facts.file_type().is_socket() {
        let problem = "there is a file that is no socket; remove it, or name another path";
        return Err(unusable(path, problem.into()));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(another_agent(path));
    }
    fs::remove_file(path).map_err(|error| unusable(path, error.to_string()))
}

/// Nobody but the owner can connect before mode and group are as configured.
fn bind(path: &Path, mode: u32, group: Option<Gid>) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    fchmod(&socket, Mode::from_bits_truncate(0o600))?;
    socket.bind(&SockAddr::unix(path)?)?;
    if let Some(group) = group {
        std::os::unix::fs::lchown(path, None, Some(group.as_raw()))?;
    }
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn mode(text: &str) -> Result<u32> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err(Error::request(format!(
            "api.socket_mode = \"{text}\": give permissions as an octal number, for example \"0660\""
        ))),
    }
}

fn group(name: &str) -> Result<Gid> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        _ => Err(Error::request(format!(
            "api.socket_group = \"{name}\": there is no such group (groupadd --system {name})"
        ))),
    }
}
