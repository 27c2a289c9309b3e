//! Conversion of Rust's ranges to etcd's `key` and `range_end`.

use std::ops::{Bound, RangeBounds};

/// First key and end of a range, as in etcd: an end of one zero byte means "no end".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub key: Vec<u8>,
    pub range_end: Vec<u8>,
}

impl KeyRange {
    /// The range of all keys that `bounds` contains.
    pub fn new<K: AsRef<[u8]>>(bounds: impl RangeBounds<K>) -> KeyRange {
        let key = match bounds.start_bound() {
            Bound::Included(start) => start.as_ref().to_vec(),
            Bound::Excluded(start) => successor(start.as_ref()),
            Bound::Unbounded => Vec::new(),
        };
        let range_end = match bounds.end_bound() {
            Bound::Included(end) => successor(end.as_ref()),
            Bound::Excluded(end) => end.as_ref().to_vec(),
            Bound::Unbounded => vec![0],
        };
        // etcd has no empty key: the smallest one is a single zero byte.
        let key = if key.is_empty() { vec![0] } else { key };
        KeyRange { key, range_end }
    }

    /// The range of all keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let mut range_end = prefix.to_vec();
        while range_end.last() == Some(&u8::MAX) {
            range_end.pop();
        }
        match range_end.last_mut() {
            Some(last) => *last += 1,
            None => range_end.push(0),
        }
        let key = if prefix.is_empty() {
            vec![0]
        } else {
            prefix.to_vec()
        };
        KeyRange { key, range_end }
    }

    /// Whether the range can contain no key, such as `b..a`.
    pub fn is_empty(&self) -> bool {
        self.range_end != [0] && self.key >= self.range_end
    }
}

/// The smallest key above `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(key: &[u8], range_end: &[u8]) -> KeyRange {
        KeyRange {
            key: key.to_vec(),
            range_end: range_end.to_vec(),
        }
    }

    #[test]
    fn each_kind_of_bound_has_its_etcd_form() {
        assert_eq!(KeyRange::new("a".."b"), range(b"a", b"b"));
        assert_eq!(KeyRange::new("a"..="b"), range(b"a", b"b\0"));
        assert_eq!(KeyRange::new("a"..), range(b"a", b"\0"));
        assert_eq!(KeyRange::new::<&str>(..), range(b"\0", b"\0"));
        let above = (Bound::Excluded("a"), Bound::<&str>::Unbounded);
        assert_eq!(KeyRange::new::<&str>(above), range(b"a\0", b"\0"));
    }

    #[test]
    fn a_prefix_ends_at_its_successor_even_at_the_last_byte() {
        assert_eq!(KeyRange::prefix(b"a/"), range(b"a/", b"a0"));
        assert_eq!(KeyRange::prefix(b"a\xff"), range(b"a\xff", b"b"));
        assert_eq!(KeyRange::prefix(b"\xff\xff"), range(b"\xff\xff", b"\0"));
        assert_eq!(KeyRange::prefix(b""), range(b"\0", b"\0"));
    }

    #[test]
    fn a_backward_range_is_empty() {
        assert!(KeyRange::new("b".."a").is_empty());
        assert!(KeyRange::new("a".."a").is_empty());
        assert!(!KeyRange::new("a"..="a").is_empty());
        assert!(!KeyRange::new("a"..).is_empty());
    }
}
