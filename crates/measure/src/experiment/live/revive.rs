//! Starting anew what was lost together with a worker's process.

use super::LiveExecutor;
use super::play::LATE;
use super::play::Planned;
use crate::experiment::executor::BlockRequest;
use jostle_host::inject::group::spawn_together;
use jostle_host::inject::process::Host;
use std::rc::Rc;

/// Processes of workers that are started anew when one ends.
const MOST_REVIVED: u32 = 3;

impl LiveExecutor<'_> {
    /// Starts anew what shared a process with a source whose end took it along.
    /// The subjects that are lost, and why.
    pub(super) fn revive(
        &mut self,
        blocks: &[BlockRequest],
        planned: &[Planned],
        hosts: &[Rc<Host>],
    ) -> Vec<(usize, String)> {
        let mut lost: Vec<(usize, String)> = Vec::new();
        for (index, host) in hosts.iter().enumerate() {
            let Err(gone) = host.check() else {
                continue;
            };
            // The one whose turn it was.
            let playing = host.tape.played();
            let now = (index, playing);
            let culprit = planned.iter().zip(blocks).find_map(|(planned, block)| {
                match (planned.on.contains(&now), planned.beside.contains(&now)) {
                    (true, _) => Some(block.subject),
                    (false, true) => block.beside,
                    (false, false) => None,
                }
            });
            lost.extend(culprit.map(|subject| (subject, gone.to_string())));
            lost.extend(self.start_others(host, culprit, &gone.to_string()));
        }
        lost
    }

    /// After a window of `subject` that failed: where its worker has ended, what shared
    /// the process is started anew, itself included where it was not `pressing`. Whether
    /// it is. The others that are lost fail when it is their turn.
    pub(super) fn revive_after(&mut self, subject: usize, pressing: bool) -> bool {
        let hosts = self.groups[subject].hosts();
        let hosts: Vec<Rc<Host>> = hosts.map(|(host, _)| host.clone()).collect();
        let mut again = false;
        for host in hosts {
            if let Err(gone) = host.check() {
                let culprit = pressing.then_some(subject);
                let lost = self.start_others(&host, culprit, &gone.to_string());
                again |= !pressing && lost.iter().all(|(lost, _)| *lost != subject);
            }
        }
        again
    }

    /// Starts everything but `culprit` anew that shared the ended process `host`. The
    /// subjects that are lost, and why.
    fn start_others(
        &mut self,
        host: &Rc<Host>,
        culprit: Option<usize>,
        gone: &str,
    ) -> Vec<(usize, String)> {
        let mut lost = Vec::new();
        let others: Vec<usize> = (0..self.groups.len())
            .filter(|subject| Some(*subject) != culprit)
            .filter(|subject| {
                let mut hosts = self.groups[*subject].hosts();
                hosts.any(|(known, _)| Rc::ptr_eq(known, host))
            })
            .collect();
        self.playing.revived += 1;
        if self.playing.revived > MOST_REVIVED {
            lost.extend(others.iter().map(|subject| (*subject, gone.to_string())));
            return lost;
        }
        let plans = others.iter();
        let plans = plans.map(|subject| (0, self.groups[*subject].plan.clone()));
        let started = spawn_together(plans.collect());
        for (subject, started) in others.into_iter().zip(started) {
            let ready = started.and_then(|mut group| {
                group.wait_ready(LATE)?;
                Ok(group)
            });
            match ready {
                Ok(group) => {
                    group.take_peaks_of(&self.groups[subject]);
                    self.groups[subject] = group;
                }
                Err(error) => lost.push((subject, error.to_string())),
            }
        }
        self.renew_brake();
        lost
    }
}
