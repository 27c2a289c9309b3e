//! Conclusions of verdicts, and their words in reports.

use super::metric::Better;
use crate::report::number::change;
use std::fmt;

/// Conclusion on one metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Conclusion {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// B differs from A by less than the minimum effect.
    Same,
    /// The pairs do not decide.
    Inconclusive {
        /// Number of further pairs that would probably decide; `None` if it is too large to
        /// be sensible.
        further: Option<usize>,
    },
    /// The numbers are not valid.
    Refused(Refusal),
}

/// Reason why there is no verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// A differs from its own copy.
    MachineCannotTell {
        /// Difference of the copy to A, in percent.
        percent: f64,
    },
    /// An arm ran so near to the load generator's own limit that the generator influenced
    /// the result.
    GeneratorIsTheLimit {
        arm: String,
        /// Share of the generator's own limit.
        share: f64,
    },
    /// Acknowledged writes were missing afterwards.
    DataLost {
        arm: String,
        /// Number of missing writes among those that were verified.
        writes: u64,
    },
    /// A value is missing, or one side is zero.
    NotMeasured,
}

impl Conclusion {
    /// The conclusion in one word for a table.
    pub fn short(&self, better: Better) -> &'static str {
        let speed = better != Better::LessIsThriftier;
        match self {
            Conclusion::Better if speed => "faster",
            Conclusion::Better => "less",
            Conclusion::Worse if speed => "slower",
            Conclusion::Worse => "more",
            Conclusion::Same => "same",
            Conclusion::Inconclusive { .. } => "inconclusive",
            Conclusion::Refused(_) => "refused",
        }
    }

    /// Style class of the conclusion's colour in the page.
    pub fn tone(&self) -> &'static str {
        match self {
            Conclusion::Better => "better",
            Conclusion::Worse => "worse",
            Conclusion::Same => "same",
            Conclusion::Inconclusive { .. } => "open",
            Conclusion::Refused(_) => "refused",
        }
    }

    /// The next step, or the reason for a refusal; `None` where the conclusion is clear.
    pub fn remark(&self) -> Option<String> {
        match self {
            Conclusion::Inconclusive { further: Some(1) } => {
                Some("about one more pair needed".to_owned())
            }
            Conclusion::Inconclusive {
                further: Some(pairs),
            } => Some(format!("about {pairs} more pairs needed")),
            Conclusion::Inconclusive { further: None } => {
                Some("too noisy: no sensible number of pairs would settle it".to_owned())
            }
            Conclusion::Refused(refusal) => Some(refusal.to_string()),
            Conclusion::Better | Conclusion::Worse | Conclusion::Same => None,
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
    fn costs_are_called_less_or_more_and_not_faster() {
        assert_eq!(Conclusion::Better.short(Better::LessIsThriftier), "less");
        assert_eq!(Conclusion::Worse.short(Better::LessIsFaster), "slower");
    }

    #[test]
    fn an_inconclusive_result_says_how_many_pairs_are_needed() {
        let conclusion = Conclusion::Inconclusive { further: Some(7) };
        assert_eq!(conclusion.remark().unwrap(), "about 7 more pairs needed");
        assert_eq!(Conclusion::Same.remark(), None);
    }
}
