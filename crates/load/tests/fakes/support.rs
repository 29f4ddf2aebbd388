//! Servers that behave as planted, and what the tests of loads share.

use jostle_load::ErrorKind;
use jostle_load::Generator;
use jostle_load::LoadSpec;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

/// What a fake server does with a request.
#[derive(Clone)]
pub enum Act {
    /// Answers these bytes.
    Say(Vec<u8>),
    /// Answers one byte at a time.
    Drip(Vec<u8>),
    /// Says nothing.
    Ignore,
    /// Breaks the connection off.
    Reset,
}

type Behaviour = Arc<dyn Fn(u64) -> Act + Send + Sync>;

/// Answers each request that ends as the protocol's do. Threads end with their
/// connections; the listener with the process.
pub struct Fake {
    pub port: u16,
    pub served: Arc<AtomicU64>,
}

/// How the end of a request is known.
#[derive(Clone, Copy)]
pub enum Speaks {
    /// A GET of RESP is five lines; a PING three.
    Redis,
    Http,
}

impl Fake {
    /// `act` is told how many requests were served before.
    pub fn start(speaks: Speaks, act: impl Fn(u64) -> Act + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Fake::on(listener, speaks, Arc::new(act))
    }

    pub fn on(listener: TcpListener, speaks: Speaks, act: Behaviour) -> Fake {
        let port = listener.local_addr().unwrap().port();
        let served = Arc::<AtomicU64>::default();
        let counter = served.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (act, counter) = (act.clone(), counter.clone());
                std::thread::spawn(move || serve(stream, speaks, &act, &counter));
            }
        });
        Fake { port, served }
    }
}

fn serve(mut stream: TcpStream, speaks: Speaks, act: &Behaviour, served: &AtomicU64) {
    let _ = stream.set_nodelay(true);
    let mut held = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        while let Some((length, greeting)) = request(&held, speaks) {
            held.drain(..length);
            if greeting {
                if stream.write_all(b"+PONG\r\n").is_err() {
                    return;
                }
                continue;
            }
            let done = match act(served.fetch_add(1, Relaxed)) {
                Act::Say(answer) => stream.write_all(&answer),
                Act::Drip(answer) => answer
                    .iter()
                    .try_for_each(|byte| stream.write_all(&[*byte])),
                Act::Ignore => Ok(()),
                Act::Reset => {
                    // Unread bytes make the close a reset.
                    let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                    return;
                }
            };
            if done.is_err() {
                return;
            }
        }
        match stream.read(&mut bytes) {
            Ok(count) if count > 0 => held.extend_from_slice(&bytes[..count]),
            _ => return,
        }
    }
}

/// Length of the first whole request, and whether it is a PING.
fn request(held: &[u8], speaks: Speaks) -> Option<(usize, bool)> {
    match speaks {
        Speaks::Http => {
            let end = held.windows(4).position(|four| four == b"\r\n\r\n")?;
            Some((end + 4, false))
        }
        Speaks::Redis => {
            let words = u32::from(held.get(1)? - b'0');
            let lines = 1 + 2 * words;
            let mut ends = held
                .windows(2)
                .enumerate()
                .filter(|(_, two)| *two == b"\r\n");
            let (end, _) = ends.nth(lines as usize - 1)?;
            Some((end + 2, words == 1))
        }
    }
}

pub const VALUE: &[u8] = b"$5\r\nhello\r\n";
pub const PAGE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Reads only, nothing set first, of a server on this port.
pub fn spec(url: &str) -> LoadSpec {
    LoadSpec {
        connections: 8,
        keys: 100,
        read_percent: 100.0,
        prefill: false,
        connect_timeout: Duration::from_secs(20),
        ..LoadSpec::new(url.parse().expect("an address"))
    }
}

pub fn redis_spec(port: u16) -> LoadSpec {
    spec(&format!("redis://127.0.0.1:{port}"))
}

pub fn start(spec: LoadSpec) -> Generator {
    try_start(spec).expect("the load starts")
}

pub fn try_start(spec: LoadSpec) -> jostle_load::Result<Generator> {
    Generator::start(spec, &AtomicBool::new(false), &mut || Ok(()))
}

/// One window of this length.
pub fn window(generator: &Generator, length: Duration) -> jostle_load::Window {
    generator.open_window();
    std::thread::sleep(length);
    generator.close_window().expect("a window")
}

pub fn message<T>(result: jostle_load::Result<T>, kind: ErrorKind) -> String {
    match result {
        Ok(_) => panic!("this should have failed"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{error}");
            error.to_string()
        }
    }
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().unwrap().port()
}

pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
