//! What the kernel notes of each thread and process: waiting for a CPU, bytes
//! read and written, giving the CPU up and losing it.
//!
//! Members come and go. Each is read from its own file, and only the growth
//! since the last reading is added, so that a total never goes back. What a
//! member does between its last reading and its end is lost.

use super::counter::Kind;
use super::counter::Owner;
use super::part::Built;
use super::part::Context;
use super::part::Formula;
use super::part::Row;
use super::part::Source;
use super::part::row;
use crate::workload::Scope;
use jostle_host::os::ParseError;
use jostle_host::os::proc;
use jostle_host::os::text;
use jostle_host::os::text::Text;
use jostle_host::sys::clock::monotonic_ns;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;

/// How often it is looked who belongs to the target.
const LOOK_NS: u64 = 1_000_000_000;
/// Looking may take this share of the time at most.
const LOOK_SHARE: u64 = 200;

/// Threads that are listed: more could not be read anyway.
const LISTED: usize = 128;

/// A kind of file: one per thread or per process, and what stands in it.
struct Spec {
    /// Below `/proc/PID/task/TID/` or `/proc/PID/`.
    file: &'static str,
    per_thread: bool,
    /// Files read per sample at most: 1 to 3 µs each.
    most: usize,
    source: &'static str,
    /// Name, unit, and the key of the line with the number; none for the second
    /// word of the file.
    rows: &'static [(&'static str, &'static str, &'static str)],
}

const SPECS: [Spec; 3] = [
    // Nanoseconds that it ran and waited, and how often it ran.
    Spec {
        file: "schedstat",
        per_thread: true,
        most: 32,
        source: "/proc/PID/task/*/schedstat",
        rows: &[("run-queue-delay", "ns/s", "")],
    },
    Spec {
        file: "status",
        per_thread: true,
        most: 6,
        source: "/proc/PID/task/*/status",
        rows: &[
            (
                "voluntary-switches",
                "switches/s",
                "voluntary_ctxt_switches",
            ),
            (
                "involuntary-switches",
                "switches/s",
                "nonvoluntary_ctxt_switches",
            ),
        ],
    },
    Spec {
        file: "io",
        per_thread: false,
        most: 16,
        source: "/proc/PID/io",
        rows: &[
            ("storage-read", "B/s", "read_bytes"),
            ("storage-written", "B/s", "write_bytes"),
            ("read", "B/s", "rchar"),
            ("written", "B/s", "wchar"),
            ("read-calls", "calls/s", "syscr"),
            ("write-calls", "calls/s", "syscw"),
        ],
    },
];

impl Spec {
    /// The numbers in `text`, one per row.
    fn parse(&self, text: &str, numbers: &mut [f64]) -> Result<(), ParseError> {
        for (number, (_, _, key)) in numbers.iter_mut().zip(self.rows) {
            *number = match (*key, text.split_ascii_whitespace().nth(1)) {
                ("", Some(word)) => text::count(word)?,
                ("", None) => return Err(ParseError::text(text, "has no second number")),
                (key, _) => text::keyed(text, key)?,
            };
        }
        Ok(())
    }
}

pub(super) fn files_of_tasks(context: &Context) -> Built {
    let mut tasks = Tasks::new(&context.options.root, context.scope.clone());
    let problems = tasks.look();
    let mut rows: Vec<Row> = Vec::new();
    for (spec, problem) in SPECS.iter().zip(problems) {
        for (name, unit, _) in spec.rows {
            let cell = rows.len();
            let line = row(*name, unit, Kind::Rate, Owner::Target, spec.source);
            rows.push(match &problem {
                Some(reason) => line.unavailable(reason.clone()),
                None => line.at(Formula::Rate { cell, scale: 1.0 }),
            });
        }
    }
    Built {
        cells: rows.len(),
        rows,
        source: Some(Box::new(tasks)),
        notes: Vec::new(),
    }
}

/// Sums over one kind of file.
struct Tally {
    spec: &'static Spec,
    /// By process and thread.
    members: BTreeMap<(i32, i32), (Text, Vec<f64>)>,
    totals: Vec<f64>,
    /// Members that are there and not read.
    beyond: usize,
}

impl Tally {
    fn new(spec: &'static Spec) -> Tally {
        Tally {
            spec,
            members: BTreeMap::new(),
            totals: vec![0.0; spec.rows.len()],
            beyond: 0,
        }
    }

