//! Faults and repairs.

use super::Engine;
use super::Event;
use crate::workload::Fault;
use jostle_schedule::Part;

impl Engine<'_> {
    pub(super) fn fault(&mut self) {
        let (_, fault) = self.workload.faults[self.next_fault];
        self.next_fault += 1;
        self.without_progress = 0;
        match fault {
            Fault::Node { node, seconds } => {
                self.down[node as usize] += 1;
                self.repair_after(seconds, Event::NodeRepaired(node));
                if self.down[node as usize] == 1 {
                    let id = self.world.ids()[node as usize];
                    let gone = self.world.take_down(id, self.now);
                    self.evicted(node as usize, &gone);
                    self.clear_queue(id);
                }
            }
            Fault::Cpu { node, seconds } => {
                let id = self.world.ids()[node as usize];
                if self.broken[node as usize] < self.world.cluster().node(id).cpus {
                    self.broken[node as usize] += 1;
                    self.repair_after(seconds, Event::CpuRepaired(node));
                    let gone = self.world.break_cpu(id, self.now);
                    self.evicted(node as usize, &gone);
                }
            }
        }
        self.count_cpus();
    }

    fn repair_after(&mut self, seconds: f64, event: Event) {
        if seconds.is_finite() {
            self.repairs_to_come += 1;
            self.events.note(self.now + seconds, event);
        }
    }

    /// Who ran there begins anew elsewhere, and who decides learns of it.
    fn evicted(&mut self, node: usize, gone: &[(u32, Vec<Part>)]) {
        for (job, _) in gone {
            self.running -= 1;
            self.waiting += 1;
            self.outcome.restarts += 1;
            self.jobs[*job as usize].restarts += 1;
        }
        for (job, parts) in gone {
            self.has_left(*job, parts);
            self.ask_for_place(*job);
        }
        self.node_changed(node);
    }

    /// One scheduler sees it at once; several when their copies are brought up
    /// to date.
    fn node_changed(&mut self, node: usize) {
        let id = self.world.ids()[node];
        if let [only] = &mut self.agents[..] {
            only.update_view(&[id], self.world.cluster(), self.now);
            only.cluster_changed(self.now);
        }
    }

    pub(super) fn node_repaired(&mut self, node: usize) {
        self.repairs_to_come -= 1;
        self.down[node] -= 1;
        if self.down[node] == 0 {
            let id = self.world.ids()[node];
            self.world.bring_up(id);
            for _ in 0..self.broken[node] {
                self.world.break_cpu(id, self.now);
            }
            self.is_back(node);
        }
    }

    pub(super) fn cpu_repaired(&mut self, node: usize) {
        self.repairs_to_come -= 1;
        self.broken[node] -= 1;
        self.world.repair_cpu(self.world.ids()[node]);
        self.is_back(node);
    }

    fn is_back(&mut self, node: usize) {
        self.without_progress = 0;
        self.count_cpus();
        self.start_queued(self.world.ids()[node]);
        self.node_changed(node);
    }

    fn count_cpus(&mut self) {
        let up = self.world.cluster().summaries().iter().filter(|row| row.up);
        self.cpus_up = up.map(|row| u64::from(row.cpus)).sum();
    }
}
