//! `network-bandwidth`: sending to a named peer.

mod pattern;
pub mod protocol;
mod session;
mod traffic;
mod wire;

pub use pattern::Burst;
pub use pattern::Message;
pub use pattern::Pattern;
pub use pattern::Spacing;
pub use protocol::Transport;
pub use traffic::Traffic;

use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::Waiting;
use jostle_profile::resource::Resource;
use pattern::Draw;
use pattern::Drawn;
use session::Session;
use std::cell::RefCell;
use std::io;
use std::time::Duration;
use std::time::Instant;
use wire::Wire;

pub const SPEC: KernelSpec = KernelSpec {
    waiting: Waiting::Sleep,
    operation: "byte of payload that arrived at the sink",
    operations_per_call: 64 << 10,
    doc: "Sends to the peer named with --peer, where `jostle sink` runs, and to nobody else: \
          over one TCP connection, or with --network-protocol udp in datagrams no larger than \
          the path takes in one piece. What counts is the payload that the sink reports as \
          arrived, not what was handed to the system; headers and retransmissions are not in \
          it. At 100 % the source sends as fast as the pattern and the connection allow, never \
          above --network-cap; that is the peak, and below it each burst is followed by a gap \
          so that x % of the peak is sent on average, whether or not it arrives. The pattern \
          `bulk` is a stream of 64 KiB messages; `burst` sends 32 messages of mixed sizes every \
          2 ms on average; --network-pattern FILE reads another. TCP gives way to other flows \
          as they do to it; UDP gives way to nobody, and at 100 % what the path or the sink \
          cannot take is lost: name a cap. It presses on every link, queue and host on the way: which of them \
          a target suffers from is not shown. Sending and acknowledgements also take time of \
          the worker's CPU and of the CPU that serves the device's interrupts. It does not show \
          what received traffic would cost, nor what many connections would.",
    ..KernelSpec::of(Resource::NetworkBandwidth, build)
};

/// Longest nap while something is not due.
const NAP: Duration = Duration::from_micros(200);
/// A call goes on with small messages for about this long.
const TURN: Duration = Duration::from_micros(30);
/// Lateness that the cap and the pattern's spacing let the source make up for.
const DEBT: Duration = Duration::from_millis(1);
/// The connection is at speed once it gains less than a tenth in this time …
const GAIN: Duration = Duration::from_millis(50);
/// … or after this time.
const WARM: Duration = Duration::from_secs(2);

/// Holds sending back to a rate, with little made up for.
struct Cap {
    bytes_per_second: f64,
    due: Instant,
}

impl Cap {
    /// Most to hand over at once: what may go in a millisecond.
    fn piece(&self) -> usize {
        ((self.bytes_per_second * 1e-3) as usize).max(protocol::Header::BYTES)
    }

    fn charge(&mut self, bytes: usize, now: Instant) {
        let earliest = now.checked_sub(DEBT).unwrap_or(now);
        self.due =
            self.due.max(earliest) + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
    }
}

/// How fast a connection still gets faster.
struct WarmUp {
    began: Instant,
    since: Instant,
    bytes: u64,
    rate: f64,
    done: bool,
}

struct Network {
    /// Read from [`Kernel::confirmed`] too, which changes nothing but what is
    /// known.
    session: RefCell<Session>,
    wire: Wire,
    draw: Draw,
    spacing: Duration,
    burst: Drawn,
    /// Messages of the burst that are done, bytes left of the next one, bytes
    /// of the burst handed over.
    message: usize,
    left: usize,
    in_burst: usize,
    /// The messages are a stream of full segments on the wire, wherever one
    /// ends: at 100 % they are handed over several at a time.
    stream: bool,
    /// When the next burst may begin at 100 %.
    due: Instant,
    cap: Option<Cap>,
    percent: f64,
    /// What had arrived when the intensity was set.
    before: u64,
    warm_up: Option<WarmUp>,
}

fn build(env: &Environment) -> Result<Box<dyn Kernel>, Failure> {
    let Some(traffic) = &env.network else {
        return Err(Failure::new(NO_PEER));
    };
    let workers = env.workers.max(1) as f64;
    let session = Session::open(traffic)?;
    let now = Instant::now();
    Ok(Box::new(Network {
        wire: Wire::open(traffic, &session)?,
        session: RefCell::new(session),
        draw: Draw::new(traffic.pattern.clone()),
        spacing: Duration::from_secs_f64(traffic.pattern.burst.spacing_seconds),
        burst: Drawn::default(),
        message: 0,
        left: 0,
        in_burst: 0,
        stream: traffic.is_stream(),
        due: now,
        cap: traffic.cap_bytes_per_second.map(|bytes| Cap {
            bytes_per_second: bytes as f64 / workers,
            due: now,
        }),
        percent: 0.0,
        before: 0,
        warm_up: None,
    }))
}

