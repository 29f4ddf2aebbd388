//! Who is never paused, and why.

use crate::workload::Scope;
use crate::workload::cgroup;
use crate::workload::tree;
use crate::workload::tree::Stat;
use jostle_host::os::connections;
use jostle_host::os::here;
use jostle_host::sys::unix_peers::unix_peers;
use std::collections::HashMap;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Names, or beginnings of them, of what keeps a machine going and reachable.
const NAMES: [&str; 31] = [
    "init",
    "systemd",
    "dbus-",
    "kubelet",
    "kube-proxy",
    "containerd",
    "dockerd",
    "docker-proxy",
    "crio",
    "conmon",
    "podman",
    "runc",
    "crun",
    "buildkitd",
    "slurmd",
    "slurmstepd",
    "sshd",
    "udevd",
    "login",
    "agetty",
    "getty",
    "polkitd",
    "rsyslogd",
    "auditd",
    "chronyd",
    "ntpd",
    "NetworkManager",
    "wpa_supplicant",
    "dhclient",
    "multipathd",
    "jostle",
];

/// What the user protects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protect {
    /// Names of processes.
    pub names: Vec<String>,
    pub processes: Vec<i32>,
    pub cgroups: Vec<PathBuf>,
}

/// All processes of the machine at one moment, and which of them may be paused.
pub(super) struct Protected {
    stats: HashMap<i32, Stat>,
    names: HashMap<i32, String>,
    reasons: HashMap<i32, String>,
    /// Ancestors of somebody who may not be paused.
    above: HashSet<i32>,
    /// Why the victim's connections cannot be followed, if they cannot.
    pub(super) blind: Option<String>,
}

impl Protected {
    pub(super) fn of(victim: &Scope, protect: &Protect) -> Protected {
        let all = tree::processes();
        let stats: HashMap<i32, Stat> = all
            .iter()
            .filter_map(|pid| Some((*pid, tree::stat(*pid)?)))
            .collect();
        let names = all.iter().map(|pid| (*pid, name_of(*pid)));
        let mut found = Protected {
            names: names.collect(),
            stats,
            reasons: HashMap::new(),
            above: HashSet::new(),
            blind: None,
        };
        found.forbid(victim, protect);
        found
    }

    fn forbid(&mut self, victim: &Scope, protect: &Protect) {
        let own = victim.processes();
        for pid in &own {
            self.refuse(*pid, "it is the victim");
        }
        let peers = match unix_peers() {
            Ok(peers) => peers,
            Err(error) => {
                self.blind = Some(format!("the other ends of Unix sockets: {error}"));
                HashMap::new()
            }
        };
        let all: Vec<i32> = self.stats.keys().copied().collect();
        for (pid, how) in connections::peers(here(), &own, &all, &peers) {
            self.refuse(
                pid,
                &format!("the victim depends on it: {how} connects them"),
            );
        }
        for pid in &own {
            for above in self.ancestors(*pid) {
                self.refuse(above, "the victim descends from it");
            }
        }
        let us = tree::self_and_ancestors();
        let below = tree::descendants(std::process::id() as i32);
        for pid in us.iter().chain(&below) {
            self.refuse(*pid, "it is jostle itself or what jostle was started from");
        }
        for directory in &protect.cgroups {
            for pid in cgroup::processes(directory).unwrap_or_default() {
                self.refuse(pid, "--protect names its cgroup");
            }
        }
        for pid in &protect.processes {
            for pid in tree::with_descendants(&[*pid]) {
                self.refuse(pid, "--protect names it");
            }
        }
        let me = nix::unistd::geteuid();
        for pid in all {
            let stat = self.stats[&pid];
            let name = self.name(pid);
            if pid <= 2 || stat.is_kernel_thread() {
                self.refuse(pid, "it is init or a kernel thread");
            } else if let Some(known) = NAMES.iter().find(|known| is_named(&name, known))
                && !is_demo(pid, &name)
            {
                let known = known.trim_end_matches('-');
                self.refuse(pid, &format!("the machine needs it ({known})"));
            } else if protect.names.contains(&name) {
                self.refuse(pid, "--protect names it");
            } else if stat.stopped() {
                self.refuse(pid, "it was stopped before");
            } else if !me.is_root() && owner(pid).is_some_and(|owner| owner != me.as_raw()) {
                self.refuse(pid, "it belongs to somebody else; run jostle as root");
            }
        }
        let refused: Vec<i32> = self.reasons.keys().copied().collect();
        for pid in refused {
            for above in self.ancestors(pid) {
                self.above.insert(above);
            }
        }
    }

