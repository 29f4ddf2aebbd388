//! States of this node, sent to every replica of `jostle extender` from a thread of its
//! own: a refresh only wakes it.
//!
//! | file | what it does |
//! |---|---|
//! | `document` | what is sent of a state |
//! | `replica` | sends to one address, and tries again |

mod document;
mod replica;

use super::board::Board;
use super::config::ReportSection;
use crate::http::client::Address;
use crate::http::naming::Naming;
use crate::http::trust::Trust;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use replica::Replica;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::task::JoinHandle as Task;
use tokio::time::sleep;
use tokio::time::timeout;

const NAMING: Naming = Naming::Section("report");
/// From one look at the addresses of the name to the next.
const LOOK_UP: Duration = Duration::from_secs(15);
/// Longest time for such a look.
const LONGEST_LOOK_UP: Duration = Duration::from_secs(10);

/// Sends states until it is dropped.
pub struct Reporter {
    closing: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Where to send to, and as whom.
#[derive(Clone)]
struct Target {
    address: Address,
    ca: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
    token_file: Option<PathBuf>,
    interval: Duration,
}

impl Reporter {
    /// # Errors
    /// A request error that names the key.
    pub fn check(section: &ReportSection) -> Result<()> {
        Target::of(section).map(drop)
    }

    /// `None` where no address is configured.
    ///
    /// # Errors
    /// As [`Self::check`]; an environment error without threads.
    pub fn start(section: &ReportSection, board: Arc<Board>) -> Result<Option<Reporter>> {
        let Some(target) = Target::of(section)? else {
            return Ok(None);
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            // For names, which are looked up one after another.
            .max_blocking_threads(1)
            .thread_keep_alive(Duration::from_secs(1))
            .thread_name("jostle-report-work")
            .build()
            .map_err(Error::environment)?;
        let (changes, changed) = watch::channel(());
        board.subscribe(move || {
            changes.send_replace(());
        });
        let (closing, mut closed) = watch::channel(false);
        let thread = std::thread::Builder::new().name("jostle-report".into());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = follow(target, board, changed) => {}
                    _ = closed.wait_for(|closed| *closed) => {}
                }
            });
            // A name that is being looked up is not waited for.
            runtime.shutdown_background();
        });
        Ok(Some(Reporter {
            closing,
            thread: Some(thread.map_err(Error::environment)?),
        }))
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.closing.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported already.
            let _ = thread.join();
        }
    }
}

impl Target {
    fn of(section: &ReportSection) -> Result<Option<Target>> {
        let Some(url) = &section.url else {
            return Ok(None);
        };
        let wrong = |problem: String| NAMING.wrong("url", url, problem);
        let address = Address::parse(url).map_err(wrong)?;
        let identity = match (&section.certificate, &section.key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => return Err(wrong("give certificate and key, or neither".into())),
        };
        if address.tls && section.ca.is_none() {
            return Err(wrong("https needs report.ca".into()));
        }
        let loopback = ["localhost", "127.0.0.1", "::1"].contains(&address.host.as_str());
        if !address.tls && (identity.is_some() || section.token_file.is_some() && !loopback) {
            return Err(wrong("a token or key is sent over https only".into()));
        }
        let target = Target {
            address,
            ca: section.ca.clone(),
            identity,
            token_file: section.token_file.clone(),
            interval: section.interval,
        };
        target.trust()?;
        if let Some(path) = &target.token_file {
            std::fs::read_to_string(path)
                .map_err(|error| NAMING.wrong("token_file", path.display(), error))?;
        }
        Ok(Some(target))
    }

    /// From its files, which are renewed from time to time.
    fn trust(&self) -> Result<Option<Trust>> {
        let Some(ca) = self.ca.as_ref().filter(|_| self.address.tls) else {
            return Ok(None);
        };
        let identity = self.identity.as_ref();
        let identity = identity.map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        Trust::load(NAMING, ("ca", ca), identity).map(Some)
    }
}

/// Sends to every address of the name, as they come and go.
async fn follow(target: Target, board: Arc<Board>, changed: watch::Receiver<()>) {
    let mut replicas: BTreeMap<SocketAddr, Task<()>> = BTreeMap::new();
    let mut failed = false;
    loop {
        let (host, port) = (target.address.host.as_str(), target.address.port);
        match timeout(LONGEST_LOOK_UP, lookup_host((host, port))).await {
            Ok(Ok(found)) => {
                failed = false;
                let found: Vec<SocketAddr> = found.collect();
                replicas.retain(|at, task| {
                    let stays = found.contains(at);
                    if !stays {
                        task.abort();
                    }
                    stays
                });
                for at in found {
                    replicas.entry(at).or_insert_with(|| {
                        let replica = Replica::new(target.clone(), at, board.clone());
                        tokio::spawn(replica.run(changed.clone()))
                    });
                }
            }
            // Those that were found before may still be there.
            _ if failed => {}
            _ => {
                tracing::warn!("report.url: the name {host} has no address at the moment");
                failed = true;
            }
        }
        sleep(LOOK_UP).await;
    }
}
