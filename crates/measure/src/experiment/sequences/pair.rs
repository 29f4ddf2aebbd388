//! Blocks in which two sources press at once.

use super::SequenceLog;
use crate::experiment::executor::Arm;
use crate::experiment::executor::Sequence;
use jostle_statistics::Contrasts;

impl SequenceLog {
    /// A log of `one` alone in this sequence, in blocks that are long enough for the
    /// sources of `other` as well.
    pub(in crate::experiment) fn for_two(&self, other: &SequenceLog, one: usize) -> SequenceLog {
        let period = self.sequence.period.as_secs_f64();
        let periods =
            |of: u32| (other.sequence.period.as_secs_f64() * f64::from(of) / period).ceil();
        let read = self.sequence.read.max(periods(other.sequence.read) as u32);
        let skip = self.skip.max(periods(other.skip) as u32);
        SequenceLog {
            members: vec![one],
            gauges: Vec::new(),
            arms: vec![(one, self.zero().1)],
            ..self.anew(Sequence {
                skip,
                read,
                ..self.sequence
            })
        }
    }

    /// The number of an arm in [`Self::against_control`]; `None` before its first
    /// block.
    pub(in crate::experiment) fn arm_of(&self, subject: usize, arm: Arm) -> Option<usize> {
        self.arms.iter().position(|of| *of == (subject, arm))
    }

    /// What all blocks so far say against the control of their time.
    pub(in crate::experiment) fn against_control(&self) -> Contrasts {
        self.contrasts().1
    }
}
