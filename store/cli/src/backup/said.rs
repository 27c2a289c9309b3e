//! Lines on stderr that are not repeated while the trouble stays the same.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::failure::say;

/// What was said about each subject.
#[derive(Debug, Default)]
pub(super) struct Said(RefCell<BTreeMap<&'static str, String>>);

impl Said {
    /// Says what is wrong with a subject, if it is not what was said last.
    pub(super) fn trouble(&self, subject: &'static str, text: String) {
        let mut said = self.0.borrow_mut();
        if said.get(subject) != Some(&text) {
            say(&text);
            said.insert(subject, text);
        }
    }

    /// Says that a subject works again, if something was wrong with it.
    pub(super) fn works(&self, subject: &'static str, text: &str) {
        if self.0.borrow_mut().remove(subject).is_some() {
            say(text);
        }
    }
}
