//! The handle on the thread that sends and receives.

use crate::amount::Percentile;
use crate::arrivals::Arrivals;
use crate::capacity::Capacity;
use crate::clock::monotonic_ns;
use crate::clock::nanoseconds;
use crate::clock::pin;
use crate::engine::Command;
use crate::engine::Engine;
use crate::engine::Shared;
use crate::error::Error;
use crate::error::Result;
use crate::http2::Http2;
use crate::request::HttpRequest;
use crate::server;
use crate::spec::Alive;
use crate::spec::LoadSpec;
use crate::spec::Pace;
use crate::tls::Tls;
use crate::warning::TIMING_BOUND;
use crate::warning::Warning;
use crate::window::Window;
use jostle_profile::ArrivalsFact;
use jostle_profile::LoadFacts;
use jostle_profile::RequestFact;
use nix::sys::eventfd::EventFd;
use nix::time::ClockId;
use nix::time::clock_gettime;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

/// Longest wait for answers before a target is stopped.
const QUIET: Duration = Duration::from_millis(250);
/// Beyond the time-out, the thread may take this long to tell a result.
const SLOWEST: Duration = Duration::from_secs(5);
/// The generator asks the scheduler for short turns, so that it gets one soon.
const SLICE_NS: u64 = 100_000;

/// A load that is being sent, from a thread of its own. Dropping it ends it.
pub struct Generator {
    spec: LoadSpec,
    commands: Option<Sender<Command>>,
    wake: Arc<EventFd>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    began_ns: u64,
    began_cpu_ns: u64,
    pace: Option<Pace>,
    /// How late requests were sent, over all windows that were closed.
    timing: std::cell::RefCell<Option<Window>>,
    /// What [`crate::find_capacity`] found before, for the facts.
    pub capacity: Option<Capacity>,
    /// `--load-share`.
    pub share_percent: Option<f64>,
}

impl Generator {
    /// Waits for the server, fills it with keys if the spec says so, and connects. Nothing
    /// is sent until [`Generator::pace`]. `alive` tells whether waiting is of use.
    ///
    /// # Errors
    /// A request error when another protocol answers or the login is wrong, an
    /// environment error when nobody answers in time, an interrupted error when
    /// `interrupt` was raised, and what `alive` says.
    pub fn start(
        spec: LoadSpec,
        interrupt: &AtomicBool,
        alive: &mut Alive<'_>,
    ) -> Result<Generator> {
        let tls = Tls::of(&spec).map_err(|problem| Error::Tls {
            url: spec.url.to_string(),
            problem,
        })?;
        // Before anybody is asked.
        Http2::of(&spec).map_err(Error::Http2)?;
        let address = server::wait_for(&spec, tls.as_ref(), interrupt, alive)?;
        if spec.prefill {
            server::prefill(&spec, (&address, tls.as_ref()), interrupt)?;
        }
        let shared = Arc::<Shared>::default();
        let (commands, received) = channel();
        let engine = Engine::new(spec.clone(), (address, tls), received, shared.clone())?;
        let wake = engine.wake.clone();
        let (mine, cpus) = (shared.clone(), spec.placement.cpus.clone());
        let request_slice = spec.request_slice;
        let thread = std::thread::Builder::new()
            .name("jostle-load".into())
            .spawn(move || {
                if !cpus.is_empty() {
                    let _ = pin(&cpus);
                }
                let _ = nix::sys::prctl::set_timerslack(1);
                // Older kernels know no such wish; the timing error tells. Who
                // started us with `chrt` wants something else.
                if let Some(request_slice) = request_slice.filter(|_| scheduled_normally()) {
                    let _ = request_slice(SLICE_NS);
                }
                mine.tid
                    .store(nix::unistd::gettid().as_raw() as usize, Relaxed);
                engine.run();
            })
            .map_err(Error::Start)?;
        let generator = Generator {
            spec,
            commands: Some(commands),
            wake,
            shared,
            thread: Some(thread),
            began_ns: monotonic_ns(),
            began_cpu_ns: 0,
            pace: None,
            timing: Default::default(),
            capacity: None,
            share_percent: None,
        };
        generator.wait_for_connections(interrupt)?;
        Ok(generator)
    }

