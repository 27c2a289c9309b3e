//! Several changes that are written together.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::compression::Compression;
use crate::pair;
use crate::writing::Edit;

/// Puts and deletions that are written together, all or none of them. Of several changes of
/// one key the last counts.
///
/// ```
/// let batch = ordered_map::WriteBatch::new().put("from", "90").put("to", "110").delete("pending");
/// assert_eq!(batch.len(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    /// The new value of each key, `None` for a deletion. Sorted by key, as the index is.
    changes: BTreeMap<Bytes, Option<Bytes>>,
}

impl WriteBatch {
    /// A batch without changes.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Adds a put.
    #[must_use]
    pub fn put(mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> WriteBatch {
        self.changes.insert(key.into(), Some(value.into()));
        self
    }

    /// Adds the deletion of one key. It is no error if the key does not exist.
    #[must_use]
    pub fn delete(mut self, key: impl Into<Bytes>) -> WriteBatch {
        self.changes.insert(key.into(), None);
        self
    }

    /// Number of keys that it changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Lengths of the key and the value of each put.
    pub(crate) fn put_lengths(&self) -> impl Iterator<Item = (usize, usize)> {
        let changes = self.changes.iter();
        changes.filter_map(|(key, value)| Some((key.len(), value.as_ref()?.len())))
    }

    pub(crate) fn into_edits(self, compression: Compression) -> Vec<Edit> {
        let changes = self.changes.into_iter();
        changes
            .map(|(key, value)| match value {
                Some(value) => Edit::put(pair::encode(&key, &value, compression)),
                None => Edit::delete(&key),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_key_counts() {
        let batch = WriteBatch::new().put("a", "1").delete("a").put("b", "2");
        let edits = batch.put("b", "3").into_edits(Compression::None);
        let keys: Vec<(&[u8], bool)> = edits.iter().map(|it| (it.key(), it.deletes())).collect();
        assert_eq!(keys, [(&b"a"[..], true), (&b"b"[..], false)]);
    }
}
