//! A cursor that has looked one entry ahead, so that two of them can be merged by key.

use ordered_index::Cursor;

use crate::history_key;
use crate::trees::VersionEntry;

/// One tree of a merge.
#[derive(Debug)]
pub(crate) struct Side<'a> {
    cursor: Cursor<'a>,
    superseded: bool,
    backward: bool,
    key: Vec<u8>,
    version: Option<VersionEntry>,
}

impl<'a> Side<'a> {
    pub(crate) fn new(cursor: Cursor<'a>, superseded: bool, backward: bool) -> Side<'a> {
        let mut side = Side {
            cursor,
            superseded,
            backward,
            key: Vec::new(),
            version: None,
        };
        side.advance();
        side
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.version.is_some().then_some(&self.key[..])
    }

    /// The entry ahead, if it is one of `key`.
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<VersionEntry> {
        let version = self.version.filter(|_| self.key == key)?;
        self.advance();
        Some(version)
    }

    fn advance(&mut self) {
        let found = if self.backward {
            self.cursor.next_back()
        } else {
            self.cursor.next()
        };
        self.version = found.map(|(key, entry)| {
            if self.superseded {
                history_key::decode(key, &mut self.key);
            } else {
                self.key.clear();
                self.key.extend_from_slice(key);
            }
            VersionEntry::from(entry)
        });
    }
}
