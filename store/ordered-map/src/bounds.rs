//! Converts Rust's key ranges and prefixes to an inclusive start and an exclusive end.

use std::ops::{Bound, RangeBounds};

/// Keys `start <= key < end`; without an `end`, all keys from `start` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub start: Vec<u8>,
    pub end: Option<Vec<u8>>,
}

impl Bounds {
    pub(crate) fn of<K: AsRef<[u8]>>(range: impl RangeBounds<K>) -> Bounds {
        let start = match range.start_bound() {
            Bound::Included(start) => start.as_ref().to_vec(),
            Bound::Excluded(start) => successor(start.as_ref()),
            Bound::Unbounded => Vec::new(),
        };
        let end = match range.end_bound() {
            Bound::Included(end) => Some(successor(end.as_ref())),
            Bound::Excluded(end) => Some(end.as_ref().to_vec()),
            Bound::Unbounded => None,
        };
        Bounds { start, end }
    }

    /// Keys that begin with `prefix`.
    pub(crate) fn prefix(prefix: &[u8]) -> Bounds {
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Bounds {
            start: prefix.to_vec(),
            end: Some(end).filter(|end| !end.is_empty()),
        }
    }

    /// Whether no key can be in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| self.start >= *end)
    }
}

/// The smallest key above `key`.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(start: &[u8], end: Option<&[u8]>) -> Bounds {
        Bounds {
            start: start.to_vec(),
            end: end.map(<[u8]>::to_vec),
        }
    }

    #[test]
    fn each_kind_of_range_has_a_start_and_an_end() {
        assert_eq!(Bounds::of("a".."b"), bounds(b"a", Some(b"b")));
        assert_eq!(Bounds::of("a"..="b"), bounds(b"a", Some(b"b\0")));
        assert_eq!(Bounds::of::<&str>(..), bounds(b"", None));
        let above = (Bound::Excluded("a"), Bound::Unbounded);
        assert_eq!(Bounds::of::<&str>(above), bounds(b"a\0", None));
        assert!(Bounds::of("b".."a").is_empty() && Bounds::of("a".."a").is_empty());
        assert!(!Bounds::of("a"..="a").is_empty() && !Bounds::of("a"..).is_empty());
    }

    #[test]
    fn a_prefix_ends_at_its_successor_even_at_the_last_byte() {
        assert_eq!(Bounds::prefix(b"a/"), bounds(b"a/", Some(b"a0")));
        assert_eq!(Bounds::prefix(b"a\xff"), bounds(b"a\xff", Some(b"b")));
        assert_eq!(Bounds::prefix(b"\xff"), bounds(b"\xff", None));
        assert_eq!(Bounds::prefix(b""), bounds(b"", None));
    }
}
