//! Runs: records that lie together in the log, and come with one read.
//!
//! A run is a shortcut only. If anything is wrong with it (its segment was released, a record
//! is damaged or of another version), its versions are read one by one, by the rules of
//! `read.rs`.

use crate::record_pointer::RecordPointer;

/// Longest run. A longer one saves little beside the system call, and a caller that keeps
/// one value keeps the memory of all that was read into the same buffer.
pub(crate) const RUN_BYTES_MAX: usize = 64 << 10;
/// Longest gap between two records of a run: reading it costs less than another read.
const GAP_BYTES_MAX: u64 = 1 << 10;

/// How many of these records go into their first run.
pub(crate) fn run_length(mut records: impl Iterator<Item = RecordPointer>) -> usize {
    let Some(first) = records.next() else {
        return 0;
    };
    let bounds = |record: RecordPointer| {
        let start = record.position().offset();
        (start, start + record.record_bytes())
    };
    let (start, mut end) = bounds(first);
    let mut last_start = start;
    let joins = |record: &RecordPointer| {
        let (its_start, its_end) = bounds(*record);
        let together = record.segment() == first.segment()
            && its_start >= last_start
            && its_start.saturating_sub(end) <= GAP_BYTES_MAX
            && its_end - start <= RUN_BYTES_MAX as u64;
        last_start = its_start;
        end = end.max(its_end);
        together
    };
    1 + records.take_while(joins).count()
}
