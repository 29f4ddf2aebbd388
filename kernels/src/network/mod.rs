//! `network-bandwidth`: sending to a named peer.

pub mod pattern;
pub mod protocol;
pub mod secret;
mod session;
mod traffic;
pub mod walk;
mod wire;

pub use protocol::Transport;
pub use traffic::Traffic;

use crate::DeviceTraffic;
use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::Waiting;
use jostle_profile::resource::Resource;
use session::Session;
use std::cell::RefCell;
use std::io;
use std::time::Duration;
use std::time::Instant;
use walk::Step;
use walk::Walk;
use wire::Wire;

pub const SPEC: KernelSpec = KernelSpec {
    waiting: Waiting::Sleep,
    operation: "byte of payload that arrived at the sink",
    operations_per_call: 64 << 10,
    doc: "Sends to the peer named with --peer, where `jostle sink` runs, and to nobody else: \
          over one TCP connection, or with --network-protocol udp in datagrams no larger than \
          the path takes in one piece. What counts is the payload that the sink reports as \
          arrived, not what was handed to the system; headers and retransmissions are not in \
          it. Messages follow a pattern (--network-pattern), a Markov chain of messages drawn \
          by chance, each due at a time of its own after the one before. `bulk`, the default, \
          sends messages of 64 KiB without a pause: at 100 % as fast as the connection takes \
          them, which is measured first and is the peak. A pattern with times, like `burst` \
          (500 bursts a second, of 32 messages on average), `web` (a made-up web server) or a \
          file, is played at its own times at 100 %, and its mean rate is the peak, whether or \
          not the connection can take it. At x % all times between messages are 100/x times as \
          long; sizes, shares and windows of time stay. A --network-cap below the rate of the \
          pattern becomes the peak. What falls more than 20 ms behind is given up and reported. \
          TCP shares the path with other flows; UDP does not slow down for them, and at 100 % \
          what the path or the sink cannot take is lost: set --network-cap. It loads every \
          link, queue and host on the way: which of them a target suffers from is not shown. \
          Sending and acknowledgements also take time of the worker's CPU and of the CPU that \
          serves the device's interrupts. It does not show what received traffic would cost, \
          nor what many connections would.",
    ..KernelSpec::of(Resource::NetworkBandwidth, build)
};

/// Longest nap while something is not due.
const NAP: Duration = Duration::from_micros(200);
/// A call goes on with small messages for about this long.
const TURN: Duration = Duration::from_micros(30);
/// Lateness that the cap lets the source make up for.
const DEBT: Duration = Duration::from_millis(1);
/// A schedule that falls behind further than this gives up what is beyond:
/// longer than other threads of the CPU may hold the source up for.
const MOST_LATE_NS: f64 = 20e6;
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
    walk: Walk,
    /// Shortest message.
    least: u32,
    /// Payload per second at 100 %, of a pattern with times; how many times as
    /// long as the pattern says its times are then.
    peak: Option<f64>,
    longer: f64,
    /// `None` while it is not held back.
    schedule: Option<Schedule>,
    /// Time from the end of the last treatment until the next message, in the
    /// pattern's own nanoseconds.
    rest_ns: f64,
    /// Taken from the walk and not begun yet.
    next: Option<Step>,
    /// Size of the message in hand, and what is left of it, bytes.
    size: usize,
    left: usize,
    /// The messages are a stream of full segments on the wire, wherever one
    /// ends: without times they are handed over several at a time.
    stream: bool,
    cap: Option<Cap>,
    percent: f64,
    /// What had arrived when the intensity was set, and whether a message was
    /// begun since.
    before: u64,
    begun: bool,
    warm_up: Option<WarmUp>,
    traffic: DeviceTraffic,
}

/// When messages are due, whether or not earlier ones are gone.
struct Schedule {
    origin: Instant,
    /// When the next is due, nanoseconds since the origin.
    due_ns: f64,
    pace: Pace,
}

#[derive(Clone, Copy)]
enum Pace {
    /// By the pattern's times, so many times as long.
    Times(f64),
    /// By size, at so many bytes per second.
    Rate(f64),
}

impl Schedule {
    fn now_ns(&self) -> f64 {
        self.origin.elapsed().as_nanos() as f64
    }
}

fn build(env: &Environment) -> Result<Box<dyn Kernel>, Failure> {
    let Some(traffic) = &env.network else {
        return Err(Failure::new(NO_PEER));
    };
    let workers = env.workers.max(1) as f64;
    let session = Session::open(traffic)?;
    let now = Instant::now();
    let mut pattern = traffic.pattern.clone();
    if workers > 1.0 {
        // Workers must not all send at the same moments.
        pattern.seed ^= session.token.0;
    }
    let least = match traffic.transport {
        Transport::Tcp => 1,
        Transport::Udp => protocol::Header::BYTES as u32,
    };
    let own = pattern.per_second(least).map(|(bytes, _)| bytes);
    let cap = traffic.cap_bytes_per_second.map(|bytes| bytes as f64);
    let peak = own.map(|own| cap.map_or(own, |cap| own.min(cap)) / workers);
    Ok(Box::new(Network {
        wire: Wire::open(traffic, &session)?,
        session: RefCell::new(session),
        walk: Walk::new(&pattern),
        least,
        peak,
        longer: own.zip(peak).map_or(1.0, |(own, peak)| own / peak),
        schedule: None,
        rest_ns: 0.0,
        next: None,
        size: 0,
        left: 0,
        stream: traffic.is_stream(),
        cap: cap.map(|cap| Cap {
            bytes_per_second: cap / workers,
            due: now,
        }),
        percent: 0.0,
        before: 0,
        begun: false,
        warm_up: None,
        traffic: DeviceTraffic::default(),
    }))
}

