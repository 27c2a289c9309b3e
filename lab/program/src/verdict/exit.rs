//! Exit codes.

use super::conclusion::{Conclusion, Refusal};
use super::judge::Verdict;

/// Exit code of a verb; the gravest is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Nothing got worse.
    Fine,
    /// The runs do not decide.
    Inconclusive,
    /// A deciding metric got worse.
    Regression,
    /// The lab failed, or a target lost data.
    Error,
}

impl Exit {
    pub fn code(self) -> u8 {
        [0, 4, 3, 1][self as usize]
    }

    /// The exit code under the option `--fail-on`.
    pub fn under(self, fail_on: FailOn) -> Exit {
        match (self, fail_on) {
            (Exit::Inconclusive, FailOn::Regression | FailOn::Never) => Exit::Fine,
            (Exit::Regression, FailOn::Never) => Exit::Fine,
            (exit, _) => exit,
        }
    }
}

/// Option `--fail-on`: which results end with another code than 0. Errors and lost data
/// always do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FailOn {
    /// Something that got worse (3), and what cannot be told (4)
    #[default]
    Inconclusive,
    /// Something that got worse (3) only
    Regression,
    /// Errors and lost data (1) only
    Never,
}

/// The code of a set of verdicts: the gravest of the deciding ones, or of all if none
/// decides.
pub fn exit_of(verdicts: &[Verdict]) -> Exit {
    let any_decides = verdicts.iter().any(|verdict| verdict.metric.decides);
    let codes = verdicts
        .iter()
        .filter(|verdict| verdict.metric.decides || !any_decides)
        .map(|verdict| exit_of_conclusion(&verdict.conclusion));
    codes.max().unwrap_or(Exit::Inconclusive)
}

/// The code of one conclusion.
pub fn exit_of_conclusion(conclusion: &Conclusion) -> Exit {
    match conclusion {
        Conclusion::Refused(Refusal::DataLost { .. }) => Exit::Error,
        Conclusion::Worse => Exit::Regression,
        Conclusion::Inconclusive { .. } | Conclusion::Refused(_) => Exit::Inconclusive,
        _ => Exit::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_agree_with_the_manual() {
        let codes = [
            Exit::Fine,
            Exit::Error,
            Exit::Regression,
            Exit::Inconclusive,
        ];
        assert_eq!(codes.map(Exit::code), [0, 1, 3, 4]);
    }

    #[test]
    fn an_error_is_graver_than_a_regression_and_that_than_an_inconclusive_result() {
        let mut codes = vec![
            Exit::Regression,
            Exit::Inconclusive,
            Exit::Error,
            Exit::Fine,
        ];
        for gravest in [
            Exit::Error,
            Exit::Regression,
            Exit::Inconclusive,
            Exit::Fine,
        ] {
            assert_eq!(codes.iter().max(), Some(&gravest));
            codes.retain(|code| *code != gravest);
        }
    }

    #[test]
    fn fail_on_turns_other_results_into_success() {
        let open = exit_of_conclusion(&Conclusion::Inconclusive { further: None });
        let worse = exit_of_conclusion(&Conclusion::Worse);
        let left = |exit: Exit| {
            [FailOn::Inconclusive, FailOn::Regression, FailOn::Never].map(|it| exit.under(it))
        };
        assert_eq!(left(open), [Exit::Inconclusive, Exit::Fine, Exit::Fine]);
        assert_eq!(
            left(worse),
            [Exit::Regression, Exit::Regression, Exit::Fine]
        );
        assert_eq!(left(Exit::Error), [Exit::Error; 3]);
    }

    #[test]
    fn no_verdicts_are_inconclusive() {
        assert_eq!(exit_of(&[]), Exit::Inconclusive);
    }
}
