//! Copying records to sorted segments.

use crate::Error;
use crate::moves::{Moves, Slice};
use crate::parts::Parts;
use crate::read_all::{PREFETCHED_RECORDS, portion_length};
use crate::record::is_key_version;
use crate::record_pointer::RecordPointer;
use crate::trees::VersionEntry;
use ordered_index::IndexEntry;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;
use value_log::{Record, Relocation};

/// Entries looked at under one pin.
pub(super) const SLICE_ENTRIES: usize = 4096;
/// Bytes copied between two pauses.
const PAUSE_BYTES: u64 = 1 << 20;

/// A key of a tree, and where its version is.
pub(super) type Entry = (Vec<u8>, IndexEntry);

pub(super) fn pointer_of((_, entry): &Entry) -> RecordPointer {
    VersionEntry::from(*entry).pointer
}

/// How many neighbours are collected under one pin: no more entries, and no more bytes of records,
/// but for the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portion {
    pub(super) entries_max: usize,
    pub(super) bytes_max: u64,
}

impl Portion {
    /// The neighbours behind `start` with versions in `segments`, and where to continue; `None`
    /// at the end of the tree.
    pub(super) fn of(
        self,
        (parts, tree): (&Parts, usize),
        start: Option<&[u8]>,
        segments: &BTreeSet<u32>,
    ) -> (Vec<Entry>, Option<Vec<u8>>) {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let trees = parts.records.index.reader.pin();
        let start = start.map_or(Bound::Unbounded, Bound::Excluded);
        let mut cursor = trees.cursor(tree, start, Bound::Unbounded);
        for looked in 1.. {
            let Some((key, entry)) = cursor.next() else {
                break;
            };
            let pointer = VersionEntry::from(entry).pointer;
            if segments.contains(&pointer.segment()) {
                bytes += pointer.record_bytes();
                entries.push((key.to_vec(), entry));
            }
            let is_full = entries.len() >= self.entries_max || bytes >= self.bytes_max;
            if looked >= SLICE_ENTRIES || is_full {
                let next = key.to_vec();
                return (entries, Some(next));
            }
        }
        (entries, None)
    }
}

/// A copy that is under way.
pub(super) struct Copy<'a> {
    parts: &'a Parts,
    relocation: Relocation,
    moves: VecDeque<Slice>,
    /// Segments with a record that is damaged.
    pub(super) spoiled: BTreeSet<u32>,
    pub(super) copied_bytes: u64,
    unpaced_bytes: u64,
    /// At the pace of the options.
    throttled: bool,
}

impl Copy<'_> {
    pub(super) fn new(parts: &Parts, relocation: Relocation, throttled: bool) -> Copy<'_> {
        Copy {
            parts,
            relocation,
            moves: VecDeque::new(),
            spoiled: BTreeSet::new(),
            copied_bytes: 0,
            unpaced_bytes: 0,
            throttled,
        }
    }

    /// Copies neighbours of a tree. A cancelled one copies some of them.
    pub(super) fn copy_slice(&mut self, tree: usize, entries: &[Entry]) -> Result<(), Error> {
        let mut slice = Slice::of_tree(tree);
        let records = &self.parts.records;
        let mut looks = records.log_view.log.looks_at_seldom_read();
        let mut rest = entries;
        while !rest.is_empty() && !records.lifecycle.is_cancelled() {
            let bytes = rest.iter().map(|entry| pointer_of(entry).record_bytes());
            let (portion, behind) = rest.split_at(portion_length(bytes));
            let places: Vec<_> = portion.iter().map(|it| pointer_of(it).place()).collect();
            looks.announce(&places);
            for group in portion.chunks(PREFETCHED_RECORDS) {
                looks.prefetch(group.iter().map(|it| pointer_of(it).place()));
                for (key, old) in group {
                    if let Some(copy) = self.copy_record(*old)? {
                        slice.push(key, *old, copy);
                    }
                }
            }
            rest = behind;
        }
        self.moves.extend(slice.complete());
        Ok(())
    }

    /// The entry of the copy; `None` for a damaged record, which stays where it is. The bytes that
    /// pass their checksum are those that are copied, and not bytes of a file that is read again.
    fn copy_record(&mut self, old: IndexEntry) -> Result<Option<IndexEntry>, Error> {
        let version = VersionEntry::from(old);
        let record_bytes = version.pointer.record_bytes();
        let position = version.pointer.position();
        let log = &self.parts.records.log_view.log;
        let record = match log.read(position, record_bytes as usize) {
            Ok(record) => record,
            Err(error) => {
                self.pass_over(version, error.into())?;
                return Ok(None);
            }
        };
        let kind = record.kind;
        assert!(is_key_version(kind), "the index points at a key version");
        let parts = &[&record.payload[..]];
        let position = self.relocation.append(Record { kind, parts })?;
        let new = VersionEntry {
            pointer: RecordPointer::new(position, record_bytes),
            ..version
        }
        .entry();
        self.parts.counters.relocated_bytes.add(record_bytes);
        self.copied_bytes += record_bytes;
        self.pace(record_bytes);
        Ok(Some(new))
    }

    /// Leaves a damaged record and its segment alone; other errors end the copy.
    fn pass_over(&mut self, version: VersionEntry, error: Error) -> Result<(), Error> {
        if !error.is_damage() {
            return Err(error);
        }
        self.parts.records.keep_segment_of(version);
        self.spoiled.insert(version.pointer.segment());
        Ok(())
    }

    fn pace(&mut self, record_bytes: u64) {
        self.unpaced_bytes += record_bytes;
        if !self.throttled || self.unpaced_bytes < PAUSE_BYTES {
            return;
        }
        let options = &self.parts.options;
        let micros = self.unpaced_bytes * 1_000_000 / options.background_bytes_per_second.max(1);
        options.clock.sleep(Duration::from_micros(micros));
        self.unpaced_bytes = 0;
    }

    /// Makes the copies durable. Nothing points into the segments in `emptied` when the index
    /// points to the copies.
    pub(super) fn finish(self, emptied: BTreeSet<u32>) -> Result<Moves, Error> {
        if self.parts.records.lifecycle.is_cancelled() {
            // The copies are dropped, without waiting for a flush.
            return Ok(Moves::default());
        }
        let filled = self.relocation.finish()?;
        Ok(Moves::new(self.moves, filled, emptied))
    }
}
