//! The helper: answers the plugin, looks at the queue, and moves jobs.

use super::change;
use super::change::Change;
use super::commands;
use super::harm::Predictions;
use super::planner::Planner;
use super::question;
use super::question::Answer;
use super::queue;
use super::queue::Job;
use super::queue::Nodes;
use super::world::World;
use crate::serve::line::Limits;
use crate::serve::line::Line;
use crate::serve::listen::Listener;
use crate::serve::server;
use crate::serve::server::Client;
use crate::serve::server::Handler;
use jostle_measure::console::note;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use std::collections::BTreeMap;
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
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// One command of Slurm; a controller that is busy takes seconds.
const COMMAND_TIME: Duration = Duration::from_secs(30);

/// A job that could not be changed is left alone for so long.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Changes made before the queue is looked at again.
const MOST_CHANGES: usize = 100;

/// Looks at the queue before the end of the helper is looked for.
const MOST_ROUNDS: usize = 10;

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

/// Answers submissions.
struct Submissions(Arc<Mutex<World>>);

fn locked(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| it.as_secs())
}

impl Handler for Submissions {
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
        let planner = Planner::new(predictions.clone(), options.patience.as_secs());
        let world = Arc::new(Mutex::new(World::new(predictions, now())));
        let listener = Arc::new(Listener::unix("--socket", &options.socket)?);
        let (stop, stopped) = channel();
        let interval = options.interval;
        let mut rounds = Rounds {
            world: world.clone(),
            planner,
            failed: BTreeMap::new(),
        };
        let steer = move || {
            let mut trouble = Trouble::default();
            loop {
                trouble.is(rounds.next());
                match stopped.recv_timeout(interval) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
        };
        let thread = thread::Builder::new().name("steer".into()).spawn(steer);
        let thread = thread
            .map_err(|error| Error::environment(format!("cannot start a thread: {error}")))?;
        server::serve(vec![listener.clone()], LIMITS, Arc::new(Submissions(world)))?;
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

/// Looks at the queue, and makes the changes that follow.
struct Rounds {
    world: Arc<Mutex<World>>,
    planner: Planner,
    /// Jobs that could not be changed, and when.
    failed: BTreeMap<String, Instant>,
}

impl Rounds {
    fn next(&mut self) -> Result<(), String> {
        for _ in 0..MOST_ROUNDS {
            let (nodes, jobs) = look()?;
            let changes = self.plan(nodes, &jobs);
            self.failed.retain(|_, at| at.elapsed() < AFTER_FAILURE);
            for alike in grouped(&changes[..changes.len().min(MOST_CHANGES)]) {
                self.make(&alike);
            }
            if changes.len() <= MOST_CHANGES {
                break;
            }
        }
        Ok(())
    }

    fn plan(&mut self, nodes: Nodes, jobs: &[Job]) -> Vec<Change> {
        let (tickets, last) = {
            let mut world = locked(&self.world);
            (world.open_tickets(jobs, now()), world.last_ticket())
        };
        let (board, mut changes) = self.planner.plan(&nodes, jobs, &tickets, now());
        locked(&self.world).accept(nodes, board, last);
        changes.retain(|change| !self.failed.contains_key(&change.job));
        changes
    }

    fn make(&mut self, alike: &[&Change]) {
        let made = make(alike);
        for change in alike {
            match &made {
                Ok(()) => note!("job {}: {}", change.job, change.said),
                Err(problem) => {
                    // Most often it has just started, or ended.
                    note!("job {}: not changed: {problem}", change.job);
                    self.failed.insert(change.job.clone(), Instant::now());
                }
            }
        }
    }
}

/// Changes that are the same but for the job, such as those of jobs that still wait.
fn grouped(changes: &[Change]) -> Vec<Vec<&Change>> {
    let mut groups: Vec<Vec<&Change>> = Vec::new();
    for change in changes {
        let alike = groups
            .iter_mut()
            .find(|it| it[0].settings == change.settings);
        match alike {
            Some(group) => group.push(change),
            None => groups.push(vec![change]),
        }
    }
    groups
}

fn look() -> Result<(Nodes, Vec<Job>), String> {
    let nodes = commands::run("sinfo", queue::SINFO, COMMAND_TIME)?;
    let jobs = commands::run("squeue", queue::SQUEUE, COMMAND_TIME)?;
    let jobs = queue::jobs(&jobs).map_err(|error| format!("squeue --json: {error}"))?;
    Ok((queue::nodes(&String::from_utf8_lossy(&nodes)), jobs))
}

fn make(alike: &[&Change]) -> Result<(), String> {
    let jobs: Vec<&str> = alike.iter().map(|it| it.job.as_str()).collect();
    let jobs = format!("JobId={}", jobs.join(","));
    let mut arguments = vec!["update", &jobs];
    let settings = alike.iter().take(1).flat_map(|it| &it.settings);
    arguments.extend(settings.map(String::as_str));
    commands::run("scontrol", &arguments, COMMAND_TIME).map(drop)
}

/// Undoes what pending jobs were given, by this process or one that is dead.
///
/// # Errors
/// An environment error when Slurm does not answer.
pub fn release() -> Result<()> {
    let (_, jobs) = look().map_err(Error::environment)?;
    for change in change::release(&jobs) {
        match make(&[&change]) {
            Ok(()) => note!("job {}: {}", change.job, change.said),
            Err(problem) => warning!("job {}: not released: {problem}", change.job),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_are_alike_go_together() {
        let change = |job: &str, setting: &str| Change {
            job: job.into(),
            settings: vec![setting.into()],
            said: String::new(),
        };
        let all = [
            change("1", "StartTime=now+60"),
            change("2", "ReqNodeList=n1"),
            change("3_[4,6]", "StartTime=now+60"),
        ];
        let groups = grouped(&all);
        let jobs = |group: &Vec<&Change>| -> Vec<String> {
            group.iter().map(|it| it.job.clone()).collect()
        };
        let jobs: Vec<Vec<String>> = groups.iter().map(jobs).collect();
        assert_eq!(jobs, [vec!["1", "3_[4,6]"], vec!["2"]]);
    }
}
