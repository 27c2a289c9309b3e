//! Lines on stderr that are not repeated while the trouble lasts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use environment::real::RealClock;
use environment::{Clock, Instant};

use crate::failure::say;

/// Time after which another trouble with the same subject is said. Errors of stores have times in
/// their text, so that no two are equal.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// When something was said about each subject.
#[derive(Debug, Default)]
pub(super) struct Said(RefCell<BTreeMap<&'static str, Instant>>);

impl Said {
    /// Says what is wrong with a subject, if nothing was said about it a moment ago.
    pub(super) fn trouble(&self, subject: &'static str, text: &str) {
        let (now, mut said) = (RealClock.now(), self.0.borrow_mut());
        let last = said.get(subject);
        if last.is_none_or(|last| now.saturating_since(*last) >= AGAIN_AFTER) {
            say(text);
            said.insert(subject, now);
        }
    }

    /// Says that a subject works again, if something was wrong with it.
    pub(super) fn works(&self, subject: &'static str, text: &str) {
        if self.0.borrow_mut().remove(subject).is_some() {
            say(text);
        }
    }
}
