//! What the process says to the one that started it.

use super::judge::Verdict;
use super::word::{Refusal, Word};

/// The exit codes of every verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Nothing got worse.
    Fine = 0,
    /// It cannot be told.
    Inconclusive = 4,
    /// Something that decides got worse.
    Regression = 3,
    /// The tool could not do its work, or a target lost data.
    Error = 1,
}

impl Exit {
    /// As the operating system takes it.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// What is left of it for a caller who does not want to fail on everything.
    pub fn under(self, fail_on: FailOn) -> Exit {
        match (self, fail_on) {
            (Exit::Inconclusive, FailOn::Regression | FailOn::Never) => Exit::Fine,
            (Exit::Regression, FailOn::Never) => Exit::Fine,
            (exit, _) => exit,
        }
    }

    /// Which of several codes the process ends with: the gravest.
    pub fn gravest(codes: impl IntoIterator<Item = Exit>) -> Option<Exit> {
        codes.into_iter().max_by_key(|exit| match exit {
            Exit::Fine => 0,
            Exit::Inconclusive => 1,
            Exit::Regression => 2,
            Exit::Error => 3,
        })
    }
}

/// What the caller wants to fail on. Errors and lost data always fail.
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

/// The code of a set of verdicts: the gravest of those that decide, or of all if
/// none does.
pub fn exit_of(verdicts: &[Verdict]) -> Exit {
    let any_decides = verdicts.iter().any(|verdict| verdict.metric.decides);
    let codes = verdicts
        .iter()
        .filter(|verdict| verdict.metric.decides || !any_decides)
        .map(|verdict| exit_of_word(&verdict.word));
    Exit::gravest(codes).unwrap_or(Exit::Inconclusive)
}

/// The code of one word.
pub fn exit_of_word(word: &Word) -> Exit {
    match word {
        Word::Refused(Refusal::DataLost { .. }) => Exit::Error,
        Word::Worse => Exit::Regression,
        Word::Inconclusive { .. } | Word::Refused(_) => Exit::Inconclusive,
        _ => Exit::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_manual() {
        let codes = [
            Exit::Fine,
            Exit::Error,
            Exit::Regression,
            Exit::Inconclusive,
        ];
        assert_eq!(codes.map(Exit::code), [0, 1, 3, 4]);
    }

    #[test]
    fn lost_data_is_graver_than_a_regression_and_that_than_doubt() {
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
            assert_eq!(Exit::gravest(codes.clone()), Some(gravest));
            codes.retain(|code| *code != gravest);
        }
    }

    #[test]
    fn what_is_not_to_fail_does_not() {
        let open = exit_of_word(&Word::Inconclusive { further: None });
        let worse = exit_of_word(&Word::Worse);
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
    fn no_verdict_at_all_is_no_success() {
        assert_eq!(exit_of(&[]), Exit::Inconclusive);
    }
}
