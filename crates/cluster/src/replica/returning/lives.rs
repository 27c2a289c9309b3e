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
    /// A life has the number of an opening of its directory, which has 32 bits. A greater
    /// one was never lived: if it were believed, nothing that the member says in its true
    /// life would count any more.
    pub fn is_possible(life: u64) -> bool {
        u32::try_from(life).is_ok()
    }

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
    fn a_number_that_no_opening_can_have_is_no_life() {
        assert!(Lives::is_possible(0) && Lives::is_possible(u64::from(u32::MAX)));
        assert!(!Lives::is_possible(1 << 32) && !Lives::is_possible(u64::MAX));
    }

    #[test]
    fn who_signs_with_nothing_has_no_life_that_counts() {
        assert_eq!(signed(&7u64.to_le_bytes()), 7);
        assert_eq!(signed(&[]), 0);
        assert_eq!(signed(b"something else"), 0);
    }
}