    /// The first reason stays.
    fn refuse(&mut self, pid: i32, reason: &str) {
        self.reasons.entry(pid).or_insert_with(|| reason.into());
    }

    fn ancestors(&self, pid: i32) -> Vec<i32> {
        let mut found = Vec::new();
        let mut at = pid;
        while let Some(stat) = self.stats.get(&at)
            && stat.parent > 0
            && !found.contains(&stat.parent)
        {
            at = stat.parent;
            found.push(at);
        }
        found
    }

    /// Why a process may not be paused.
    pub(super) fn reason(&self, pid: i32) -> Option<&str> {
        self.reasons.get(&pid).map(String::as_str)
    }

    /// Whether a process and all that descends from it may be paused.
    pub(super) fn may_pause_tree(&self, pid: i32) -> bool {
        self.stats.contains_key(&pid)
            && !self.reasons.contains_key(&pid)
            && !self.above.contains(&pid)
    }

    pub(super) fn name(&self, pid: i32) -> String {
        self.names.get(&pid).cloned().unwrap_or_default()
    }

    pub(super) fn stat(&self, pid: i32) -> Option<&Stat> {
        self.stats.get(&pid)
    }

    pub(super) fn processes(&self) -> Vec<i32> {
        let mut all: Vec<i32> = self.stats.keys().copied().collect();
        all.sort_unstable();
        all
    }
}

fn is_named(name: &str, known: &str) -> bool {
    match known {
        // Families: `systemd-journald`, `containerd-shim-runc-v2`.
        "systemd" | "containerd" | "dbus-" | "sshd" => name.starts_with(known),
        _ => name == known,
    }
}

/// Whether it is one of our own demos, which nobody needs.
fn is_demo(pid: i32, name: &str) -> bool {
    name == "jostle"
        && tree::command_line(pid)
            .get(1)
            .is_some_and(|word| word == "demo")
}

fn owner(pid: i32) -> Option<u32> {
    Some(std::fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

/// As the kernel shows it, printable.
pub fn name_of(pid: i32) -> String {
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    crate::workload::printable(&name).trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Child;
    use std::process::Command;
    use std::process::Stdio;

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Children of ours are what jostle started, so this is a child of a shell that has ended.
    fn unrelated_process() -> i32 {
        let script = "sleep 60 >/dev/null 2>&1 & echo $!";
        let mut command = Command::new("sh");
        let output = command.args(["-c", script]).output().unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }

    fn end(pid: i32) {
        let pid = nix::unistd::Pid::from_raw(pid);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
    }

    #[test]
    fn those_who_keep_the_machine_going_are_left_alone() {
        let mut victim = sleeper();
        let scope = Scope::Processes(vec![victim.id() as i32]);
        let other = unrelated_process();
        let free = Protected::of(&scope, &Protect::default());
        let by_pid = Protect {
            processes: vec![other],
            ..Protect::default()
        };
        let by_name = Protect {
            names: vec!["sleep".into()],
            ..Protect::default()
        };
        let guarded = [by_pid, by_name].map(|protect| Protected::of(&scope, &protect));
        victim.kill().unwrap();
        victim.wait().unwrap();
        end(other);
        assert_eq!(free.reason(other), None);
        assert!(free.may_pause_tree(other));
        assert_eq!(free.name(other), "sleep");
        for guarded in guarded {
            assert_eq!(guarded.reason(other), Some("--protect names it"));
            assert!(!guarded.may_pause_tree(other));
        }
        let reason = |pid| free.reason(pid).unwrap().to_string();
        assert!(reason(victim.id() as i32).contains("victim"));
        assert!(
            reason(std::process::id() as i32).contains("descends")
                || reason(std::process::id() as i32).contains("jostle")
        );
        assert!(!free.may_pause_tree(1));
    }

    #[test]
    fn families_of_names_and_single_ones() {
        assert!(is_named("containerd-shim", "containerd"));
        assert!(is_named("sshd-session", "sshd"));
        assert!(is_named("runc", "runc") && !is_named("runcible", "runc"));
        assert!(!is_named("initiator", "init"));
    }
}
