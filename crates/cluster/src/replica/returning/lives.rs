//! Which life of each other member is the newest that is known.
//!
//! Lives are numbered upwards by their directories. What a leader believes of a member's
//! log, it believes of one life: the next one may have less.

use std::collections::BTreeMap;

/// By member.
#[derive(Debug, Default)]
pub(in crate::replica) struct Lives {
    newest: BTreeMap<u64, u64>,
}

impl Lives {
    /// No later life of the member is known.
    pub fn is_current(&self, member: u64, life: u64) -> bool {
        self.newest.get(&member).is_none_or(|&known| known <= life)
    }

    /// What is known of the member is known of a life before.
    pub fn was_another(&self, member: u64, life: u64) -> bool {
        self.newest.get(&member).is_some_and(|&known| known < life)
    }

    /// This is the newest from now on; whether that is news.
    pub fn enter(&mut self, member: u64, life: u64) -> bool {
        assert!(self.is_current(member, life), "lives follow each other");
        self.newest.insert(member, life) != Some(life)
    }
}

/// The life that an answer was signed with; 0: with none.
pub(super) fn signed(context: &[u8]) -> u64 {
    context.try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_late_is_of_a_former_life() {
        let mut lives = Lives::default();
        assert!(lives.is_current(2, 3) && !lives.was_another(2, 3));
        assert!(lives.enter(2, 3), "the first that is known");
        assert!(!lives.enter(2, 3));
        assert!(lives.is_current(2, 4) && lives.was_another(2, 4));
        assert!(lives.enter(2, 4));
        assert!(!lives.is_current(2, 3));
        assert!(lives.is_current(1, 1), "another member's");
    }

    #[test]
    fn who_signs_with_nothing_has_no_life_that_counts() {
        assert_eq!(signed(&7u64.to_le_bytes()), 7);
        assert_eq!(signed(&[]), 0);
        assert_eq!(signed(b"something else"), 0);
    }
}
