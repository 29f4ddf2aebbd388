//! How many descriptors the counters may take: a machine must not run out of
//! them for being looked at.

use super::error::Error;
use nix::sys::resource::Resource;
use nix::sys::resource::getrlimit;
use nix::sys::resource::setrlimit;

/// Left for everything else that this process opens.
const RESERVE: usize = 256;
/// Groups read per sample at most: beyond it looking would cost more than it
/// tells.
const MAX_GROUPS: usize = 256;

/// Of the first part, without which there would be nothing, this many.
const MAX_FIRST: usize = 1024;

/// Descriptors and reads that are still to be had.
pub(super) struct Budget {
    used: usize,
    groups: usize,
    limit: usize,
    hard: usize,
}

impl Budget {
    pub fn of_process() -> Budget {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        let open = std::fs::read_dir("/proc/self/fd").map_or(64, |entries| entries.count());
        Budget {
            used: open + RESERVE,
            groups: 0,
            limit: soft.min(1 << 20) as usize,
            hard: hard.min(1 << 20) as usize,
        }
    }

    /// Whether what is open already may not be opened a second time.
    pub fn is_tight(&self) -> bool {
        2 * self.used > self.limit
    }

    /// Takes `descriptors` for `groups` groups. The soft limit of the process
    /// is raised only when it stands in the way, since what is started later
    /// inherits it.
    pub fn take(&mut self, groups: usize, descriptors: usize) -> Result<(), Error> {
        let most = match self.groups {
            0 => MAX_FIRST,
            _ => MAX_GROUPS,
        };
        if self.groups + groups > most {
            return Err(Error::TooManyReads {
                threads: groups,
                reads: self.groups + groups,
                most,
            });
        }
        let needed = self.used + descriptors;
        if needed > self.limit && needed <= self.hard {
            self.limit = self.raised();
        }
        if needed > self.limit {
            return Err(Error::TooManyFiles {
                needed: descriptors,
                limit: self.limit,
            });
        }
        self.used = needed;
        self.groups += groups;
        Ok(())
    }

    fn raised(&self) -> usize {
        let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
            return self.limit;
        };
        match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
            Ok(()) => self.hard,
            Err(_) => self.limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_has_a_reason() {
        let mut budget = Budget {
            used: 10,
            groups: 0,
            limit: 100,
            hard: 100,
        };
        assert!(!budget.is_tight());
        budget.take(10, 41).unwrap();
        assert!(budget.is_tight());
        assert!(
            budget
                .take(1, 50)
                .unwrap_err()
                .to_string()
                .contains("ulimit -Hn")
        );
        assert!(
            budget
                .take(250, 1)
                .unwrap_err()
                .to_string()
                .contains("--cgroup")
        );
        // The first gets its turn, however many threads it has.
        budget.groups = 0;
        assert!(budget.take(1025, 50).is_err());
        budget.take(1000, 49).unwrap();
    }
}
