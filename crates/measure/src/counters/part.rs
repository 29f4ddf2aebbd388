//! One source of readings: what it offers, how its raw numbers (cells) are
//! taken, and how a reading follows from two takings.

use super::budget::Budget;
use super::counter::Counter;
use super::counter::CounterOptions;
use super::counter::Kind;
use super::counter::Owner;
use super::error::Error;
use super::probe::Probes;
use super::target_cgroup::TargetCgroup;
use super::watched::PerfTargets;
use crate::workload::Scope;
use jostle_host::os;
use std::cell::RefCell;

/// Takes the raw numbers of one moment.
pub(super) trait Source {
    /// Fills `cells`, which are [`f64::NAN`] before; what cannot be read stays.
    fn sample(&mut self, cells: &mut [f64]);

    /// Whether what it covers has changed; asked now and then.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How a reading follows from the cells of two samples, numbered within the
/// part.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Formula {
    /// Growth per second, times `scale`.
    Rate { cell: usize, scale: f64 },
    /// As [`Formula::Rate`], of a share that the kernel's coarse clock may show
    /// above 100 %, where it ends.
    Percent { cell: usize, scale: f64 },
    /// The value at the end, times `scale`.
    Level { cell: usize, scale: f64 },
    /// Growth of one over growth of another, times `scale`.
    Ratio {
        over: usize,
        under: usize,
        scale: f64,
    },
    /// As [`Formula::Ratio`], times the growth per second of a third over that
    /// of a fourth: `a/b * c/d`.
    Product {
        over: [usize; 2],
        under: [usize; 2],
        scale: f64,
    },
}

/// Where the times stand that a group of perf events was enabled and running.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    pub enabled: usize,
    pub running: usize,
}

/// One line of the list and its formula.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub counter: Counter,
    pub formula: Option<Formula>,
    pub times: Option<Times>,
}

impl Row {
    pub fn unavailable(mut self, reason: impl ToString) -> Row {
        self.counter.unavailable = Some(reason.to_string());
        self.formula = None;
        self.times = None;
        self
    }

    /// What its kind makes of a cell, or the reason why that cannot be read.
    pub fn of_cell<T>(self, cell: usize, scale: f64, opened: &Result<T, os::Error>) -> Row {
        let formula = match self.counter.kind {
            Kind::Rate => Formula::Rate { cell, scale },
            Kind::Level => Formula::Level { cell, scale },
            Kind::Ratio => Formula::Percent { cell, scale },
        };
        match opened {
            Ok(_) => self.at(formula),
            Err(reason) => self.unavailable(reason),
        }
    }

    /// What a group of events makes of it, or the reason why none counts.
    pub fn counted(
        self,
        times: Result<Times, Error>,
        formula: impl FnOnce(Times) -> Formula,
    ) -> Row {
        match times {
            Ok(times) => Row {
                times: Some(times),
                ..self.at(formula(times))
            },
            Err(reason) => self.unavailable(reason),
        }
    }

    pub fn at(mut self, formula: Formula) -> Row {
        self.formula = Some(formula);
        self
    }
}

/// A counter of this name, without a reading so far.
pub(super) fn row(
    name: impl Into<String>,
    unit: &'static str,
    kind: Kind,
    owner: Owner,
    source: &'static str,
) -> Row {
    Row {
        counter: Counter {
            name: name.into(),
            unit,
            kind,
            owner,
            source,
            unavailable: None,
        },
        formula: None,
        times: None,
    }
}

/// What a part offers, opened.
#[derive(Default)]
pub(super) struct Built {
    pub rows: Vec<Row>,
    pub source: Option<Box<dyn Source>>,
    pub cells: usize,
    pub notes: Vec<String>,
}

impl Built {
    /// Every row with the same reason and no source.
    pub fn unavailable(rows: Vec<Row>, reason: impl ToString) -> Built {
        let reason = reason.to_string();
        let rows = rows.into_iter().map(|row| row.unavailable(&reason));
        Built {
            rows: rows.collect(),
            ..Built::default()
        }
    }
}

/// What a part is opened with.
pub(super) struct Context {
    pub options: CounterOptions,
    /// The target's, or all that may be used.
    pub cpus: Vec<usize>,
    /// `None`: the machine as a whole.
    pub scope: Option<Scope>,
    pub probes: RefCell<Probes>,
    pub budget: RefCell<Budget>,
    /// On whom perf events are opened.
    pub watched: Result<PerfTargets, Error>,
    pub cgroup: TargetCgroup,
}

impl Context {
    /// Whose doing perf events are that are opened on everyone watched.
    pub fn owner(&self) -> Owner {
        match self.scope {
            Some(_) => Owner::Target,
            None => Owner::Machine,
        }
    }
}

