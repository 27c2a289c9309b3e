//! What came of a call, and how two systems' answers compare.
//!
//! ```text
//!   ours \ etcd    done          refused, text b     no answer
//!   done           same          better (1)          better
//!   refused, a     WORSE         same if a = b       better (2)
//!   no answer      WORSE         WORSE               same
//! ```
//!
//! (1) only if the model expects success: etcd may be slower to see that all
//! members are well. (2) only if the model expects this text or no success at
//! all: etcd lets some callers wait for a refusal until their time is up.

use etcd_api::Error;
use tonic::{Code, Status};

/// The outcome of a call, as a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// A definite no, with etcd's text.
    Refused(String),
    /// Unavailable, too late, or the connection was lost: the outcome is open.
    Unavailable(String),
}

impl Answer {
    /// The class of a failure. Texts that etcd does not have are transport errors.
    pub fn of(status: &Status) -> Answer {
        let text = status.message().to_owned();
        let known = Error::from_message(&text);
        match (status.code(), known) {
            (_, Some(Error::Unhealthy)) => Answer::Refused(text),
            (Code::FailedPrecondition | Code::InvalidArgument | Code::NotFound, _) => {
                Answer::Refused(text)
            }
            (Code::Unavailable, Some(_)) => Answer::Unavailable(text),
            (code, Some(_)) if code != Code::DeadlineExceeded => Answer::Refused(text),
            // The text of a transport error may name an address, which no table is to count.
            (code, _) => Answer::Unavailable(format!("{code:?}")),
        }
    }

    pub fn is_refusal(&self, error: Error) -> bool {
        matches!(self, Answer::Refused(text) if text == error.message())
    }

    /// The text for a table.
    pub fn words(&self) -> String {
        match self {
            Answer::Done => "done".to_owned(),
            Answer::Refused(text) | Answer::Unavailable(text) => {
                text.strip_prefix("etcdserver: ").unwrap_or(text).to_owned()
            }
        }
    }
}

/// What the model says of a call before it is made. It guides how often the call
/// is repeated; the verdict comes from the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Done,
    Refused(Error),
    /// No majority is up: the call must not succeed.
    NoMajority,
    /// The model does not know.
    Open,
}

impl Expected {
    /// No repetition would change the answer, or none is called for.
    pub fn is_settled_by(self, answer: &Answer) -> bool {
        match (self, answer) {
            (Expected::NoMajority | Expected::Open, _) | (_, Answer::Done) => true,
            (_, Answer::Unavailable(_)) => false,
            (Expected::Done, refused) => !PASSING.iter().any(|error| refused.is_refusal(*error)),
            (Expected::Refused(error), refused) => refused.is_refusal(error),
        }
    }
}

/// Refusals that pass by themselves while all members are well.
const PASSING: [Error; 4] = [
    Error::Unhealthy,
    Error::MemberNotEnoughStarted,
    Error::LearnerNotReady,
    Error::NotLeader,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Same,
    Better,
    Worse,
}

/// Ours beside etcd's.
pub fn compare(ours: &Answer, etcd: &Answer, expected: Expected) -> Verdict {
    let hopes = expected == Expected::Done;
    match (ours, etcd) {
        (Answer::Done, Answer::Done) => Verdict::Same,
        (Answer::Done, Answer::Unavailable(_)) => Verdict::Better,
        (Answer::Done, Answer::Refused(_)) if hopes => Verdict::Better,
        (Answer::Refused(a), Answer::Refused(b)) if a == b => Verdict::Same,
        (Answer::Unavailable(_), Answer::Unavailable(_)) => Verdict::Same,
        (Answer::Refused(text), Answer::Unavailable(_)) => match expected {
            Expected::NoMajority => Verdict::Better,
            Expected::Refused(error) if text == error.message() => Verdict::Better,
            _ => Verdict::Worse,
        },
        _ => Verdict::Worse,
    }
}

