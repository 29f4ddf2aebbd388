//! A socket, with or without TLS on it. It blocks where the socket does.

use crate::tls::Tls;
use socket2::Socket;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;

/// Bytes in both directions.
pub(super) struct Channel {
    socket: Socket,
    #[cfg(feature = "tls")]
    tls: Option<Box<rustls::ClientConnection>>,
}

impl Channel {
    /// Nothing is said on `socket` yet.
    #[cfg(feature = "tls")]
    pub(super) fn new(socket: Socket, tls: Option<&Tls>) -> io::Result<Channel> {
        let tls = tls.map(|tls| Ok::<_, io::Error>(Box::new(tls.connection()?)));
        Ok(Channel {
            socket,
            tls: tls.transpose()?,
        })
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn new(socket: Socket, _: Option<&Tls>) -> io::Result<Channel> {
        Ok(Channel { socket })
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Goes on with the handshake; whether it is complete.
    pub(super) fn shake(&mut self) -> io::Result<bool> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            while tls.is_handshaking() {
                send(tls, &self.socket)?;
                if !tls.is_handshaking() {
                    break;
                }
                match receive(tls, &self.socket) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => {}
                    Err(error) if is_later(&error) => return Ok(false),
                    Err(error) => {
                        // The server is told why.
                        let _ = send(tls, &self.socket);
                        return Err(error);
                    }
                }
            }
            // The last words of it may wait.
            send(tls, &self.socket)?;
        }
        Ok(true)
    }

    /// Whether the server agreed to speak HTTP/2; without TLS nobody was asked.
    pub(super) fn agreed_to_http2(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.alpn_protocol() == Some(b"h2");
        }
        true
    }

    /// Whether something waits for room in the socket.
    pub(super) fn wants_room(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.wants_write();
        }
        false
    }

    /// Sends what was taken and is not sent; whether that is all of it.
    pub(super) fn send(&mut self) -> io::Result<bool> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return send(tls, &self.socket);
        }
        Ok(true)
    }
}

impl Read for Channel {
    /// Where it would block, nothing is left that came before.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            let mut filled = 0;
            loop {
                match tls.reader().read(&mut bytes[filled..]) {
                    // Closed in good order, or no room is left.
                    Ok(0) => return Ok(filled),
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        match receive(tls, &self.socket) {
                            Ok(0) => return Ok(filled),
                            Ok(_) => {}
                            Err(_) if filled > 0 => return Ok(filled),
                            Err(error) => return Err(error),
                        }
                    }
                    // Ends without a word are told by the request they leave open.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        return Ok(filled);
                    }
                    Err(error) => return Err(error),
                }
                if filled > 0 && filled == bytes.len() {
                    return Ok(filled);
                }
            }
        }
        (&self.socket).read(bytes)
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.writer().write(bytes);
        }
        (&self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.send()? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(feature = "tls")]
fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Sends what is encrypted; whether that is all of it.
#[cfg(feature = "tls")]
fn send(tls: &mut rustls::ClientConnection, mut socket: &Socket) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(&mut socket) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Receives and decrypts; 0 at the end.
#[cfg(feature = "tls")]
fn receive(tls: &mut rustls::ClientConnection, mut socket: &Socket) -> io::Result<usize> {
    let count = tls.read_tls(&mut socket)?;
    let processed = tls.process_new_packets();
    processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(count)
}