/// A function that opens a part. It always offers the same rows for the same
/// options, available or not.
pub(super) type Open = fn(&Context) -> Built;

/// The reading of `row` from the cells of two samples of its part, `seconds`
/// apart.
pub(super) fn evaluate(row: &Row, from: &[f64], to: &[f64], seconds: f64) -> Option<f64> {
    let growth = |cell: usize| {
        let growth = to.get(cell)? - from.get(cell)?;
        // A count that went back was started anew meanwhile: nobody knows what
        // it had reached.
        (growth.is_finite() && growth >= 0.0).then_some(growth)
    };
    let quotient = |over: usize, under: usize| {
        let under = growth(under)?;
        (under > 0.0).then(|| growth(over).map(|over| over / under))?
    };
    if let Some(times) = row.times
        && growth(times.enabled)? > 0.0
        && growth(times.running)? == 0.0
    {
        return None;
    }
    let value = match *row.formula.as_ref()? {
        Formula::Rate { cell, scale } => (seconds > 0.0).then(|| growth(cell))?? * scale / seconds,
        Formula::Percent { cell, scale } => {
            ((seconds > 0.0).then(|| growth(cell))?? * scale / seconds).min(100.0)
        }
        Formula::Level { cell, scale } => to.get(cell)? * scale,
        Formula::Ratio { over, under, scale } => quotient(over, under)? * scale,
        Formula::Product { over, under, scale } => {
            quotient(over[0], under[0])? * quotient(over[1], under[1])? * scale
        }
    };
    value.is_finite().then_some(value)
}

/// Share of the time between two samples in which the events of `row` were
/// counting; see [`super::Counters::running_shares`].
pub(super) fn running_share(row: &Row, from: &[f64], to: &[f64]) -> Option<f64> {
    let times = row.times?;
    let growth = |cell: usize| Some(to.get(cell)? - from.get(cell)?);
    let enabled = growth(times.enabled)?;
    (enabled > 0.0).then(|| growth(times.running).map(|running| running / enabled))?
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::path::Path;

    /// A context below a made-up root.
    pub fn context(root: &Path, scope: Option<Scope>) -> Context {
        Context {
            cgroup: TargetCgroup::find(root, scope.as_ref()),
            options: CounterOptions {
                root: root.into(),
                events: Vec::new(),
            },
            cpus: vec![0],
            scope,
            probes: RefCell::default(),
            budget: RefCell::new(Budget::of_process()),
            watched: Err(Error::NoTarget),
        }
    }

    fn line(kind: Kind, formula: Formula) -> Row {
        row("x", "", kind, Owner::Target, "test").at(formula)
    }

    #[test]
    fn rates_never_go_back() {
        let rate = line(
            Kind::Rate,
            Formula::Rate {
                cell: 0,
                scale: 2.0,
            },
        );
        assert_eq!(evaluate(&rate, &[10.0], &[30.0], 2.0), Some(20.0));
        assert_eq!(evaluate(&rate, &[10.0], &[10.0], 2.0), Some(0.0));
        assert_eq!(evaluate(&rate, &[30.0], &[10.0], 2.0), None);
        assert_eq!(evaluate(&rate, &[f64::NAN], &[10.0], 2.0), None);
        assert_eq!(evaluate(&rate, &[1.0], &[2.0], 0.0), None);
        assert_eq!(evaluate(&rate, &[], &[], 1.0), None);
    }

    #[test]
    fn ratios_need_what_they_divide_by() {
        let ratio = line(
            Kind::Ratio,
            Formula::Ratio {
                over: 0,
                under: 1,
                scale: 100.0,
            },
        );
        assert_eq!(evaluate(&ratio, &[0.0, 0.0], &[1.0, 4.0], 1.0), Some(25.0));
        assert_eq!(evaluate(&ratio, &[0.0, 4.0], &[1.0, 4.0], 1.0), None);
    }

    #[test]
    fn what_never_ran_has_no_reading() {
        let mut rate = line(
            Kind::Rate,
            Formula::Rate {
                cell: 2,
                scale: 1.0,
            },
        );
        rate.times = Some(Times {
            enabled: 0,
            running: 1,
        });
        let from = [0.0, 0.0, 5.0];
        assert_eq!(evaluate(&rate, &from, &[8.0, 0.0, 5.0], 1.0), None);
        assert_eq!(evaluate(&rate, &from, &[8.0, 2.0, 9.0], 1.0), Some(4.0));
        assert_eq!(running_share(&rate, &from, &[8.0, 2.0, 9.0]), Some(0.25));
        // A target that slept did nothing, which is known.
        assert_eq!(evaluate(&rate, &from, &[0.0, 0.0, 5.0], 1.0), Some(0.0));
        assert_eq!(running_share(&rate, &from, &from), None);
    }
}
