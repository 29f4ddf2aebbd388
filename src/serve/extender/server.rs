//! The extender, started.

use super::api_server::ApiServer;
use super::decisions::Decisions;
use super::guard;
use super::protocol::Pod;
use super::routes;
use super::shared::Counters;
use super::shared::Shared;
use super::source::Seen;
use super::source::Source;
use super::watch;
use super::watch::NodeObject;
use super::watch::SharedWorld;
use crate::http::access::AccessControl;
use crate::http::connections::Connections;
use crate::http::naming::Naming;
use crate::http::requests::Requests;
use crate::http::server::Host;
use crate::http::tcp;
use crate::http::tcp::Tcp;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;
use tokio::runtime::Runtime;
use tokio::sync::watch as signal;
use tokio::time::sleep;

/// Most connections at a time: one per agent, and some.
const MOST_CONNECTIONS: usize = 16_384;
/// Longest silence on a connection: agents keep theirs between two states.
const LONGEST_SILENCE: Duration = Duration::from_secs(90);
/// How long requests may go on when the server ends.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// Between two looks at the profiles.
const LOOK_AT_PROFILES: Duration = Duration::from_secs(5);

/// What the flags say.
pub struct Options {
    pub listen: String,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub client_ca: Option<PathBuf>,
    pub token_file: Option<PathBuf>,
    /// A directory, `configmap:NAMESPACE/NAME`, or a URL.
    pub profiles: String,
    pub profiles_ca: Option<PathBuf>,
    pub api_server: Option<String>,
    pub api_ca: Option<PathBuf>,
    pub api_token_file: Option<PathBuf>,
    /// Labels that a node must have, as `pool=a`.
    pub node_selector: Option<String>,
    pub strict: bool,
    pub most_body_bytes: usize,
}

/// An extender that answers; dropping it ends it.
pub struct Extender {
    pub address: SocketAddr,
    /// Profiles in force at the start, and their version.
    pub profiles: (usize, String),
    closing: signal::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Extender {
    /// Reads the profiles, listens, and watches from then on, on threads of its own.
    ///
    /// # Errors
    /// A request error that names the flag; an environment error without threads.
    pub fn start(options: &Options) -> Result<Extender> {
        let listen = tcp::Options {
            naming: Naming::Flags,
            setting: "listen",
            address: Some(&options.listen),
            certificate: options.certificate.as_deref(),
            key: options.key.as_deref(),
            client_ca: options.client_ca.as_deref(),
            token_file: options.token_file.as_deref(),
        };
        let server = ApiServer::find(
            options.api_server.as_deref(),
            options.api_ca.as_deref(),
            options.api_token_file.as_deref(),
        )?;
        let ca = options.profiles_ca.as_deref();
        let source = Source::parse(&options.profiles, ca, &server)?;
        let runtime = runtime().map_err(Error::environment)?;
        let mut seen = Seen::default();
        let found = runtime.block_on(source.first(&options.profiles, &mut seen))?;
        for (file, problem) in &found.broken {
            tracing::warn!("profile {file} is left out: {problem}");
        }
        let profiles = (found.apps.len(), found.version.clone());
        let world = SharedWorld::default();
        world.lock().set_profiles(Arc::new(found));
        let tcp = Tcp::listen(&listen)?.expect("an address is given");
        let address = tcp.address;
        let shared = Arc::new(Shared {
            world,
            decisions: Mutex::new(Decisions::default()),
            requests: Requests::default(),
            counters: Counters::default(),
            nodes_listed: AtomicBool::new(false),
            pods_listed: AtomicBool::new(false),
            strict: options.strict,
            most_body_bytes: options.most_body_bytes,
        });
        let (closing, closed) = signal::channel(false);
        let nodes = watch::nodes_path(options.node_selector.as_deref());
        let work = Work {
            tcp,
            server,
            source,
            seen,
            nodes,
            closed,
            shared,
        };
        let thread = std::thread::Builder::new().name("jostle-extender".into());
        let thread = thread.spawn(move || runtime.block_on(work.run()));
        Ok(Extender {
            address,
            profiles,
            closing,
            thread: Some(thread.map_err(Error::environment)?),
        })
    }

    /// Requests that are being answered are answered.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.closing.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported already.
            let _ = thread.join();
        }
    }
}

impl Drop for Extender {
    fn drop(&mut self) {
        self.end();
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Decisions come one after another.
        .max_blocking_threads(1)
        .thread_name("jostle-extender-work")
        .build()
}

/// What the thread of the extender does.
struct Work {
    tcp: Tcp,
    server: ApiServer,
    source: Source,
    seen: Seen,
    nodes: String,
    closed: signal::Receiver<bool>,
    shared: Arc<Shared>,
}

impl Work {
    async fn run(mut self) {
        let shared = self.shared.clone();
        let listed = shared.clone();
        let nodes = watch::follow::<NodeObject>(
            self.server.clone(),
            self.nodes.clone(),
            shared.world.clone(),
            move || listed.nodes_listed.store(true, Ordering::Relaxed),
        );
        let listed = shared.clone();
        let pods = watch::follow::<Pod>(
            self.server.clone(),
            watch::pods_path(),
            shared.world.clone(),
            move || listed.pods_listed.store(true, Ordering::Relaxed),
        );
        tokio::spawn(nodes);
        tokio::spawn(pods);
        tokio::spawn(ticks(shared.world.clone()));
        let connections = Arc::new(Connections::new(MOST_CONNECTIONS));
        let access = AccessControl {
            token: self.tcp.token.take(),
            only_loopback_names: self.tcp.tls.is_none(),
            server: "extender",
        };
        let host = Host {
            router: guard::behind(shared.clone(), access, routes::router(&shared)),
            connections: connections.clone(),
            closing: self.closed.clone(),
            longest_head: LONGEST_SILENCE,
        };
        match tokio::net::TcpListener::from_std(self.tcp.listener) {
            Ok(listener) => drop(tokio::spawn(host.accept_tcp(listener, self.tcp.tls))),
            Err(error) => tracing::error!("requests are not answered: {error}"),
        }
        tokio::spawn(follow_profiles(
            self.source,
            self.seen,
            shared.world.clone(),
        ));
        let _ = self.closed.wait_for(|closed| *closed).await;
        let all_gone = async {
            while connections.open() > 0 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(LAST_ANSWERS, all_gone).await;
    }
}

async fn ticks(world: SharedWorld) {
    loop {
        sleep(Duration::from_secs(1)).await;
        world.lock().tick(Instant::now());
    }
}

/// Puts other profiles in force when there are some.
async fn follow_profiles(source: Source, mut seen: Seen, world: SharedWorld) {
    let mut failed = false;
    loop {
        sleep(LOOK_AT_PROFILES).await;
        match source.read(&mut seen).await {
            Ok(None) => failed = false,
            Ok(Some(found)) => {
                for (file, problem) in &found.broken {
                    tracing::warn!("profile {file} is left out: {problem}");
                }
                tracing::info!(
                    "{} profiles of version {} are in force",
                    found.apps.len(),
                    found.version
                );
                world.lock().set_profiles(Arc::new(found));
                failed = false;
            }
            Err(problem) => {
                if !failed {
                    tracing::warn!("profiles cannot be read again: {problem}");
                }
                failed = true;
            }
        }
    }
}
