//! One TCP connection to the sink, from its first line to its end.

use crate::sink::session::Session;
use crate::sink::session::Sessions;
use jostle_kernels::network::protocol::Answer;
use jostle_kernels::network::protocol::HELLO_TIMEOUT;
use jostle_kernels::network::protocol::KEEP_ALIVE;
use jostle_kernels::network::protocol::Opening;
use jostle_kernels::network::protocol::REPORT;
use jostle_kernels::network::protocol::SILENCE;
use jostle_kernels::network::protocol::read_line;
use nix::errno::Errno;
use nix::sys::socket::MsgFlags;
use nix::sys::socket::recv;
use socket2::SockRef;
use std::io;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

/// Most payload thrown away by one call.
const DISCARD_BYTES: usize = 1 << 20;
/// Between two looks at a session to which nothing is sent.
const NAP: Duration = Duration::from_millis(5);

/// Serves `stream` until it ends; calls `spoke` as soon as it said what it is, or
/// will not.
pub fn serve(mut stream: TcpStream, from: SocketAddr, sessions: &Sessions, spoke: impl FnOnce()) {
    // Whatever goes wrong with a connection is its end, and nobody else's.
    let _ = stream.set_write_timeout(Some(HELLO_TIMEOUT));
    let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(2 * SILENCE));
    let line = read_line(&mut stream, HELLO_TIMEOUT);
    spoke();
    let opening = match line {
        Ok(line) => Opening::parse(&line),
        // So long a line is none of ours.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Opening::parse(""),
        Err(_) => return,
    };
    let refused = match opening {
        Ok(Opening::Hello(transport, secret)) => match sessions.admits(secret.as_ref()) {
            Err(reason) => reason,
            Ok(()) => match sessions.begin(from, transport) {
                Ok(session) => return control(stream, sessions, &session),
                Err(reason) => reason,
            },
        },
        Ok(Opening::Data(token)) => match sessions.find(token) {
            Some(session) if session.join(&stream) => {
                payload(&stream, &session);
                return session.leave(&stream);
            }
            _ => "there is no such session".to_string(),
        },
        Err(reason) => reason,
    };
    let _ = stream.write_all(Answer::Refused(refused).line().as_bytes());
}

/// Throws payload away and counts it: the system need not even copy it.
fn payload(stream: &TcpStream, session: &Session) {
    let mut discarded = vec![0; DISCARD_BYTES];
    if stream.set_read_timeout(None).is_err() {
        return;
    }
    loop {
        match recv(stream.as_raw_fd(), &mut discarded, MsgFlags::MSG_TRUNC) {
            Ok(0) => return,
            Ok(bytes) => session.count_bytes(bytes as u64),
            Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// Answers the hello, then reports until one side has enough.
fn control(mut stream: TcpStream, sessions: &Sessions, session: &Session) {
    let welcome = Answer::Welcome(session.token).line();
    let why = match stream
        .write_all(welcome.as_bytes())
        .and_then(|()| stream.set_nodelay(true))
        .and_then(|()| stream.set_nonblocking(true))
    {
        Ok(()) => report(&mut stream, sessions, session),
        Err(_) => "is gone".to_string(),
    };
    sessions.end(session, &why);
}

/// Writes reports until the session is over; why it is.
fn report(stream: &mut TcpStream, sessions: &Sessions, session: &Session) -> String {
    let mut outbox = Outbox::default();
    let mut reported = session.report();
    let mut reported_at = Instant::now();
    let mut arrived_at = reported_at;
    loop {
        let now = session.report();
        let changed = now != reported;
        if changed {
            arrived_at = Instant::now();
        }
        if changed || reported_at.elapsed() >= KEEP_ALIVE {
            reported_at = Instant::now();
            reported = now;
            outbox.offer(now.line());
        }
        let idle = sessions.limits.idle;
        if arrived_at.elapsed() >= idle {
            let reason = format!(
                "nothing was sent for {:.0} s; start the sink with a longer --idle",
                idle.as_secs_f64()
            );
            // A report on its way goes before, or there would be no place.
            let sent = outbox.flush(stream);
            outbox.offer(Answer::Refused(reason).line());
            let _ = sent.and_then(|()| outbox.flush(stream));
            return "was idle for too long".to_string();
        }
        match outbox.flush(stream).and_then(|()| still_there(stream)) {
            Ok(true) => {}
            Ok(false) => return "is done".to_string(),
            // A worker is killed when it is done, whatever it has not read.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return "is done".to_string();
            }
            Err(error) => return format!("is gone ({error})"),
        }
        sleep(match changed {
            true => REPORT,
            false => NAP,
        });
    }
}

/// False once the source closed its end. What it says is of no interest.
fn still_there(stream: &mut TcpStream) -> io::Result<bool> {
    let mut said = [0; 256];
    match stream.read(&mut said) {
        Ok(0) => Ok(false),
        Ok(_) => Ok(true),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// A line on its way. A source that does not read (it may be stopped) misses
/// reports, which does not matter because they are cumulative; but it never
/// gets half a line.
#[derive(Default)]
struct Outbox {
    line: Vec<u8>,
}

impl Outbox {
    fn offer(&mut self, line: String) {
        if self.line.is_empty() {
            self.line = line.into_bytes();
        }
    }

    fn flush(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        while !self.line.is_empty() {
            match stream.write(&self.line) {
                Ok(bytes) => drop(self.line.drain(..bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
