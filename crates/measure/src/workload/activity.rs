//! How many threads of a target run at once, and on which CPUs: looks at
//! `/proc/PID/task/*/stat`, again and again.

use jostle_host::os::here;
use jostle_host::os::proc;
use jostle_statistics::ByNumber;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

/// Time from one look to the next while a target is watched for a moment.
const STEP: Duration = Duration::from_millis(4);
/// A look takes longer, the more threads there are; it may take one part in
/// this many of the time.
const LOOK_PARTS: u32 = 8;
/// Looks that found running threads say something if they are so many, or most
/// of at least a few: threads that keep every CPU busy leave few looks.
const ENOUGH: usize = 8;
const FEW: usize = 3;
/// As many threads run at once as did in one of this many of the looks that
/// found any running.
const OFTEN: usize = 4;
/// CPU time in clock ticks from which on it tells where it was used.
const ENOUGH_TICKS: u64 = 10;
/// A thread counts as busy if it used at least this part of the CPU time of the
/// busiest.
const BUSY_PART: u64 = 4;

/// All threads of a target at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Running or not.
    pub threads: usize,
    /// The CPU of each one that ran or waited for it.
    pub running: Vec<usize>,
    /// Of each one its id, the CPU that it ran on last, and its CPU time so far
    /// in clock ticks.
    pub used: Vec<(i32, usize, u64)>,
}

impl Look {
    /// The threads of `processes`, below `root`.
    pub fn at(root: &Path, processes: &[i32]) -> Look {
        let mut look = Look::default();
        for &pid in processes {
            for tid in proc::threads(root, pid) {
                let Some(stat) = proc::thread_stat(root, pid, tid) else {
                    continue;
                };
                look.threads += usize::from(!stat.ended());
                look.running.extend(stat.cpu.filter(|_| stat.runs()));
                look.used.extend(stat.cpu.map(|cpu| (tid, cpu, stat.used)));
            }
        }
        look
    }
}

/// What was seen in a series of looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    looks: Vec<Look>,
    /// CPU time between looks by the CPU it was used on, clock ticks.
    ticks: BTreeMap<usize, u64>,
}

impl Activity {
    /// Watches for `length` whatever `processes` names each time; up to twice as
    /// long where looks take long.
    ///
    /// # Errors
    /// The first of `processes`.
    pub fn watch<E>(
        length: Duration,
        mut processes: impl FnMut() -> Result<Vec<i32>, E>,
    ) -> Result<Activity, E> {
        let mut activity = Activity::default();
        let began = Instant::now();
        let more = |looks: usize| {
            let elapsed = began.elapsed();
            elapsed < length || looks < ENOUGH && elapsed < length * 2
        };
        while more(activity.looks.len()) {
            let took = activity.add_look(&processes()?);
            std::thread::sleep(STEP.max(took * LOOK_PARTS));
        }
        Ok(activity)
    }

    /// Looks at `processes` once more; how long that took.
    pub fn add_look(&mut self, processes: &[i32]) -> Duration {
        let began = Instant::now();
        self.push(Look::at(here(), processes));
        began.elapsed()
    }

    fn push(&mut self, look: Look) {
        if let Some(last) = self.looks.last_mut() {
            let before: HashMap<i32, u64> = std::mem::take(&mut last.used)
                .into_iter()
                .map(|(tid, _, used)| (tid, used))
                .collect();
            for (tid, cpu, used) in &look.used {
                let before = before.get(tid).copied().unwrap_or(*used);
                *self.ticks.entry(*cpu).or_default() += used.saturating_sub(before);
            }
        }
        self.looks.push(look);
    }

    /// How many threads ran at once in at least a quarter of the looks that
    /// found any running; `None` where too few did.
    pub fn at_once(&self) -> Option<usize> {
        let mut running: Vec<usize> = self.active().map(|look| look.running.len()).collect();
        running.sort_unstable();
        let often = running.len().checked_sub(running.len().div_ceil(OFTEN))?;
        self.says().then(|| running[often])
    }