    fn wait_for_connections(&self, interrupt: &AtomicBool) -> Result<()> {
        let deadline = Instant::now() + self.spec.connect_timeout;
        let all = match self.spec.keep_alive {
            true => self.spec.connections,
            false => 0,
        };
        while self.shared.connections_up.load(Relaxed) < all {
            self.check_thread()?;
            if interrupt.load(Relaxed) {
                return Err(Error::Interrupted("while connecting"));
            }
            if Instant::now() >= deadline {
                let trouble = self.shared.trouble.lock();
                let trouble = trouble.map_or_else(|_| String::new(), |text| text.clone());
                return Err(Error::Connections {
                    url: self.spec.url.to_string(),
                    connected: self.shared.connections_up.load(Relaxed),
                    wanted: all,
                    reason: match trouble.is_empty() {
                        true => "the server does not accept more".into(),
                        false => trouble,
                    },
                });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn check_thread(&self) -> Result<()> {
        let fatal = self.shared.fatal.lock();
        let reason = fatal.map_or(None, |reason| reason.clone());
        reason.map_or(Ok(()), |reason| Err(Error::Stopped(reason)))
    }

    fn tell(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // That the thread has ended is reported where its reply is missed.
            let _ = commands.send(command);
            let _ = self.wake.write(1);
        }
    }

    /// What is sent.
    pub fn spec(&self) -> &LoadSpec {
        &self.spec
    }

    /// How it is sent now.
    pub fn current_pace(&self) -> Option<Pace> {
        self.pace
    }

    /// Sends so from now on; an open loop climbs its ramp first.
    pub fn pace(&mut self, pace: Pace) {
        self.pace_within(pace, self.spec.ramp);
    }

    /// As [`Generator::pace`], with a ramp of its own. What is reported of timing and
    /// CPU time counts from here.
    pub fn pace_within(&mut self, pace: Pace, ramp: Duration) {
        self.pace = Some(pace);
        *self.timing.borrow_mut() = None;
        (self.began_ns, self.began_cpu_ns) = (monotonic_ns(), self.cpu_ns());
        self.tell(Command::Pace(pace, ramp));
    }

    /// Opens a window; requests due from now on belong to it.
    pub fn open_window(&self) {
        self.tell(Command::Open);
    }

    /// Closes the window and waits until each of its requests is answered, has
    /// failed, or has timed out.
    ///
    /// # Errors
    /// When the generator has ended.
    pub fn close_window(&self) -> Result<Window> {
        self.close(false)
    }

    /// As [`Generator::close_window`], and opens the next one at the same instant.
    ///
    /// # Errors
    /// As [`Generator::close_window`].
    pub fn next_window(&self) -> Result<Window> {
        self.close(true)
    }

    fn close(&self, next: bool) -> Result<Window> {
        let (reply, result) = channel();
        self.tell(Command::Close { reply, next });
        let window = result
            .recv_timeout(self.spec.timeout + SLOWEST)
            .map_err(|_| self.check_thread().err().unwrap_or(Error::NoResult))?;
        match &mut *self.timing.borrow_mut() {
            Some(timing) => timing.merge(&window),
            none => *none = Some(window.clone()),
        }
        Ok(window)
    }

    /// Forgets what was due and could not be sent; the schedule starts again, so
    /// that a queue from before is not charged to what comes.
    pub fn restart_schedule(&self) {
        self.tell(Command::Restart);
    }

    /// Stops sending and waits briefly for what is in flight.
    pub fn suspend(&self) {
        let (reply, quiet) = channel();
        self.tell(Command::Suspend(reply, QUIET));
        let _ = quiet.recv_timeout(QUIET + SLOWEST);
    }

    /// Goes on sending; answers from before count nowhere.
    pub fn resume(&self) {
        self.tell(Command::Resume);
    }

    /// CPU time that the generator's thread has used, nanoseconds: not the
    /// profiler's own.
    pub fn cpu_ns(&self) -> u64 {
        match self.shared.tid.load(Relaxed) {
            0 => 0,
            tid => thread_cpu_ns(tid as i32),
        }
    }

    /// CPU time of its thread since the pace was set, percent of one CPU.
    pub fn cpu_percent(&self) -> f64 {
        let wall = (monotonic_ns() - self.began_ns).max(1);
        self.cpu_ns().saturating_sub(self.began_cpu_ns) as f64 / wall as f64 * 100.0
    }

    /// What a profile keeps of the load.
    pub fn facts(&self) -> LoadFacts {
        let spec = &self.spec;
        let keys = spec.uses_keys();
        let values = spec.url.kind.has_keys();
        let rate = match self.pace {
            Some(Pace::Open(rate)) => Some(rate),
            _ => None,
        };
        let capacity = self.capacity.as_ref();
        let cpus = self.shared.cpus.lock();
        LoadFacts {
            url_kind: spec.url.kind.name().into(),
            url: spec.url.to_string(),
            rate_per_second: rate,
            capacity_per_second: capacity.map(|found| found.rate_per_second),
            share_percent: capacity.and(self.share_percent),
            slo: capacity.map(|found| found.slo.clone()),
            capacity_search_seconds: capacity
                .map(|found| found.search_seconds)
                .filter(|seconds| *seconds > 0.0),
            connections: spec.connections as u64,
            pipeline: spec.pipeline as u64,
            connection_per_request: !spec.keep_alive,
            http2: spec.http2,
            requests: requests(spec),
            arrivals: match (rate, spec.arrivals) {
                (None, _) => ArrivalsFact::Closed,
                (_, Arrivals::Poisson) => ArrivalsFact::Poisson,
                (_, Arrivals::Uniform) => ArrivalsFact::Uniform,
            },
            keys: keys.then_some(spec.keys),
            zipf_exponent: keys.then_some(spec.zipf_exponent),
            value_bytes: values.then_some(spec.value_bytes as u64),
            read_percent: values.then_some(spec.read_percent),
            seed: spec.seed,
            timeout_seconds: spec.timeout.as_secs_f64(),
            timing_error_p99_us: self.timing_error().map(|seconds| seconds * 1e6),
            generator_cpu_percent: self.cpu_percent(),
            generator_cpus: cpus.map_or_else(|_| Vec::new(), |cpus| cpus.iter().copied().collect()),
        }
    }

    fn timing_error(&self) -> Option<f64> {
        let timing = self.timing.borrow();
        timing.as_ref()?.lateness(Percentile::P99)
    }

    /// What a reader of a profile must know about the load.
    pub fn warnings(&self) -> Vec<Warning> {
        let shared = self.spec.placement.warning.clone();
        let cpu_percent = self.cpu_percent();
        let p99 = self.timing_error().map(Duration::from_secs_f64);
        let timing = self.timing.borrow();
        let failed = timing.as_ref().filter(|sum| sum.failures.total() > 0);
        let warnings = [
            shared.map(|shared| Warning::SharedCpus {
                shared,
                cpu_percent,
            }),
            p99.filter(|p99| *p99 > TIMING_BOUND)
                .map(|p99| Warning::SentLate { p99 }),
            failed.map(|sum| Warning::RequestsFailed {
                failures: sum.failures.clone(),
                due: sum.due,
            }),
            self.capacity.as_ref().and_then(Capacity::warning),
        ];
        warnings.into_iter().flatten().collect()
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        // The thread ends when its commands do.
        drop(self.commands.take());
        let _ = self.wake.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The HTTP requests of `spec`, where they are more than one GET of its URL.
fn requests(spec: &LoadSpec) -> Vec<RequestFact> {
    if let [only] = spec.requests.as_slice()
        && *only == HttpRequest::get(&spec.url.path)
    {
        return Vec::new();
    }
    let weights: f64 = spec.requests.iter().map(|request| request.weight).sum();
    let of = |request: &HttpRequest| RequestFact {
        share_percent: request.weight / weights * 100.0,
        method: request.method.clone(),
        path: request.path.clone(),
        body_bytes: request.body.len() as u64,
    };
    spec.requests.iter().map(of).collect()
}

/// CPU time of thread `tid` of this process. The kernel names the clock of a
/// thread by the complement of its id, shifted by three, with 4 for "a thread's"
/// and 2 for "as scheduled".
fn thread_cpu_ns(tid: i32) -> u64 {
    let clock = ClockId::from_raw((!tid << 3) | 4 | 2);
    clock_gettime(clock).map_or(0, nanoseconds)
}

/// Whether the calling thread runs under the usual policy; false as well when
/// that cannot be read.
fn scheduled_normally() -> bool {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    policy(&stat) == Some(0)
}

/// Field 41 of `/proc/PID/stat`; the name before the last parenthesis may hold
/// anything.
fn policy(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(41 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_read_behind_any_name() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) b 9) {}", fields.join(" "));
        assert_eq!(policy(&stat), Some(41));
        assert_eq!(policy("7 (x) R 1"), None);
        assert!(scheduled_normally());
    }

    #[test]
    fn the_time_of_a_thread_is_read_by_its_number() {
        let tid = nix::unistd::gettid().as_raw();
        let before = thread_cpu_ns(tid);
        let own = crate::clock::thread_cpu_ns();
        assert!(before <= own && own - before < 1_000_000_000);
        assert!(thread_cpu_ns(tid) >= own);
    }
}
