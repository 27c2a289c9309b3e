//! The meaning of a failed call to a client that repeats the calls that may be repeated.

use std::error::Error;

use tonic::{Code, ConnectError, Status};

/// Meaning of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No server has executed the request, or will: any call is repeated.
    NotExecuted,
    /// The server or the connection is away: a get is repeated, the outcome of a put is unknown.
    Away,
    /// No client repeats the call.
    Wrong,
}

impl Failure {
    pub fn of(status: &Status) -> Failure {
        // A status with a source was made by this side: the connection was lost.
        let is_lost = status.source().is_some();
        if causes(status).any(is_before_execution) {
            return Failure::NotExecuted;
        }
        match status.code() == Code::Unavailable || is_lost {
            true => Failure::Away,
            false => Failure::Wrong,
        }
    }
}

/// The errors below a status, the innermost last.
fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let mut next = status.source();
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// Whether the error says that no server executes the request: there was no connection, it ended
/// before the request was sent, or the server said with GOAWAY or REFUSED_STREAM that it left it.
fn is_before_execution(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return error.is_canceled();
    }
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        let left = error.is_go_away() && error.is_remote();
        return match error.reason() {
            Some(h2::Reason::NO_ERROR) => left,
            reason => reason == Some(h2::Reason::REFUSED_STREAM),
        };
    }
    error.is::<ConnectError>()
}

/// A failed call as text, with the innermost error below the status.
pub fn text(call: &str, status: &Status) -> String {
    let text = format!("{call}: {:?}: {}", status.code(), status.message());
    match causes(status).last() {
        Some(cause) => format!("{text} ({cause})"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_a_server_that_is_away_are_repeated_and_those_about_the_caller_are_not() {
        let away = Status::unavailable("etcdserver: leader changed");
        assert_eq!(Failure::of(&away), Failure::Away);
        let invalid = Status::unauthenticated("etcdserver: invalid auth token");
        assert_eq!(Failure::of(&invalid), Failure::Wrong);
        let refused = h2::Error::from(h2::Reason::REFUSED_STREAM);
        assert_eq!(
            Failure::of(&Status::from_error(refused.into())),
            Failure::NotExecuted
        );
        let reset = h2::Error::from(h2::Reason::CANCEL);
        assert_eq!(
            Failure::of(&Status::from_error(reset.into())),
            Failure::Away
        );
    }
}
