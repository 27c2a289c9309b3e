//! The keys of a request, by etcd's `key` and `range_end` conventions.
//!
//! ```text
//!   range_end   meaning                       here
//!   empty       the one key                   End::Point
//!   "\0"        every key from `key` on       End::Open
//!   other       key <= k < range_end          End::Before
//! ```

/// The end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// Directly after the start key: the range is a single key.
    Point,
    /// Before this key.
    Before(&'a [u8]),
    /// The range has no end.
    Open,
}

/// The keys of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// The first key of the range.
    pub start: &'a [u8],
    pub end: End<'a>,
}

impl<'a> KeyRange<'a> {
    /// Reads the two fields of a request.
    pub fn of_request(key: &'a [u8], range_end: &'a [u8]) -> KeyRange<'a> {
        let end = match range_end {
            [] => End::Point,
            [0] => End::Open,
            before => End::Before(before),
        };
        KeyRange { start: key, end }
    }

    /// Returns whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        matches!(self.end, End::Before(end) if end <= self.start)
    }

    /// Returns whether the range has this key.
    pub fn contains(&self, key: &[u8]) -> bool {
        match self.end {
            End::Point => key == self.start,
            End::Before(end) => self.start <= key && key < end,
            End::Open => self.start <= key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_end_chooses_between_point_interval_and_open_end() {
        assert_eq!(KeyRange::of_request(b"a", b"").end, End::Point);
        assert_eq!(KeyRange::of_request(b"a", b"\0").end, End::Open);
        assert_eq!(KeyRange::of_request(b"a", b"b").end, End::Before(b"b"));
    }

    #[test]
    fn contains_respects_each_kind_of_end() {
        let point = KeyRange::of_request(b"b", b"");
        assert!(point.contains(b"b") && !point.contains(b"b\0"));
        let interval = KeyRange::of_request(b"b", b"d");
        assert!(interval.contains(b"b") && interval.contains(b"c\xff") && !interval.contains(b"d"));
        let open = KeyRange::of_request(b"b", b"\0");
        assert!(open.contains(b"\xff") && !open.contains(b"a"));
    }

    #[test]
    fn an_end_at_or_before_the_start_is_empty() {
        assert!(KeyRange::of_request(b"b", b"b").is_empty());
        assert!(KeyRange::of_request(b"b", b"a").is_empty());
        assert!(!KeyRange::of_request(b"b", b"\0").is_empty());
        assert!(!KeyRange::of_request(b"b", b"").is_empty());
    }
}