/// Ours alone, beside what the model expects.
pub fn judge_alone(ours: &Answer, expected: Expected) -> Verdict {
    let is_right = match expected {
        Expected::Done => *ours == Answer::Done,
        Expected::Refused(error) => ours.is_refusal(error),
        Expected::NoMajority => *ours != Answer::Done,
        Expected::Open => true,
    };
    match is_right {
        true => Verdict::Same,
        false => Verdict::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(error: Error) -> Answer {
        Answer::of(&error.to_status())
    }

    #[test]
    fn answers_have_the_class_that_a_client_acts_on() {
        assert!(refused(Error::Unhealthy).is_refusal(Error::Unhealthy));
        assert!(refused(Error::MemberNotFound).is_refusal(Error::MemberNotFound));
        for error in [Error::Timeout, Error::LeaderChanged, Error::NoLeader] {
            assert!(matches!(refused(error), Answer::Unavailable(_)), "{error}");
        }
        let lost = Answer::of(&Status::unknown("transport error"));
        assert_eq!(lost, Answer::Unavailable("Unknown".to_owned()));
    }

    #[test]
    fn success_where_etcd_has_no_answer_is_better_and_the_reverse_is_worse() {
        let (done, late) = (Answer::Done, refused(Error::Timeout));
        let hopes = Expected::Done;
        assert_eq!(compare(&done, &late, hopes), Verdict::Better);
        assert_eq!(compare(&late, &done, hopes), Verdict::Worse);
        assert_eq!(compare(&late, &late, hopes), Verdict::Same);
    }

    #[test]
    fn success_where_etcd_refuses_is_better_only_if_the_model_expects_it() {
        let unhealthy = refused(Error::Unhealthy);
        let expects_refusal = Expected::Refused(Error::Unhealthy);
        let verdict = |expected| compare(&Answer::Done, &unhealthy, expected);
        assert_eq!(verdict(Expected::Done), Verdict::Better);
        assert_eq!(verdict(expects_refusal), Verdict::Worse);
        assert_eq!(verdict(Expected::NoMajority), Verdict::Worse);
    }

    #[test]
    fn refusals_are_compared_by_their_text() {
        let (one, other) = (refused(Error::MemberNotFound), refused(Error::PeerUrlExist));
        assert_eq!(compare(&one, &one, Expected::Done), Verdict::Same);
        assert_eq!(compare(&one, &other, Expected::Done), Verdict::Worse);
        let late = refused(Error::Timeout);
        let expected = Expected::Refused(Error::MemberNotFound);
        assert_eq!(compare(&one, &late, expected), Verdict::Better);
        assert_eq!(compare(&other, &late, expected), Verdict::Worse);
    }

    #[test]
    fn a_call_is_repeated_while_its_answer_may_still_become_the_expected_one() {
        let hopes = Expected::Done;
        assert!(!hopes.is_settled_by(&refused(Error::Unhealthy)));
        assert!(!hopes.is_settled_by(&refused(Error::Timeout)));
        assert!(hopes.is_settled_by(&refused(Error::MemberNotFound)));
        assert!(Expected::NoMajority.is_settled_by(&refused(Error::Timeout)));
        let expects_refusal = Expected::Refused(Error::Unhealthy);
        assert!(expects_refusal.is_settled_by(&refused(Error::Unhealthy)));
        assert!(expects_refusal.is_settled_by(&Answer::Done));
        assert!(!expects_refusal.is_settled_by(&refused(Error::MemberNotFound)));
    }

    #[test]
    fn without_etcd_the_model_is_the_measure() {
        let late = refused(Error::Timeout);
        assert_eq!(judge_alone(&late, Expected::NoMajority), Verdict::Same);
        assert_eq!(judge_alone(&late, Expected::Done), Verdict::Worse);
        assert_eq!(
            judge_alone(&Answer::Done, Expected::NoMajority),
            Verdict::Worse
        );
    }
}
