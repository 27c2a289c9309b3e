//! Conclusions of verdicts, and their words in reports.

use super::judge::effect_min;
use super::metric::Better;
use crate::report::number::change;
use crate::statistics::further_pairs;
use crate::statistics::log_ratio::{LogRatio, percent};

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
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A differs from its own copy.
    #[error("this machine cannot tell now: A differs from its own copy by {}", change(*percent))]
    MachineCannotTell {
        /// Difference of the copy to A, in percent.
        percent: f64,
    },
    /// An arm ran so near to the load generator's own limit that the generator influenced
    /// the result.
    #[error(
        "{arm} ran at {:.0} % of what the load generator can do at all; above 50 % the generator \
         is measured, too",
        share * 100.0
    )]
    GeneratorIsTheLimit {
        arm: String,
        /// Share of the generator's own limit.
        share: f64,
    },
    /// Acknowledged writes were missing afterwards.
    #[error("{arm} lost {writes} acknowledged writes: what it does quickly is not its work")]
    DataLost {
        arm: String,
        /// Number of missing writes among those that were verified.
        writes: u64,
    },
    /// A value is missing, or one side is zero.
    #[error("not measured, or zero on one side")]
    NotMeasured,
}

impl Conclusion {
    /// The conclusion on an effect outside of which A and its copy show `band`; without
    /// certainty there is no difference.
    pub fn on(effect: &LogRatio, is_certain: bool, band: f64) -> Conclusion {
        let effect_min = effect_min();
        let size = effect.middle.abs();
        match effect.middle > 0.0 {
            is_better if is_certain && size > band && size >= effect_min => match is_better {
                true => Conclusion::Better,
                false => Conclusion::Worse,
            },
            _ if effect.within(effect_min) => Conclusion::Same,
            _ => Conclusion::Inconclusive {
                further: further_pairs(effect, effect_min),
            },
        }
    }

    /// A refusal where A differs from its own copy.
    pub fn refused_by(control: &LogRatio) -> Option<Conclusion> {
        let differs = control.excludes_equal() && control.middle.abs() >= effect_min();
        differs.then(|| {
            let percent = percent(control.middle);
            Conclusion::Refused(Refusal::MachineCannotTell { percent })
        })
    }

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
        let further = match self {
            Conclusion::Inconclusive { further } => further,
            Conclusion::Refused(refusal) => return Some(refusal.to_string()),
            Conclusion::Better | Conclusion::Worse | Conclusion::Same => return None,
        };
        Some(match further {
            Some(1) => "about one more pair needed".to_owned(),
            Some(pairs) => format!("about {pairs} more pairs needed"),
            None => "too noisy: no sensible number of pairs would settle it".to_owned(),
        })
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
