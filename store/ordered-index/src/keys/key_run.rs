//! Ascending keys as they came, before they are packed into a node.
//!
//! Keys of up to eight bytes are a number and a length each. With the first longer key all of them
//! become bytes.

use super::{HEAD_BYTES, PREFIX_BYTES_MAX, common, head_of};

/// Keys one after the other, in memory that serves for one node after another.
#[derive(Debug, Default)]
pub(crate) struct KeyRun {
    short: Vec<ShortKey>,
    /// The keys if one of them is longer; `short` is empty then.
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    ends: Vec<usize>,
}

/// A key of up to eight bytes, with zeros behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortKey {
    padded: [u8; HEAD_BYTES],
    len: u8,
}

impl ShortKey {
    #[inline]
    fn of(key: &[u8]) -> Option<ShortKey> {
        let len = key.len();
        (len <= HEAD_BYTES).then(|| ShortKey {
            padded: head_of(key).to_be_bytes(),
            len: len as u8,
        })
    }

    fn bytes(&self) -> &[u8] {
        &self.padded[..usize::from(self.len)]
    }

    /// The key behind a prefix of up to seven bytes: its first bytes as a number, as [`head_of`] gives
    /// them, and its length. Several short keys share no more.
    #[inline]
    pub(super) fn behind(self, prefix_bytes: usize) -> (u64, usize) {
        let head = u64::from_be_bytes(self.padded) << (8 * prefix_bytes);
        (head, usize::from(self.len) - prefix_bytes)
    }
}

impl KeyRun {
    /// Adds a key greater than all before.
    #[inline]
    pub(crate) fn push(&mut self, key: &[u8]) {
        match ShortKey::of(key) {
            Some(short) if self.ends.is_empty() => self.short.push(short),
            _ => self.push_bytes(key),
        }
    }

    /// Not inlined, so that loops over short keys stay small.
    #[inline(never)]
    fn push_bytes(&mut self, key: &[u8]) {
        for short in self.short.drain(..) {
            self.bytes.extend_from_slice(short.bytes());
            self.ends.push(self.bytes.len());
        }
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn clear(&mut self) {
        self.short.clear();
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.short.len() + self.ends.len()
    }

    /// Whether a key is greater than all of them.
    #[inline]
    pub(crate) fn ends_before(&self, key: &[u8]) -> bool {
        let head = head_of(key);
        if let Some(last) = self.short.last() {
            let last_head = u64::from_be_bytes(last.padded);
            return last_head < head || last_head == head && last.bytes() < key;
        }
        let is_less = |last: &[u8]| head_of(last) < head || last < key;
        self.last().is_none_or(is_less)
    }

    #[inline]
    pub(crate) fn last(&self) -> Option<&[u8]> {
        if let Some(last) = self.short.last() {
            return Some(last.bytes());
        }
        let (&end, before) = self.ends.split_last()?;
        Some(&self.bytes[before.last().copied().unwrap_or(0)..end])
    }

    pub(crate) fn first(&self) -> Option<&[u8]> {
        match self.short.first() {
            Some(first) => Some(first.bytes()),
            None => self.long().next(),
        }
    }

    /// Its keys, if all of them have up to eight bytes.
    pub(super) fn short(&self) -> &[ShortKey] {
        &self.short
    }

    /// Its keys, if one of them is longer.
    pub(super) fn long(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let key = &self.bytes[start..end];
            start = end;
            key
        })
    }

    /// The prefix of a node with these keys. One key alone has none: the neighbours it will
    /// get may share little with it.
    pub(super) fn prefix(&self) -> &[u8] {
        match (self.first(), self.last()) {
            (Some(first), Some(last)) if self.len() > 1 => {
                let shared = common(first, last);
                &shared[..shared.len().min(PREFIX_BYTES_MAX)]
            }
            _ => &[],
        }
    }
}