    /// The CPUs that threads ran on, with their shares of it (0–1), the largest
    /// first: by CPU time, or by looks that found them running where there was
    /// little; empty where there were few of these too.
    pub fn cpus(&self) -> Vec<(usize, f64)> {
        if self.ticks.values().sum::<u64>() >= ENOUGH_TICKS {
            let used = self.ticks.iter().filter(|(_, ticks)| **ticks > 0);
            return shares(used.map(|(cpu, ticks)| (*cpu, *ticks)));
        }
        if !self.says() {
            return Vec::new();
        }
        let running = self.looks.iter().flat_map(|look| &look.running);
        shares(running.map(|&cpu| (cpu, 1)))
    }

    /// Threads there were in the first and in the last quarter of the looks at
    /// a living target, the middle of each; `None` where there were too few.
    pub fn threads(&self) -> Option<[usize; 2]> {
        let there = self.looks.iter().map(|look| look.threads);
        let there: Vec<usize> = there.filter(|&threads| threads > 0).collect();
        let part = there.len() / 4;
        if part < 2 {
            return None;
        }
        let middle = |part: &[usize]| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part[part.len() / 2]
        };
        Some([middle(&there[..part]), middle(&there[there.len() - part..])])
    }

    /// Whether the target ran enough to tell how.
    fn says(&self) -> bool {
        let active = self.active().count();
        active >= ENOUGH || active >= FEW && 2 * active > self.looks.len()
    }

    fn active(&self) -> impl Iterator<Item = &Look> {
        self.looks.iter().filter(|look| !look.running.is_empty())
    }
}

impl FromIterator<Look> for Activity {
    fn from_iter<T: IntoIterator<Item = Look>>(looks: T) -> Activity {
        let mut activity = Activity::default();
        looks.into_iter().for_each(|look| activity.push(look));
        activity
    }
}

/// The CPUs on which the busiest threads of `processes` ran last, below `root`:
/// those that used a quarter of the busiest one's CPU time since they began.
/// With the shares of that time (0–1), the largest first; empty where there are
/// none.
pub fn last_cpus(root: &Path, processes: &[i32]) -> Vec<(usize, f64)> {
    let threads = processes.iter().flat_map(|&pid| {
        let threads = proc::threads(root, pid).into_iter();
        threads.filter_map(move |tid| proc::thread_stat(root, pid, tid))
    });
    let used: Vec<(usize, u64)> = threads
        .filter_map(|stat| Some((stat.cpu?, stat.used)))
        .collect();
    let most = used.iter().map(|(_, used)| *used).max().unwrap_or(0);
    let busy = used.iter().filter(|(_, used)| used * BUSY_PART >= most);
    // One that has used nothing yet still is somewhere.
    shares(busy.map(|(cpu, used)| (*cpu, *used.max(&1))))
}

