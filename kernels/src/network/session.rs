//! The source's end of a session: opening it, and reading what arrived.

use crate::Failure;
use crate::network::Traffic;
use crate::network::protocol::Answer;
use crate::network::protocol::HELLO_TIMEOUT;
use crate::network::protocol::LINE_BYTES;
use crate::network::protocol::Opening;
use crate::network::protocol::Report;
use crate::network::protocol::SILENCE;
use crate::network::protocol::Token;
use crate::network::protocol::printable;
use crate::network::protocol::read_line;
use crate::network::secret::Secret;
use socket2::SockRef;
use std::io;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use std::time::Instant;

/// Least time between two looks at the reports.
const LOOK: Duration = Duration::from_micros(200);
/// Of what is sent, something must have arrived after this time.
const FIRST_ARRIVAL: Duration = Duration::from_secs(2);

/// An open session with a sink.
pub struct Session {
    /// What payload is tagged with.
    pub token: Token,
    /// The sink as errors call it.
    name: String,
    control: TcpStream,
    /// The beginning of a report of which the end is to come.
    line: Vec<u8>,
    /// What the sink counted last.
    pub report: Report,
    looked: Instant,
    heard: Instant,
    failed: Option<Failure>,
    first_sent: Option<Instant>,
}

impl Session {
    /// Connects to the peer of `traffic`, to nobody else, and asks for a
    /// session.
    ///
    /// # Errors
    /// When there is nobody, somebody else, a sink of another version or one
    /// that refuses.
    pub fn open(traffic: &Traffic) -> Result<Self, Failure> {
        let name = traffic.to_string();
        let failure = |what: &str| Failure::new(format!("{name}: {what}"));
        let secret =
            match &traffic.secret_file {
                None => None,
                Some(file) => Some(Secret::read(file).map_err(|error| {
                    failure(&format!("its secret in {}: {error}", file.display()))
                })?),
            };
        let hello = Opening::Hello(traffic.transport, secret).line();
        let mut control = connect(traffic)?;
        let answer = control
            .set_write_timeout(Some(HELLO_TIMEOUT))
            .and_then(|()| control.write_all(hello.as_bytes()))
            .and_then(|()| read_line(&mut control, HELLO_TIMEOUT));
        let line = answer.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => failure(&format!(
                "what listens there said nothing for {} s: it is no jostle sink, or a stuck one",
                HELLO_TIMEOUT.as_secs()
            )),
            io::ErrorKind::InvalidData => failure(&format!(
                "what listens there is no jostle sink (it answered \"{}\")",
                printable(&error.to_string())
            )),
            _ => failure(&format!(
                "what listens there closed the connection without a word ({error}): it is no \
                 jostle sink"
            )),
        })?;
        let token = match Answer::parse(&line).map_err(|reason| failure(&reason))? {
            Answer::Welcome(token) => token,
            Answer::Refused(reason) => {
                return Err(failure(&format!("the sink refused: {reason}")));
            }
        };
        control
            .set_nonblocking(true)
            .map_err(|error| failure(&error.to_string()))?;
        Ok(Session {
            token,
            name,
            control,
            line: Vec::new(),
            report: Report::default(),
            looked: Instant::now(),
            heard: Instant::now(),
            failed: None,
            first_sent: None,
        })
    }

    /// Reads what the sink reported since the last look, without waiting;
    /// nothing when that was a moment ago.
    ///
    /// # Errors
    /// When the sink ended the session, is gone or fell silent, or when nothing
    /// of what was sent arrives.
    pub fn look(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        if self.failed.is_none() && now - self.looked >= LOOK {
            self.looked = now;
            self.failed = self.read_reports(now).err();
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn read_reports(&mut self, now: Instant) -> Result<(), Failure> {
        let mut buffer = [0; 4096];
        loop {
            match self.control.read(&mut buffer) {
                Ok(0) => return Err(self.ended("the sink closed the session")),
                Ok(bytes) => {
                    self.heard = now;
                    self.take(&buffer[..bytes])?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(self.ended(&format!("the sink vanished ({error})"))),
            }
        }
        if now - self.heard > SILENCE {
            return Err(self.ended(&format!(
                "the sink has been silent for {} s",
                SILENCE.as_secs()
            )));
        }
        match self.first_sent {
            Some(since) if self.report.bytes == 0 && now - since > FIRST_ARRIVAL => Err(self
                .ended(&format!(
                    "nothing of what was sent arrived within {} s; does a firewall stop it?",
                    FIRST_ARRIVAL.as_secs()
                ))),
            _ => Ok(()),
        }
    }

    /// Remembers that payload was handed over.
    pub fn sent(&mut self) {
        self.first_sent.get_or_insert_with(Instant::now);
    }

    /// The failure of a connection that carries payload: the sink's own reason
    /// where it gave one.
    pub fn vanished(&mut self, error: &io::Error) -> Failure {
        let reason = self.read_reports(Instant::now()).err();
        let plain = || self.ended(&format!("the sink vanished ({error})"));
        self.failed.clone().or(reason).unwrap_or_else(plain)
    }

    fn ended(&self, what: &str) -> Failure {
        Failure::new(format!("{}: {what}", self.name))
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                if self.line.len() > LINE_BYTES {
                    return Err(self.ended("the sink reports what makes no sense"));
                }
                continue;
            }
            let line = String::from_utf8_lossy(&self.line).into_owned();
            self.line.clear();
            match (Report::parse(&line), Answer::parse(&line)) {
                (Some(report), _) => self.report = report,
                (None, Ok(Answer::Refused(reason))) => {
                    return Err(self.ended(&format!("the sink ended the session: {reason}")));
                }
                _ => return Err(self.ended("the sink reports what makes no sense")),
            }
        }
        Ok(())
    }
}

/// A TCP connection to the peer of `traffic`.
///
/// # Errors
/// When nobody answers, naming the address and what to do.
pub fn connect(traffic: &Traffic) -> Result<TcpStream, Failure> {
    let failure = |what: String| Failure::new(format!("{traffic}: {what}"));
    let stream = TcpStream::connect_timeout(&traffic.peer, HELLO_TIMEOUT).map_err(|error| {
        failure(match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                "nothing listens there; run `jostle sink` on that host".to_string()
            }
            io::ErrorKind::TimedOut => format!(
                "no answer within {} s; is the address right, and does no firewall stop TCP \
                     to that port?",
                HELLO_TIMEOUT.as_secs()
            ),
            _ => format!("cannot connect: {error}"),
        })
    })?;
    // Segments that nobody acknowledges end the connection, which would
    // otherwise take a quarter of an hour.
    SockRef::from(&stream)
        .set_tcp_user_timeout(Some(SILENCE))
        .and_then(|()| stream.set_nodelay(true))
        .map_err(|error| failure(error.to_string()))?;
    Ok(stream)
}