    /// Takes over who is there now; what is new counts from here on, or from
    /// its beginning when `born` tells that it began since the last look. The
    /// reason why nothing at all can be read, if so.
    fn look(
        &mut self,
        root: &Path,
        ids: &BTreeSet<(i32, i32)>,
        born: &dyn Fn((i32, i32)) -> bool,
    ) -> Option<String> {
        self.read();
        self.members.retain(|id, _| ids.contains(id));
        self.beyond = 0;
        let mut problem = None;
        for &(pid, tid) in ids {
            if self.members.contains_key(&(pid, tid)) {
                continue;
            }
            if self.members.len() >= self.spec.most {
                self.beyond += 1;
                continue;
            }
            let path = match self.spec.per_thread {
                true => format!("proc/{pid}/task/{tid}/{}", self.spec.file),
                false => format!("proc/{pid}/{}", self.spec.file),
            };
            let mut last = vec![0.0; self.totals.len()];
            let opened = Text::open(root, &path).and_then(|mut text| {
                text.parse(|text| self.spec.parse(text, &mut last))?;
                Ok(text)
            });
            match opened {
                Ok(text) => {
                    if born((pid, tid)) {
                        last.fill(0.0);
                    }
                    self.members.insert((pid, tid), (text, last));
                }
                Err(reason) => problem = Some(reason.to_string()),
            }
        }
        match self.members.is_empty() {
            true => Some(problem.unwrap_or_else(|| "the target has no process".into())),
            false => None,
        }
    }

    fn read(&mut self) {
        let (spec, totals) = (self.spec, &mut self.totals);
        self.members.retain(|_, (text, last)| {
            let mut now = [0.0; 8];
            let now = &mut now[..last.len()];
            match text.parse(|text| spec.parse(text, now)) {
                Ok(()) => {
                    for ((total, now), last) in totals.iter_mut().zip(now).zip(last) {
                        *total += (*now - *last).max(0.0);
                        *last = *now;
                    }
                    true
                }
                // It has ended; what it counted stays.
                Err(_) => false,
            }
        });
    }
}

struct Tasks {
    root: PathBuf,
    scope: Option<Scope>,
    tallies: Vec<Tally>,
    next_look_ns: u64,
    /// Page faults of children that have ended, and whether they grew: the sign
    /// of processes that came and went between two looks.
    reaped: Option<u64>,
    passing: bool,
    /// Uptime at the last look, in ticks as processes' beginnings are given in.
    looked_at: f64,
}

impl Tasks {
    fn new(root: &Path, scope: Option<Scope>) -> Tasks {
        Tasks {
            root: root.into(),
            scope,
            tallies: SPECS.iter().map(Tally::new).collect(),
            next_look_ns: 0,
            reaped: None,
            passing: false,
            looked_at: f64::INFINITY,
        }
    }

    /// Looks who is there; a reason for each kind of file that nothing can be
    /// read of.
    fn look(&mut self) -> Vec<Option<String>> {
        let began = monotonic_ns();
        let before = self.looked_at;
        self.looked_at = proc::uptime_ticks(&self.root).unwrap_or(f64::INFINITY);
        let processes = self.scope.as_ref().map_or_else(Vec::new, Scope::processes);
        let stats = processes.iter().take(LISTED);
        let reaped = stats
            .filter_map(|&pid| proc::stat(&self.root, pid))
            .map(|stat| stat.faults_of_ended_children)
            .sum();
        self.passing |= self.reaped.is_some_and(|before| reaped > before);
        self.reaped = Some(reaped);
        let mut threads = BTreeSet::new();
        for &pid in &processes {
            let own = proc::threads(&self.root, pid).into_iter();
            threads.extend(own.map(|tid| (pid, tid)));
            if threads.len() > LISTED {
                break;
            }
        }
        let root = self.root.clone();
        let born = |(pid, tid): (i32, i32)| {
            let stat = proc::thread_stat(&root, pid, tid);
            stat.is_some_and(|stat| stat.start as f64 > before)
        };
        let processes: BTreeSet<(i32, i32)> = processes.iter().map(|&pid| (pid, pid)).collect();
        let problems = self
            .tallies
            .iter_mut()
            .map(|tally| match tally.spec.per_thread {
                true => tally.look(&root, &threads, &born),
                false => tally.look(&root, &processes, &born),
            })
            .collect();
        let now = monotonic_ns();
        self.next_look_ns = now + LOOK_NS.max((now - began) * LOOK_SHARE);
        problems
    }
}

impl Source for Tasks {
    fn sample(&mut self, cells: &mut [f64]) {
        match monotonic_ns() >= self.next_look_ns {
            true => {
                self.look();
            }
            false => self.tallies.iter_mut().for_each(Tally::read),
        }
        let totals = self.tallies.iter().flat_map(|tally| &tally.totals);
        for (cell, total) in cells.iter_mut().zip(totals) {
            *cell = *total;
        }
    }

