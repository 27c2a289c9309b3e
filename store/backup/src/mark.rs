//! The mark of a revision: a checksum of its rows, by which a watch is recognized as the continuation of
//! what is stored.

use etcd_snapshot::RowKey;
use sha2::{Digest, Sha256};

use crate::format::SUM_BYTES;

/// SHA-256 of the rows of a revision; zeros if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(pub [u8; SUM_BYTES]);

impl Mark {
    /// Whether there were rows.
    pub fn has_rows(&self) -> bool {
        *self != Mark::default()
    }
}

/// Takes rows in ascending order, and makes the mark of the last revision.
#[derive(Clone, Default)]
pub struct Marker {
    revision: i64,
    sum: Option<Sha256>,
}

impl std::fmt::Debug for Marker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Marker");
        shown
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl Marker {
    /// The next row.
    pub fn add(&mut self, key: RowKey, value: &[u8]) {
        if self.revision != key.main {
            self.revision = key.main;
            self.sum = None;
        }
        let sum = self.sum.get_or_insert_default();
        sum.update(key.main.to_le_bytes());
        sum.update(key.sub.to_le_bytes());
        sum.update([u8::from(key.is_deletion)]);
        sum.update((value.len() as u64).to_le_bytes());
        sum.update(value);
    }

    /// Revision of the last row; 0 without any.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The mark of the last row's revision.
    pub fn finish(self) -> Mark {
        let sum = self.sum.map(|sum| sum.finalize().into());
        Mark(sum.unwrap_or_default())
    }
}
