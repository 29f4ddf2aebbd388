//! Sockets that schedulers connect to: a Unix socket, whose file permissions say
//! who may connect, or TCP on the loopback interface.

use jostle_measure::error::Error;
use jostle_measure::error::Result;
use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use nix::sys::stat::Mode;
use nix::sys::stat::fchmod;
use socket2::Domain;
use socket2::SockAddr;
use socket2::Socket;
use socket2::Type;
use std::fs;
use std::fs::File;
use std::fs::Permissions;
use std::io;
use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 256;

/// Of the socket's file: the owner and the group may connect.
const SOCKET_MODE: u32 = 0o660;

/// A socket that is listened on.
pub enum Listener {
    Unix(SocketFile),
    Tcp(TcpListener),
}

/// A Unix socket and its file.
pub struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode, to remove no file of somebody else.
    identity: (u64, u64),
    _lock: Flock<File>,
}

/// One connection.
pub enum Connection {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Listener {
    /// Listens on the Unix socket `path`; a file that a dead server left behind
    /// is replaced.
    ///
    /// # Errors
    /// A request error that names `flag` where the path cannot be used, or another
    /// server listens there.
    pub fn unix(flag: &str, path: &Path) -> Result<Listener> {
        let unusable = |problem: String| {
            let shown = path.display();
            Error::request(format!("{flag} {shown}: {problem}"))
        };
        if let Some(directory) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
            fs::create_dir_all(directory)
                .map_err(|error| unusable(format!("its directory cannot be created: {error}")))?;
        }
        let lock = lock(path).map_err(unusable)?;
        remove_stale(path).map_err(unusable)?;
        let listener = bind(path).map_err(|error| unusable(error.to_string()))?;
        let facts = fs::symlink_metadata(path).map_err(|error| unusable(error.to_string()))?;
        Ok(Listener::Unix(SocketFile {
            listener,
            path: path.into(),
            identity: (facts.dev(), facts.ino()),
            _lock: lock,
        }))
    }

    /// Listens on TCP. Clients are not authenticated, so only a loopback address
    /// is accepted.
    ///
    /// # Errors
    /// A request error that names `flag`.
    pub fn tcp(flag: &str, address: SocketAddr) -> Result<Listener> {
        if !address.ip().is_loopback() {
            return Err(Error::request(format!(
                "{flag} {address}: clients are not authenticated, so only a loopback address such as 127.0.0.1:7071 is accepted"
            )));
        }
        let listener = TcpListener::bind(address);
        let listener =
            listener.map_err(|error| Error::request(format!("{flag} {address}: {error}")))?;
        Ok(Listener::Tcp(listener))
    }

    /// Where clients connect, in words.
    pub fn address(&self) -> String {
        match self {
            Listener::Unix(socket) => socket.path.display().to_string(),
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => address.to_string(),
                Err(error) => format!("TCP ({error})"),
            },
        }
    }

    /// Removes the file of a Unix socket, if it is still this one's, so that nobody
    /// connects any more.
    pub fn remove_file(&self) {
        if let Listener::Unix(socket) = self {
            socket.remove();
        }
    }

    pub fn accept(&self) -> io::Result<Connection> {
        match self {
            Listener::Unix(socket) => Ok(Connection::Unix(socket.listener.accept()?.0)),
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // An answer is one small packet that somebody waits for.
                stream.set_nodelay(true)?;
                Ok(Connection::Tcp(stream))
            }
        }
    }
}

impl Connection {
    pub fn try_clone(&self) -> io::Result<Connection> {
        Ok(match self {
            Connection::Unix(stream) => Connection::Unix(stream.try_clone()?),
            Connection::Tcp(stream) => Connection::Tcp(stream.try_clone()?),
        })
    }

    pub fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        match self {
            Connection::Unix(stream) => stream.set_read_timeout(Some(limit)),
            Connection::Tcp(stream) => stream.set_read_timeout(Some(limit)),
        }
    }

    pub fn set_write_timeout(&self, limit: Duration) -> io::Result<()> {
        match self {
            Connection::Unix(stream) => stream.set_write_timeout(Some(limit)),
            Connection::Tcp(stream) => stream.set_write_timeout(Some(limit)),
        }
    }

    /// Ends it for all who hold a clone.
    pub fn shut_down(&self, how: Shutdown) {
        // It may have been closed by the client already.
        let _ = match self {
            Connection::Unix(stream) => stream.shutdown(how),
            Connection::Tcp(stream) => stream.shutdown(how),
        };
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => stream.read(buffer),
            Connection::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => stream.write(buffer),
            Connection::Tcp(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SocketFile {
    fn remove(&self) {
        let facts = fs::symlink_metadata(&self.path);
        if facts.is_ok_and(|it| (it.dev(), it.ino()) == self.identity) {
            // The next server replaces what is left.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

const IN_USE: &str = "another server listens here; stop it, or name another path";

/// Held as long as the server runs, so that of two that start at once one wins.
fn lock(path: &Path) -> Result<Flock<File>, String> {
    let mut beside = path.as_os_str().to_os_string();
    beside.push(".lock");
    let beside = PathBuf::from(beside);
    let shown = |error: String| format!("{}: {error}", beside.display());
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&beside)
        .map_err(|error| shown(error.to_string()))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        Errno::EWOULDBLOCK => IN_USE.into(),
        error => shown(error.to_string()),
    })
}

fn remove_stale(path: &Path) -> Result<(), String> {
    let facts = match fs::symlink_metadata(path) {
        Ok(facts) => facts,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if !facts.file_type().is_socket() {
        return Err("this file is not a socket; remove it, or name another path".into());
    }
    if UnixStream::connect(path).is_ok() {
        return Err(IN_USE.into());
    }
    fs::remove_file(path).map_err(|error| error.to_string())
}

/// Nobody but the owner can connect before the mode is set.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    fchmod(&socket, Mode::from_bits_truncate(0o600))?;
    socket.bind(&SockAddr::unix(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(SOCKET_MODE))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
