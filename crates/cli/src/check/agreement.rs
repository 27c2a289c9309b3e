//! Whether the log holds what the checkpoint says it holds.
//!
//! A checkpoint's entry names a record: place, length, revision and key. They
//! are gathered by place, 32 bytes each, and crossed off while the segments
//! go by; the key stands as a hash.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use engine::Stored;
use engine::inspect::Pointer;
use value_log::inspect::FrameRecord;

use super::finding::{Finding, Findings};

/// A record that must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected {
    offset: u64,
    record_bytes: u64,
    /// Main revision, and the tombstone in the lowest bit.
    version: u64,
    key_hash: u64,
}

/// All records that must be there, by segment.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    expected: BTreeMap<u32, Vec<Expected>>,
    /// Segments that went by.
    met: BTreeSet<u32>,
}

impl Agreement {
    /// The checkpoint points there.
    pub(super) fn expect(&mut self, pointer: &Pointer<'_>) {
        let expected = Expected {
            offset: pointer.position.offset(),
            record_bytes: pointer.record_bytes,
            version: version(pointer.main, pointer.tombstone),
            key_hash: hash(pointer.key),
        };
        self.expected
            .entry(pointer.position.segment())
            .or_default()
            .push(expected);
    }

    /// Call when all is expected, before the first record goes by.
    pub(super) fn prepare(&mut self) {
        for records in self.expected.values_mut() {
            records.sort_unstable_by_key(|record| record.offset);
            // A version that moved while the checkpoint was written stands twice.
            records.dedup();
        }
    }

    /// What is expected of `segment`, to be crossed off.
    pub(super) fn of(&mut self, segment: u32) -> Open {
        self.met.insert(segment);
        let wanted = self.expected.get(&segment).cloned().unwrap_or_default();
        Open {
            wanted,
            next: 0,
            wrong: Findings::default(),
        }
    }

    /// Segments that the checkpoint points into must exist.
    pub(super) fn finish(self, directory: &Path, findings: &mut Findings) {
        for (segment, records) in &self.expected {
            if !self.met.contains(segment) {
                let what = format!(
                    "the checkpoint names {} records in it, and it is missing",
                    records.len()
                );
                findings.add(Finding::log(
                    &directory.join(format!("{segment:08x}.log")),
                    0,
                    what,
                ));
            }
        }
    }
}

/// The records expected of one segment, in order of their places.
#[derive(Debug)]
pub(super) struct Open {
    wanted: Vec<Expected>,
    next: usize,
    wrong: Findings,
}

impl Open {
    /// `stored` lies there.
    pub(super) fn cross_off(&mut self, file: &Path, record: &FrameRecord, stored: &Stored) {
        let offset = record.position.offset();
        self.skip_until(file, offset);
        while let Some(wanted) = self.wanted.get(self.next).filter(|it| it.offset == offset) {
            let found = Expected {
                offset,
                record_bytes: record.record_bytes,
                version: version(stored.revision.main, stored.tombstone),
                key_hash: hash(&stored.key),
            };
            if *wanted != found {
                let what = "another record than the one the checkpoint names";
                self.wrong.add(Finding::log(file, offset, what));
            }
            self.next += 1;
        }
    }

    /// Nothing more comes. `readable` is where the walk ended: what lies
    /// behind it is reported by whoever walked.
    pub(super) fn finish(mut self, file: &Path, readable: u64) -> Findings {
        let stopped = self.wanted[self.next..]
            .iter()
            .any(|wanted| wanted.offset >= readable);
        self.skip_until(file, readable);
        if stopped && self.wrong.is_empty() {
            let lost = self.wanted.len() - self.next;
            let what =
                format!("the checkpoint names {lost} records from here on that cannot be read");
            self.wrong.add(Finding::log(file, readable, what));
        }
        self.wrong
    }

    fn skip_until(&mut self, file: &Path, offset: u64) {
        while let Some(wanted) = self.wanted.get(self.next).filter(|it| it.offset < offset) {
            let what = "no record here, although the checkpoint names one";
            self.wrong.add(Finding::log(file, wanted.offset, what));
            self.next += 1;
        }
    }
}

fn version(main: i64, tombstone: bool) -> u64 {
    (main as u64) << 1 | u64::from(tombstone)
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}