/// Sums by CPU, as shares of the whole, the largest first.
fn shares(weights: impl Iterator<Item = (usize, u64)>) -> Vec<(usize, f64)> {
    let mut by_cpu: BTreeMap<usize, u64> = BTreeMap::new();
    for (cpu, weight) in weights {
        *by_cpu.entry(cpu).or_default() += weight;
    }
    let whole = by_cpu.values().sum::<u64>().max(1) as f64;
    let mut shares: Vec<(usize, f64)> = by_cpu
        .into_iter()
        .map(|(cpu, weight)| (cpu, weight as f64 / whole))
        .collect();
    shares.sort_by_number(|it| -it.1);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_host::os::fake::tree;

    fn looks(running: &[&[usize]]) -> Activity {
        let look = |cpus: &&[usize]| Look {
            threads: 4,
            running: cpus.to_vec(),
            ..Look::default()
        };
        running.iter().map(look).collect()
    }

    fn line(pid: i32, state: char, used: u64, cpu: usize) -> String {
        format!(
            "{pid} (a) {state} 1 2 3 0 -1 64 0 5 0 0 {used} 0 0 0 20 0 1 0 99 0 0 0 0 0 0 0 0 0 0 \
             0 0 0 0 0 17 {cpu} 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        )
    }

    #[test]
    fn threads_of_several_processes_are_seen_where_they_run() {
        let root = tree(&[
            ("proc/7/task/7/stat", &line(7, 'S', 90, 0)),
            ("proc/7/task/8/stat", &line(8, 'R', 400, 3)),
            ("proc/7/task/9/stat", &line(9, 'R', 200, 2)),
            ("proc/20/task/20/stat", &line(20, 'Z', 5, 1)),
        ]);
        let look = Look::at(root.path(), &[7, 20, 99]);
        assert_eq!((look.threads, look.running), (3, vec![3, 2]));
        // Asleep or not, and without those that hardly did anything.
        let last = last_cpus(root.path(), &[7, 20, 99]);
        assert_eq!(last, [(3, 400.0 / 600.0), (2, 200.0 / 600.0)]);
        assert_eq!(last_cpus(root.path(), &[99]), []);
    }

    #[test]
    fn what_runs_at_once_now_and_then_does_not_count() {
        let (none, one, two): (&[usize], &[usize], &[usize]) = (&[], &[0], &[0, 1]);
        assert_eq!(looks(&[one; 10]).at_once(), Some(1));
        // A helper in two looks of twelve; idle looks say nothing.
        let helped = [[one; 10].as_slice(), &[two; 2], &[none; 40]].concat();
        assert_eq!(looks(&helped).at_once(), Some(1));
        let parallel = [[one; 8].as_slice(), &[two; 4]].concat();
        assert_eq!(looks(&parallel).at_once(), Some(2));
        let four: &[usize] = &[0, 1, 2, 3];
        assert_eq!(looks(&[four; 9]).at_once(), Some(4));
        assert_eq!(looks(&[four; 4]).at_once(), Some(4), "no time to look");
        let hardly = [[one; 5].as_slice(), &[none; 40]].concat();
        assert_eq!(looks(&hardly).at_once(), None);
        assert_eq!(looks(&[one; 2]).at_once(), None);
        assert_eq!(looks(&[]).at_once(), None);
    }

    #[test]
    fn cpus_come_by_the_time_spent_on_them() {
        let (alone, both): (&[usize], &[usize]) = (&[2], &[0, 2]);
        let seen = [[alone; 6].as_slice(), &[both; 3]].concat();
        assert_eq!(looks(&seen).cpus(), [(2, 0.75), (0, 0.25)]);
        assert_eq!(looks(&[&[1]]).cpus(), []);
        // One that is never met running uses CPU time all the same, and what a
        // new one used before it was seen is nobody's.
        let look = |used: &[(i32, usize, u64)]| Look {
            used: used.to_vec(),
            ..Look::default()
        };
        let asleep = [
            look(&[(7, 0, 100)]),
            look(&[(7, 1, 115), (8, 0, 900)]),
            look(&[(7, 1, 115), (8, 0, 905)]),
        ];
        let activity: Activity = asleep.into_iter().collect();
        assert_eq!(activity.cpus(), [(1, 0.75), (0, 0.25)]);
        assert_eq!(activity.at_once(), None);
    }

    #[test]
    fn the_number_of_threads_at_both_ends() {
        let look = |threads| Look {
            threads,
            ..Look::default()
        };
        // One in the middle of starting and one that was just ended are no
        // change.
        let counts = [1, 4, 4, 0, 4, 4, 4, 4, 4, 9, 9, 9, 1];
        let activity: Activity = counts.into_iter().map(look).collect();
        assert_eq!(activity.threads(), Some([4, 9]));
        let few: Activity = [1, 2, 3].into_iter().map(look).collect();
        assert_eq!(few.threads(), None);
    }

    #[test]
    fn a_busy_process_is_seen_running() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let watched = Duration::from_millis(200);
        let activity = Activity::watch(watched, || Ok::<_, ()>(vec![pid])).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(activity.at_once(), Some(1));
        let share: f64 = activity.cpus().iter().map(|(_, share)| share).sum();
        assert!((share - 1.0).abs() < 1e-9);
    }
}