    fn notes(&self) -> Vec<String> {
        let passing = self.passing.then(|| {
            "processes of the target that begin and end within a second are not in what is read \
             from /proc/PID; perf software counters and a cgroup's have them"
                .to_string()
        });
        let partial = self
            .tallies
            .iter()
            .filter(|tally| tally.beyond > 0)
            .map(|tally| {
                let names: Vec<&str> = tally.spec.rows.iter().map(|(name, _, _)| *name).collect();
                let all = tally.members.len() + tally.beyond;
                let (members, more) = match tally.spec.per_thread {
                    true if all > LISTED => ("threads", " or more"),
                    true => ("threads", ""),
                    false => ("processes", ""),
                };
                format!(
                    "{}: of {} of the target's {all}{more} {members}",
                    names.join(", "),
                    tally.members.len(),
                )
            });
        partial.chain(passing).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_host::os::fake::tree;
    use std::fs;

    fn ids(list: &[i32]) -> BTreeSet<(i32, i32)> {
        list.iter().map(|&id| (id, id)).collect()
    }

    fn io_file(read: u64) -> String {
        format!(
            "rchar: {read}\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
             cancelled_write_bytes: 0\n"
        )
    }

    #[test]
    fn totals_never_go_back_when_members_come_and_go() {
        let root = tree(&[("proc/7/io", &io_file(100)), ("proc/8/io", &io_file(1000))]);
        let old = |_| false;
        let mut tally = Tally::new(&SPECS[2]);
        assert_eq!(tally.look(root.path(), &ids(&[7, 8]), &old), None);
        assert_eq!(tally.totals[2], 0.0);
        fs::write(root.path().join("proc/8/io"), io_file(1500)).unwrap();
        tally.read();
        assert_eq!(tally.totals[2], 500.0);
        // It ends: its file cannot be read any more.
        fs::write(root.path().join("proc/8/io"), "").unwrap();
        tally.read();
        assert_eq!(tally.totals[2], 500.0);
        // One that was there before but is read only now counts from here.
        fs::create_dir_all(root.path().join("proc/9")).unwrap();
        fs::write(root.path().join("proc/9/io"), io_file(70_000)).unwrap();
        assert_eq!(tally.look(root.path(), &ids(&[7, 9]), &old), None);
        tally.read();
        assert_eq!(tally.totals[2], 500.0);
        // One that began since the last look counts whole.
        fs::create_dir_all(root.path().join("proc/10")).unwrap();
        fs::write(root.path().join("proc/10/io"), io_file(30)).unwrap();
        tally.look(root.path(), &ids(&[7, 9, 10]), &|(pid, _)| pid == 10);
        tally.read();
        assert_eq!(tally.totals[2], 530.0);
        // Everyone gone: no rate goes back.
        assert!(tally.look(root.path(), &ids(&[]), &old).is_some());
        assert_eq!(tally.totals[2], 530.0);
    }

    #[test]
    fn only_so_many_are_read_and_that_is_known() {
        let files: Vec<(String, String)> = (1..=40)
            .map(|pid| (format!("proc/{pid}/io"), io_file(1)))
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (&**a, &**b)).collect();
        let root = tree(&files);
        let mut tasks = Tasks::new(root.path(), None);
        let all: Vec<i32> = (1..=40).collect();
        tasks.tallies[2].look(root.path(), &ids(&all), &|_| false);
        let notes = tasks.notes();
        assert!(
            notes[0].contains("of 16 of the target's 40 processes"),
            "{notes:?}"
        );
    }

    #[test]
    fn malformed_and_missing_files_have_reasons() {
        let root = tree(&[
            ("proc/7/io", "rchar: many\n"),
            ("proc/9/task/9/schedstat", "5\n"),
        ]);
        let mut tally = Tally::new(&SPECS[2]);
        let why = tally.look(root.path(), &ids(&[7]), &|_| false).unwrap();
        assert!(why.contains("/proc/7/io"), "{why}");
        let why = tally.look(root.path(), &ids(&[8]), &|_| false).unwrap();
        assert!(why.contains("does not exist"), "{why}");
        let mut tally = Tally::new(&SPECS[0]);
        let why = tally.look(root.path(), &ids(&[9]), &|_| false).unwrap();
        assert!(why.contains("no second number"), "{why}");
    }

    #[test]
    fn each_file_is_understood() {
        let mut numbers = [0.0; 6];
        SPECS[0].parse("785173 109262 2\n", &mut numbers).unwrap();
        assert_eq!(numbers[0], 109_262.0);
        SPECS[2].parse(&io_file(9), &mut numbers).unwrap();
        assert_eq!(numbers, [5.0, 6.0, 9.0, 2.0, 3.0, 4.0]);
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        SPECS[1].parse(status, &mut numbers).unwrap();
        assert_eq!(numbers[..2], [150.0, 545.0]);
    }
}
