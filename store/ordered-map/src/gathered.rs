//! Pairs that are gathered one after the other, and share memory.

use std::collections::VecDeque;
use std::mem;

use bytes::Bytes;

/// Pairs in a row share memory up to this size; a longer one has its own.
const SHARED_BYTES_MAX: usize = 64 << 10;

/// Pairs in the order in which they came.
#[derive(Debug)]
pub(crate) struct Gathered {
    pairs: VecDeque<(Bytes, Bytes)>,
    /// Keys and values of pairs that are to share memory, one after the other.
    bytes: Vec<u8>,
    /// Where in `bytes` the key and the value of each of them end.
    ends: Vec<(usize, usize)>,
    /// Bytes that the pairs are expected to have.
    expected_bytes: usize,
}

impl Gathered {
    /// An empty collection for pairs of which the records have these bytes in the log.
    pub(crate) fn for_records_of(log_bytes: u64) -> Gathered {
        Gathered {
            pairs: VecDeque::new(),
            bytes: Vec::new(),
            ends: Vec::new(),
            expected_bytes: usize::try_from(log_bytes).unwrap_or(usize::MAX),
        }
    }

    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        let bytes = key.len() + value.len();
        if self.bytes.len() + bytes > SHARED_BYTES_MAX {
            self.share();
        }
        if self.bytes.is_empty() {
            let room = self.expected_bytes.min(SHARED_BYTES_MAX);
            self.bytes.reserve_exact(room.max(bytes));
        }
        self.expected_bytes = self.expected_bytes.saturating_sub(bytes);
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    pub(crate) fn end(mut self) -> VecDeque<(Bytes, Bytes)> {
        self.share();
        self.pairs
    }

    /// Makes pairs of what was pushed.
    fn share(&mut self) {
        let mut bytes = mem::take(&mut self.bytes);
        bytes.shrink_to_fit();
        let (bytes, mut start) = (Bytes::from(bytes), 0);
        for (key_end, end) in self.ends.drain(..) {
            let pair = (bytes.slice(start..key_end), bytes.slice(key_end..end));
            self.pairs.push_back(pair);
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(lengths: &[(usize, usize)]) -> VecDeque<(Bytes, Bytes)> {
        let mut gathered = Gathered::for_records_of(1_000);
        for (number, &(key, value)) in lengths.iter().enumerate() {
            gathered.push(&vec![number as u8; key], &vec![!(number as u8); value]);
        }
        gathered.end()
    }

    #[test]
    fn pairs_come_back_in_their_order_whatever_their_lengths() {
        let lengths = [
            (0, 0),
            (3, 200),
            (70_000, 0),
            (1, 70_000),
            (0, 65_536),
            (8, 65_528),
            (2, 2),
        ];
        let pairs = gathered(&lengths);
        assert_eq!(pairs.len(), lengths.len());
        for (number, ((key, value), expected)) in pairs.iter().zip(lengths).enumerate() {
            assert_eq!(*key, vec![number as u8; expected.0]);
            assert_eq!(*value, vec![!(number as u8); expected.1]);
        }
        assert!(gathered(&[]).is_empty());
    }

    #[test]
    fn short_pairs_share_memory_and_a_long_one_keeps_none_of_others() {
        let is_next = |one: &Bytes, other: &Bytes| one.as_ptr_range().end == other.as_ptr();
        let pairs = gathered(&[(3, 200), (3, 300), (3, 65_500), (3, 200)]);
        for (key, value) in &pairs {
            assert!(is_next(key, value));
        }
        assert!(is_next(&pairs[0].1, &pairs[1].0));
        for number in [1, 2] {
            assert!(!is_next(&pairs[number].1, &pairs[number + 1].0));
        }
    }
}
