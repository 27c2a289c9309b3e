//! Intervals of keys: what permissions cover and what requests ask for.
//!
//! ```text
//!   permissions   [a, c)  [c, f)        [k]  [m, …
//!   merged        [a,         f)        [k]  [m, …
//!   requests        [b,   e) yes   [b,     l) no    [k] yes   [n, … yes
//! ```
//!
//! The point `k` is the interval from `k` to the next possible key, `k\0`. An open end is none.
//! A request that is empty is permitted if its key is: it reads nothing, and etcd treats it so.
//! One that ends before it begins is the matter of `permission_tree.rs`.

use std::cmp::Ordering;

use bytes::Bytes;

/// Keys that a request asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Span<'a> {
    Point(&'a [u8]),
    /// To the end, exclusive; `None` is open.
    Range(&'a [u8], Option<&'a [u8]>),
}

/// `range_end` of a range that is open to the end.
const OPEN: &[u8] = b"\0";

impl<'a> Span<'a> {
    /// The keys of a request or of a permission, in etcd's way of writing ranges.
    pub fn of_request(key: &'a [u8], range_end: &'a [u8]) -> Span<'a> {
        match range_end {
            [] => Span::Point(key),
            OPEN => Span::Range(key, None),
            end => Span::Range(key, Some(end)),
        }
    }
}

/// Disjoint intervals that do not touch, ascending.
#[derive(Debug, Default)]
pub(crate) struct Intervals(Vec<Interval>);

/// Keys from `start` to `end`, exclusive; an end of `None` is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    start: Bytes,
    end: Option<Bytes>,
}

impl Interval {
    /// The interval of a permission.
    pub fn of_permission(key: &Bytes, range_end: &Bytes) -> Interval {
        let end = match Span::of_request(key, range_end) {
            Span::Point(key) => Some([key, OPEN].concat().into()),
            Span::Range(_, None) => None,
            Span::Range(..) => Some(range_end.clone()),
        };
        Interval {
            start: key.clone(),
            end,
        }
    }

    fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// Whether a key lies before the beginning.
    pub fn begins_after(&self, key: &[u8]) -> bool {
        key < &self.start[..]
    }

    /// Whether the beginning is this key, or lies behind it.
    pub fn begins_from(&self, key: &[u8]) -> bool {
        key <= &self.start[..]
    }

    /// Compares beginnings, then ends.
    pub fn compare(&self, other: &Interval) -> Ordering {
        let ends = || match (&self.end, &other.end) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(own), Some(end)) => own.cmp(end),
        };
        self.start.cmp(&other.start).then_with(ends)
    }

    /// Whether a key lies before the end.
    pub fn ends_after(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_none_or(|end| key < &end[..])
    }

    /// Whether the interval reaches as far as this end, `None` being open.
    fn reaches(&self, end: Option<&[u8]>) -> bool {
        match (&self.end, end) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(end)) => end <= &own[..],
        }
    }
}

impl Intervals {
    /// Merges intervals that overlap or touch.
    pub fn merged(mut intervals: Vec<Interval>) -> Intervals {
        intervals.retain(|interval| !interval.is_empty());
        intervals.sort_unstable_by(|one, other| one.start.cmp(&other.start));
        let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
        for next in intervals {
            match merged.last_mut() {
                Some(last) if last.reaches(Some(&next.start)) => {
                    if !last.reaches(next.end.as_deref()) {
                        last.end = next.end;
                    }
                }
                _ => merged.push(next),
            }
        }
        Intervals(merged)
    }

    /// Whether all keys of the request are covered.
    pub fn contains(&self, span: Span<'_>) -> bool {
        let (Span::Point(key) | Span::Range(key, _)) = span;
        let after = self.0.partition_point(|interval| interval.start <= key);
        let Some(candidate) = after.checked_sub(1).map(|place| &self.0[place]) else {
            return false;
        };
        candidate.ends_after(key)
            && match span {
                Span::Point(_) => true,
                Span::Range(_, end) => candidate.reaches(end),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(list: &[(&str, &str)]) -> Intervals {
        let interval = |&(key, end): &(&str, &str)| {
            Interval::of_permission(
                &Bytes::copy_from_slice(key.as_bytes()),
                &Bytes::copy_from_slice(end.as_bytes()),
            )
        };
        Intervals::merged(list.iter().map(interval).collect())
    }

    fn permits(list: &[(&str, &str)], key: &str, end: &str) -> bool {
        intervals(list).contains(Span::of_request(key.as_bytes(), end.as_bytes()))
    }

    #[test]
    fn a_point_permits_its_key_and_no_range() {
        let point = [("k", "")];
        assert!(permits(&point, "k", ""));
        for (key, end) in [
            ("k", "l"),
            ("k", "\0"),
            ("j", ""),
            ("k\0", ""),
            ("ka", ""),
            ("j", "k"),
        ] {
            assert!(!permits(&point, key, end), "{key:?} {end:?}");
        }
        assert!(permits(&point, "k", "k\0"), "the range of this one key");
    }

    #[test]
    fn adjacent_and_overlapping_permissions_cover_a_range_together() {
        let list = [("c", "f"), ("a", "c"), ("m", "p"), ("n", "z"), ("f", "")];
        for (key, end) in [("a", "f"), ("a", "f\0"), ("b", "e"), ("m", "z"), ("f", "")] {
            assert!(permits(&list, key, end), "{key:?} {end:?}");
        }
        for (key, end) in [
            ("a", "g"),
            ("a", "n"),
            ("f", "m"),
            ("m", "z\0"),
            ("m", "\0"),
        ] {
            assert!(!permits(&list, key, end), "{key:?} {end:?}");
        }
    }

    #[test]
    fn only_an_open_permission_permits_an_open_request() {
        let list = [("k", "\0")];
        for (key, end) in [("k", ""), ("k", "\0"), ("k", "z"), ("zz", "\0"), ("l", "")] {
            assert!(permits(&list, key, end), "{key:?} {end:?}");
        }
        assert!(!permits(&list, "j", "\0"));
        assert!(!permits(&[("k", "zzzz")], "k", "\0"));
        assert!(permits(&[("\0", "\0")], "\0", "\0"), "all keys");
        assert!(permits(&[("a", "m"), ("m", "\0")], "a", "\0"));
    }

    #[test]
    fn an_empty_request_is_permitted_where_its_key_is() {
        assert!(permits(&[("a", "m")], "c", "c"));
        assert!(!permits(&[("a", "m")], "n", "n"));
    }

    #[test]
    fn a_reversed_permission_permits_nothing() {
        assert!(!permits(&[("m", "a")], "m", ""));
        assert!(!permits(&[("m", "a"), ("b", "c")], "b", "m"));
    }
}
