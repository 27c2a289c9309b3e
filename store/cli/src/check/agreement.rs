//! Checks that the log holds the records that the checkpoint names.
//!
//! A checkpoint's entry names a record: position, length, revision and key. The expected
//! records are gathered by position, 32 bytes each with a hash of the key, and crossed off
//! during the walk over the segments.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use engine::KeyChange;
use engine::inspect::{Contents, Pointer, contents};
use environment::real::RealDisk;
use value_log::inspect::{FrameRecord, SegmentBytes, SegmentFile};

use super::finding::{Finding, Findings};
use super::walked::Walked;
use crate::table::counted;

const ANOTHER: &str = "another record than the one that the checkpoint names";

/// A record that the log must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected {
    offset: u64,
    record_bytes: u64,
    /// Main revision, with the tombstone flag in the lowest bit.
    version: u64,
    key_hash: u64,
}

/// All records that the log must hold, by segment.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    expected: BTreeMap<u32, Vec<Expected>>,
    /// Segments that were walked.
    met: BTreeSet<u32>,
}

impl Agreement {
    /// Adds a record that the checkpoint points to.
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

    /// Sorts the expected records. To be called after the last `expect`, before the walk.
    pub(super) fn prepare(&mut self) {
        for records in self.expected.values_mut() {
            records.sort_unstable_by_key(|record| record.offset);
            // A version that moved while the checkpoint was written is listed twice.
            records.dedup();
        }
    }

    /// Takes the records expected in `segment`, to be crossed off.
    pub(super) fn of(&mut self, segment: u32) -> Open {
        self.met.insert(segment);
        let wanted = self.expected.get(&segment).cloned().unwrap_or_default();
        Open {
            wanted,
            next: 0,
            passed: Vec::new(),
            wrong: Findings::default(),
        }
    }

    /// Adds a finding for each segment that the checkpoint points into and that is missing.
    pub(super) fn finish(self, directory: &Path, findings: &mut Findings) {
        for (segment, records) in &self.expected {
            if !self.met.contains(segment) {
                let what = format!(
                    "the checkpoint names {} in this segment, which is missing",
                    counted_records(records.len())
                );
                let file = directory.join(format!("{segment:08x}.log"));
                findings.add(Finding::log(&file, 0, what));
            }
        }
    }
}

/// The records expected in one segment, in order of their offsets.
#[derive(Debug)]
pub(super) struct Open {
    wanted: Vec<Expected>,
    next: usize,
    /// Expected records at offsets that were passed without a record that begins there.
    passed: Vec<Expected>,
    wrong: Findings,
}

/// Records that the checkpoint names and no sound group holds.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Offset of the first one.
    first: Option<u64>,
    damaged: usize,
    /// Number of records behind the offset where reading failed.
    not_checked: usize,
}

impl Open {
    /// Crosses off the record that `stored` was read from; adds a finding if it differs.
    pub(super) fn cross_off(&mut self, file: &Path, record: &FrameRecord, stored: &KeyChange) {
        let offset = record.position.offset();
        self.pass_until(offset);
        while let Some(wanted) = self.wanted.get(self.next).filter(|it| it.offset == offset) {
            if *wanted != found(record, stored) {
                self.wrong.add(Finding::log(file, offset, ANOTHER));
            }
            self.next += 1;
        }
    }

    /// Ends the segment. A record that no sound group held is read by itself: it may be sound
    /// in a damaged group.
    pub(super) fn finish(mut self, file: &SegmentFile, walked: &Walked) -> Findings {
        self.pass_until(u64::MAX);
        if self.passed.is_empty() {
            return self.wrong;
        }
        let bytes = file.read(&RealDisk).ok();
        let mut lost = Lost::default();
        for wanted in std::mem::take(&mut self.passed) {
            self.look_up(file, &wanted, walked, bytes.as_ref(), &mut lost);
        }
        self.wrong.extend(lost.finding(&file.path));
        self.wrong
    }

    fn look_up(
        &mut self,
        file: &SegmentFile,
        wanted: &Expected,
        walked: &Walked,
        bytes: Option<&SegmentBytes>,
        lost: &mut Lost,
    ) {
        let offset = wanted.offset;
        if walked.is_sound_at(offset) {
            let what = "no record here, although the checkpoint names one";
            self.wrong.add(Finding::log(&file.path, offset, what));
            return;
        }
        let record = bytes.and_then(|bytes| bytes.record_at(offset));
        match record.map(|record| (contents(record.kind, &record.payload), record)) {
            Some((Contents::Key(stored), record)) if found(&record, &stored) == *wanted => {}
            Some(_) => self.wrong.add(Finding::log(&file.path, offset, ANOTHER)),
            None => lost.add(wanted, bytes),
        }
    }

    fn pass_until(&mut self, offset: u64) {
        while let Some(wanted) = self.wanted.get(self.next).filter(|it| it.offset < offset) {
            self.passed.push(*wanted);
            self.next += 1;
        }
    }
}

impl Lost {
    fn add(&mut self, wanted: &Expected, bytes: Option<&SegmentBytes>) {
        self.first.get_or_insert(wanted.offset);
        let end = wanted.offset + wanted.record_bytes;
        let unread = bytes.is_none_or(|bytes| {
            let failed = bytes.unreadable.as_ref();
            failed.is_some_and(|(offset, _)| end > *offset)
        });
        match unread {
            true => self.not_checked += 1,
            false => self.damaged += 1,
        }
    }

    fn finding(&self, file: &Path) -> Option<Finding> {
        let damaged = counted_records(self.damaged);
        let not_checked = counted_records(self.not_checked);
        let what = match (self.damaged, self.not_checked) {
            (_, 0) => format!("the checkpoint names {damaged} from here on that cannot be read"),
            (0, _) => format!("the checkpoint names {not_checked} from here on; not checked"),
            (_, _) => format!(
                "the checkpoint names {damaged} from here on that cannot be read, and {not_checked} \
                 not checked"
            ),
        };
        Some(Finding::log(file, self.first?, what))
    }
}

fn counted_records(records: usize) -> String {
    counted(records as u64, "record", "records")
}

fn found(record: &FrameRecord, stored: &KeyChange) -> Expected {
    Expected {
        offset: record.position.offset(),
        record_bytes: record.record_bytes,
        version: version(stored.revision.main, stored.tombstone),
        key_hash: hash(&stored.key),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn said(damaged: usize, not_checked: usize) -> String {
        let lost = Lost {
            first: Some(8),
            damaged,
            not_checked,
        };
        let mut findings = Findings::default();
        lost.finding(Path::new("file"))
            .into_iter()
            .for_each(|finding| findings.add(finding));
        let mut output = Vec::new();
        findings.write(&mut output).expect("memory takes it");
        String::from_utf8(output).expect("text")
    }

    #[test]
    fn what_could_not_be_looked_at_is_not_called_damaged() {
        let text = said(0, 3);
        assert!(
            text.contains("3 records from here on; not checked"),
            "{text}"
        );
        assert!(!text.contains("cannot be read"), "{text}");
        let text = said(1, 2);
        assert!(
            text.contains("1 record from here on that cannot be read, and 2 records not checked"),
            "{text}"
        );
    }

    #[test]
    fn nothing_lost_is_nothing_said() {
        assert!(Lost::default().finding(Path::new("file")).is_none());
    }
}
