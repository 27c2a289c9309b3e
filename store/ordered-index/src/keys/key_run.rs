//! Ascending keys as they came, before they are packed into a node.

use super::{PREFIX_BYTES_MAX, common};

/// Keys one after the other, in memory that serves for one node after another.
#[derive(Debug, Default)]
pub(crate) struct KeyRun {
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    ends: Vec<usize>,
}

impl KeyRun {
    /// Adds a key greater than all before.
    #[inline]
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub(crate) fn last(&self) -> Option<&[u8]> {
        let (&end, before) = self.ends.split_last()?;
        Some(&self.bytes[before.last().copied().unwrap_or(0)..end])
    }

    pub(crate) fn first(&self) -> Option<&[u8]> {
        self.iter().next()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
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