/// Why there is no network source without a peer.
pub const NO_PEER: &str =
    "no peer named; run `jostle sink` on another host and give --peer HOST:PORT";

impl Network {
    /// Takes the next burst in hand. False when it is not due yet.
    fn begin_burst(&mut self, now: Instant) -> bool {
        if self.percent >= 100.0 && now < self.due {
            return false;
        }
        self.draw.next(&mut self.burst);
        let earliest = now.checked_sub(DEBT).unwrap_or(now);
        self.due = self.due.max(earliest) + self.spacing.mul_f64(self.burst.spacing);
        self.message = 0;
        self.in_burst = 0;
        self.left = self.burst.messages[0];
        true
    }

    /// Hands over a piece of the burst in hand. What the burst is charged when
    /// it is done, else 0.
    fn send(&mut self, now: Instant) -> io::Result<u64> {
        let most = match &self.cap {
            Some(cap) => self.left.min(cap.piece()),
            None if self.stream && self.percent >= 100.0 => self.left.max(wire::PIECE),
            None => self.left,
        };
        let sent = self.wire.send(most)?;
        if let Some(cap) = &mut self.cap {
            cap.charge(sent, now);
        }
        self.in_burst += sent;
        self.left = self.left.saturating_sub(sent);
        if self.left > 0 {
            return Ok(0);
        }
        self.message += 1;
        if let Some(&bytes) = self.burst.messages.get(self.message) {
            self.left = bytes;
            return Ok(0);
        }
        Ok(((self.in_burst as f64 * self.burst.spacing) as u64).max(1))
    }

    fn warm_up(&mut self, now: Instant) {
        let bytes = self.session.borrow().report.bytes;
        let state = self.warm_up.get_or_insert(WarmUp {
            began: now,
            since: now,
            bytes,
            rate: 0.0,
            done: false,
        });
        let passed = now - state.since;
        if !state.done && passed >= GAIN {
            let rate = (bytes - state.bytes) as f64 / passed.as_secs_f64();
            state.done = (rate > 0.0 && rate < 1.1 * state.rate) || now - state.began >= WARM;
            state.since = now;
            state.bytes = bytes;
            state.rate = rate;
        }
    }
}

impl Kernel for Network {
    fn set_intensity(&mut self, percent: f64) {
        self.percent = percent;
        self.before = self.session.borrow().report.bytes;
    }

    /// Returns what the worker is to charge for: 0 until a burst is done, then
    /// its bytes, times what its spacing is of the mean one. So the gaps between
    /// bursts keep their distribution at every intensity.
    fn work(&mut self) -> Result<u64, Failure> {
        self.session.get_mut().look()?;
        let began = Instant::now();
        if self.percent >= 100.0 {
            self.warm_up(began);
        }
        let mut now = began;
        loop {
            let cap = self.cap.as_ref().map(|cap| cap.due);
            let capped = cap.filter(|&due| now < due);
            let spaced = match self.left == 0 && capped.is_none() {
                true => (!self.begin_burst(now)).then_some(self.due),
                false => None,
            };
            if let Some(due) = capped.or(spaced) {
                std::thread::sleep((due - now).min(NAP));
                return Ok(0);
            }
            match self.send(now) {
                Ok(0) => {}
                Ok(charge) => {
                    self.session.get_mut().sent();
                    return Ok(charge);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.session.get_mut().sent();
                    self.wire.wait();
                    return Ok(0);
                }
                Err(error) => return Err(self.session.get_mut().vanished(&error)),
            }
            now = Instant::now();
            if now - began >= TURN {
                self.session.get_mut().sent();
                return Ok(0);
            }
        }
    }

    /// What is left of the burst is not sent.
    fn release(&mut self) {
        self.left = 0;
        self.due = Instant::now();
    }

    /// In force once something arrived since it was set, and at 100 %, the
    /// first time, once the connection has come to speed.
    fn applied(&self) -> bool {
        let arrived = self.session.borrow().report.bytes > self.before;
        let warm = self.percent < 100.0 || self.warm_up.as_ref().is_some_and(|state| state.done);
        self.percent == 0.0 || (arrived && warm)
    }

    fn confirmed(&self) -> Option<u64> {
        let mut session = self.session.borrow_mut();
        // What is wrong comes up again in the next call of `work`.
        let _ = session.look();
        Some(session.report.bytes)
    }
}
