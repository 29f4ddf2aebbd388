//! The counters beside a measurement: which run of the target they follow, and
//! how much of the time they were really counting.

use crate::counters::Counters;
use crate::counters::Owner;
use crate::counters::Sample;
use crate::warning::Warning;
use crate::workload::Scope;
use jostle_profile::CounterFacts;
use jostle_profile::reading::Reading;

pub(super) struct Counting {
    counters: Counters,
    scope: Scope,
    /// Per counter the smallest running share seen.
    running: Vec<Option<f64>>,
    /// Counters that could be read in some run of the target: one that ended too
    /// soon takes nothing back.
    could_be_read: Vec<bool>,
}

impl Counting {
    /// `scope` is what `counters` was opened for.
    pub(super) fn new(counters: Counters, scope: Scope) -> Self {
        let running = vec![None; counters.list().len()];
        let could_be_read = vec![false; counters.list().len()];
        let mut counting = Counting {
            counters,
            scope,
            running,
            could_be_read,
        };
        counting.note_what_can_be_read();
        counting
    }

    /// The counters, in the order of a window's readings.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let list = self.counters.list().iter();
        list.map(|counter| counter.name.as_str())
    }

    fn note_what_can_be_read(&mut self) {
        let list = self.counters.list().iter();
        for (could, counter) in self.could_be_read.iter_mut().zip(list) {
            *could |= counter.unavailable.is_none();
        }
    }

    /// The beginning of a window; another run of the target is followed.
    pub(super) fn begin(&mut self, scope: Scope) -> Sample {
        if scope != self.scope {
            self.counters.follow(&scope);
            self.scope = scope;
            self.note_what_can_be_read();
        }
        self.counters.sample()
    }

    /// What happened since.
    pub(super) fn end(&mut self, from: &Sample) -> Vec<Option<f64>> {
        let to = self.counters.sample();
        let shares = self.counters.running_shares(from, &to);
        for (least, share) in self.running.iter_mut().zip(shares) {
            *least = match (*least, share) {
                (Some(least), Some(share)) => Some(least.min(share)),
                (known, share) => share.or(known),
            };
        }
        self.counters.readings(from, &to)
    }

    /// What a reader must know of the readings.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        let notes = self.counters.notes();
        notes
            .iter()
            .map(|note| Warning::Counters {
                note: note.to_string(),
            })
            .collect()
    }

    pub(super) fn facts(&self) -> Vec<(String, Reading<CounterFacts>)> {
        let all = self.counters.list().iter().zip(&self.running);
        let all = all.zip(&self.could_be_read);
        all.map(|((counter, running), could_be_read)| {
            let facts = match &counter.unavailable {
                Some(reason) if !could_be_read => Reading::unavailable(reason),
                _ => Reading::Value(CounterFacts {
                    unit: counter.unit.to_string(),
                    owner: match counter.owner {
                        Owner::Target => "target",
                        Owner::Cpus => "cpus",
                        Owner::Machine => "machine",
                    }
                    .to_string(),
                    source: counter.source.to_string(),
                    running_share: running.filter(|share| *share < 1.0),
                }),
            };
            (counter.name.clone(), facts)
        })
        .collect()
    }
}
