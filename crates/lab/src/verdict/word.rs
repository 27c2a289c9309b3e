//! The words of a verdict.

use super::metric::Better;
use crate::report::number::change;
use std::fmt;

/// The verdict on one metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// B is A, as far as anyone cares.
    Same,
    /// The pairs do not say. `further` more probably would; `None`: more than
    /// anyone would run.
    Inconclusive {
        /// How many more pairs would probably settle it.
        further: Option<usize>,
    },
    /// No number would mean anything.
    Refused(Refusal),
}

/// Why there is no verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// A differs from its own copy.
    MachineCannotTell {
        /// By how much, in percent.
        percent: f64,
    },
    /// An arm ran so near to the load generator's own limit that the generator
    /// was measured as well.
    GeneratorIsTheLimit {
        /// The arm.
        arm: String,
        /// Its share of the null target's rate.
        share: f64,
    },
    /// Acknowledged writes were not there afterwards.
    DataLost {
        /// The arm.
        arm: String,
        /// How many of those that were looked for.
        writes: u64,
    },
    /// A value is missing, or a ratio with zero was asked for.
    NotMeasured,
}

impl Word {
    /// One or two words for a table.
    pub fn short(&self, better: Better) -> &'static str {
        let speed = better != Better::LessIsThriftier;
        match self {
            Word::Better if speed => "faster",
            Word::Better => "less",
            Word::Worse if speed => "slower",
            Word::Worse => "more",
            Word::Same => "same",
            Word::Inconclusive { .. } => "inconclusive",
            Word::Refused(_) => "refused",
        }
    }

    /// What to do next, where the short word leaves that open.
    pub fn remark(&self) -> Option<String> {
        match self {
            Word::Inconclusive { further: Some(1) } => {
                Some("about one more pair needed".to_owned())
            }
            Word::Inconclusive {
                further: Some(pairs),
            } => Some(format!("about {pairs} more pairs needed")),
            Word::Inconclusive { further: None } => {
                Some("too noisy: no sensible number of pairs would settle it".to_owned())
            }
            Word::Refused(refusal) => Some(refusal.to_string()),
            Word::Better | Word::Worse | Word::Same => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::MachineCannotTell { percent } => write!(
                f,
                "this machine cannot tell now: A differs from its own copy by {}",
                change(*percent)
            ),
            Refusal::GeneratorIsTheLimit { arm, share } => write!(
                f,
                "{arm} ran at {:.0} % of what the load generator can do at all; above 50 % \
                 the generator is measured, too",
                share * 100.0
            ),
            Refusal::DataLost { arm, writes } => write!(
                f,
                "{arm} lost {writes} acknowledged writes: what it does quickly is not its work"
            ),
            Refusal::NotMeasured => f.write_str("not measured, or zero on one side"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_less_or_more_and_not_faster() {
        assert_eq!(Word::Better.short(Better::LessIsThriftier), "less");
        assert_eq!(Word::Worse.short(Better::LessIsFaster), "slower");
    }

    #[test]
    fn open_words_say_what_to_do() {
        let word = Word::Inconclusive { further: Some(7) };
        assert_eq!(word.remark().unwrap(), "about 7 more pairs needed");
        assert_eq!(Word::Same.remark(), None);
    }
}