/// Why there is no network source without a peer.
pub const NO_PEER: &str =
    "no peer named; run `jostle sink` on another host and give --peer HOST:PORT";

impl Network {
    /// Keeps to `pace` from now on. What is left of the time until the next
    /// message stays the same part of that time.
    fn follow(&mut self, pace: Option<Pace>) {
        if let Some(schedule) = self.schedule.take() {
            self.rest_ns = match schedule.pace {
                Pace::Times(stretch) => (schedule.due_ns - schedule.now_ns()).max(0.0) / stretch,
                Pace::Rate(_) => 0.0,
            };
        }
        self.schedule = pace.map(|pace| Schedule {
            origin: Instant::now(),
            due_ns: match pace {
                Pace::Times(stretch) => self.rest_ns * stretch,
                Pace::Rate(_) => 0.0,
            },
            pace,
        });
    }

    /// Takes the next message in hand; how long it is not due yet, if so.
    fn begin_message(&mut self) -> Option<Duration> {
        let stretch = match &self.schedule {
            Some(Schedule {
                pace: Pace::Times(stretch),
                ..
            }) => *stretch,
            _ => 1.0,
        };
        if let Some(schedule) = &mut self.schedule {
            let now_ns = schedule.now_ns();
            if schedule.due_ns > now_ns {
                return Some(Duration::from_nanos((schedule.due_ns - now_ns) as u64));
            }
            let lost = now_ns - MOST_LATE_NS - schedule.due_ns;
            if lost > 0.0 {
                schedule.due_ns += lost;
                self.traffic.behind_ns += lost as u64;
            }
        }
        let walk = || self.walk.next(stretch);
        let step = self.next.take().unwrap_or_else(walk);
        self.size = step.bytes.max(self.least) as usize;
        self.left = self.size;
        self.begun = true;
        if let Some(schedule) = &mut self.schedule {
            let following = self.walk.next(stretch);
            schedule.due_ns += match schedule.pace {
                Pace::Times(_) => following.after_us * 1e3,
                Pace::Rate(rate) => self.left as f64 / rate * 1e9,
            };
            self.next = Some(following);
        }
        None
    }

    /// Hands over a piece of the message in hand.
    fn send(&mut self, now: Instant) -> io::Result<()> {
        let most = match &self.cap {
            Some(cap) => self.left.min(cap.piece()),
            None if self.stream && self.schedule.is_none() => self.left.max(wire::PIECE),
            None => self.left,
        };
        let sent = self.wire.send(most)?;
        if let Some(cap) = &mut self.cap {
            cap.charge(sent, now);
        }
        self.left = self.left.saturating_sub(sent);
        if self.left == 0 {
            // Of a stream, several at a time.
            self.traffic.requests += (sent / self.size).max(1) as u64;
        }
        Ok(())
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
        self.begun = false;
        let stretch = self.longer * 100.0 / percent.max(1e-6);
        let pace = self.peak.map(|_| Pace::Times(stretch));
        self.follow(pace);
    }

    /// A pattern with times keeps to them, which is the same.
    fn set_rate(&mut self, operations_per_second: Option<f64>) -> bool {
        if self.peak.is_none() {
            let rate = operations_per_second.filter(|rate| *rate > 0.0);
            self.follow(rate.map(Pace::Rate));
        }
        true
    }

    fn peak(&self) -> Option<f64> {
        self.peak
    }

    /// What it returns is not counted: what arrives is.
    fn work(&mut self) -> Result<u64, Failure> {
        self.session.get_mut().look()?;
        let began = Instant::now();
        if self.percent >= 100.0 && self.peak.is_none() {
            self.warm_up(began);
        }
        let mut now = began;
        loop {
            let capped = self.cap.as_ref().map(|cap| cap.due - now);
            let capped = capped.filter(|left| !left.is_zero());
            let not_due = match self.left == 0 && capped.is_none() {
                true => self.begin_message(),
                false => None,
            };
            if let Some(left) = capped.or(not_due) {
                std::thread::sleep(left.min(NAP));
                return Ok(0);
            }
            match self.send(now) {
                Ok(()) => self.session.get_mut().sent(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.session.get_mut().sent();
                    self.wire.wait();
                    return Ok(0);
                }
                Err(error) => return Err(self.session.get_mut().vanished(&error)),
            }
            now = Instant::now();
            if now - began >= TURN {
                return Ok(0);
            }
        }
    }

    /// What is left of the message in hand is not sent.
    fn release(&mut self) {
        self.left = 0;
        self.follow(None);
    }

    /// In force once something arrived since it was set, or nothing was due yet
    /// on a connection that has carried something; at 100 % of what is measured,
    /// the first time, once the connection has come to speed.
    fn applied(&self) -> bool {
        let arrived = self.session.borrow().report.bytes > self.before;
        let waiting = self.before > 0 && !self.begun;
        let measured = self.percent >= 100.0 && self.peak.is_none();
        let warm = !measured || self.warm_up.as_ref().is_some_and(|state| state.done);
        self.percent == 0.0 || ((arrived || waiting) && warm)
    }

    fn traffic(&self) -> Option<DeviceTraffic> {
        Some(self.traffic)
    }

    fn confirmed(&self) -> Option<u64> {
        let mut session = self.session.borrow_mut();
        // What is wrong comes up again in the next call of `work`.
        let _ = session.look();
        Some(session.report.bytes)
    }
}
