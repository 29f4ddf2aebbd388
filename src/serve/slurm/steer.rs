//! The helper: answers the plugin, looks at the queue, and moves jobs.

use super::commands;
use super::harm::Predictions;
use super::question;
use super::question::Answer;
use super::queue;
use super::queue::Job;
use super::queue::Nodes;
use super::world::Change;
use super::world::World;
use crate::console::note;
use crate::console::warning;
use crate::error::Error;
use crate::error::Result;
use crate::serve::line::Limits;
use crate::serve::line::Line;
use crate::serve::listen::Listener;
use crate::serve::server;
use crate::serve::server::Client;
use crate::serve::server::Handler;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::Sender;
use std::sync::mpsc::channel;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// One command of Slurm; a controller that is busy takes seconds.
const COMMAND_TIME: Duration = Duration::from_secs(30);

/// Changes made before the queue is looked at again.
const MOST_CHANGES: usize = 50;

const LIMITS: Limits = Limits {
    connections: 256,
    line_bytes: 64 << 10,
    idle: Duration::from_secs(10),
    line: Duration::from_secs(2),
    write: Duration::from_secs(2),
};

pub struct Options {
    pub socket: PathBuf,
    pub profiles: PathBuf,
    pub patience: Duration,
    pub interval: Duration,
}

/// A helper at work.
pub struct Helper {
    /// Of profiles.
    pub count: usize,
    listener: Arc<Listener>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

struct Door(Arc<Mutex<World>>);

fn locked(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| it.as_secs())
}

impl Handler for Door {
    fn answer(&self, _client: &Arc<Client>, number: u64, line: &Line) -> Vec<String> {
        let Line::Text(line) = line else {
            return vec![server::refusal(number, "too long, or not UTF-8")];
        };
        let answer = match question::read(line) {
            Ok(question) => {
                let answer = locked(&self.0).submit(&question, now());
                say(&question.profile, &answer);
                serde_json::to_string(&answer).map_err(|error| error.to_string())
            }
            Err(problem) => Err(problem),
        };
        vec![answer.unwrap_or_else(|problem| server::refusal(number, &problem))]
    }
}

fn say(profile: &str, answer: &Answer) {
    match answer {
        Answer::Steer { comment, .. } => note!("submitted: {comment}"),
        Answer::None { why } => note!("submitted: {profile:?}: not steered: {why}"),
    }
}

impl Helper {
    /// Listens, and steers until [`Self::stop`].
    ///
    /// # Errors
    /// A request error that names a flag.
    pub fn start(options: &Options) -> Result<Helper> {
        let predictions = Predictions::load("--profiles", &options.profiles)?;
        let count = predictions.count();
        let world = World::new(predictions, options.patience.as_secs(), now());
        let world = Arc::new(Mutex::new(world));
        let listener = Arc::new(Listener::unix("--socket", &options.socket)?);
        let (stop, stopped) = channel();
        let (steered, interval) = (world.clone(), options.interval);
        let steer = move || {
            let mut trouble = Trouble::default();
            loop {
                trouble.is(round(&steered));
                match stopped.recv_timeout(interval) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
        };
        let thread = thread::Builder::new().name("steer".into()).spawn(steer);
        let thread = thread
            .map_err(|error| Error::environment(format!("cannot start a thread: {error}")))?;
        server::serve(vec![listener.clone()], LIMITS, Arc::new(Door(world)))?;
        Ok(Helper {
            count,
            listener,
            stop,
            thread,
        })
    }

    /// Answers nobody any more, and releases what pending jobs were given.
    ///
    /// # Errors
    /// An environment error when Slurm does not answer.
    pub fn stop(self) -> Result<()> {
        self.listener.remove_file();
        let _ = self.stop.send(());
        let _ = self.thread.join();
        release()
    }

    pub fn address(&self) -> String {
        self.listener.address()
    }
}

/// Tells of a trouble once, and of its end.
#[derive(Default)]
struct Trouble(Option<String>);

impl Trouble {
    fn is(&mut self, result: Result<(), String>) {
        match (&self.0, result) {
            (None, Err(problem)) => {
                warning!("{problem}; nothing is moved until Slurm answers");
                self.0 = Some(problem);
            }
            (Some(_), Ok(())) => {
                note!("Slurm answers again");
                self.0 = None;
            }
            _ => {}
        }
    }
}

/// Looks at the queue and makes the changes that follow.
fn round(world: &Mutex<World>) -> Result<(), String> {
    loop {
        let (nodes, jobs) = look()?;
        let changes = locked(world).refresh(nodes, &jobs, now());
        let most = changes.len() > MOST_CHANGES;
        let mut failed = false;
        for change in changes.iter().take(MOST_CHANGES) {
            match make(change) {
                Ok(()) => note!("job {}: {}", change.job, change.said),
                Err(problem) => {
                    // Most often it has just started, or ended.
                    note!("job {}: not changed: {problem}", change.job);
                    failed = true;
                    break;
                }
            }
        }
        if failed || !most {
            return Ok(());
        }
    }
}

fn look() -> Result<(Nodes, Vec<Job>), String> {
    let nodes = commands::run("sinfo", queue::SINFO, COMMAND_TIME)?;
    let jobs = commands::run("squeue", queue::SQUEUE, COMMAND_TIME)?;
    let jobs = queue::jobs(&jobs).map_err(|error| format!("squeue --json: {error}"))?;
    Ok((queue::nodes(&String::from_utf8_lossy(&nodes)), jobs))
}

fn make(change: &Change) -> Result<(), String> {
    let job = format!("JobId={}", change.job);
    let mut arguments = vec!["update", &job];
    arguments.extend(change.settings.iter().map(String::as_str));
    commands::run("scontrol", &arguments, COMMAND_TIME).map(drop)
}

/// Undoes what pending jobs were given, by this process or one that is dead.
///
/// # Errors
/// An environment error when Slurm does not answer.
pub fn release() -> Result<()> {
    let (_, jobs) = look().map_err(Error::environment)?;
    for change in World::release(&jobs) {
        match make(&change) {
            Ok(()) => note!("job {}: {}", change.job, change.said),
            Err(problem) => warning!("job {}: not released: {problem}", change.job),
        }
    }
    Ok(())
}
