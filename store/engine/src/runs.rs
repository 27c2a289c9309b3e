//! Runs: records that lie together in the log, and come with one read.
//!
//! A run is a shortcut only. If anything is wrong with it (its segment was released, a record
//! is damaged or of another version), its versions are read one by one, by the rules of
//! `read.rs`.

use crate::read::Records;
use crate::record_pointer::RecordPointer;
use value_log::{Position, RecordBuffer};

/// Longest run. A longer one saves little beside the system call, and a caller that keeps
/// one value of a run keeps the memory of the whole run.
const RUN_BYTES_MAX: u64 = 64 << 10;
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
            && its_end - start <= RUN_BYTES_MAX;
        last_start = its_start;
        end = end.max(its_end);
        together
    };
    1 + records.take_while(joins).count()
}

/// The records of a run; `None` when one of them is not there or damaged.
pub(crate) fn try_run(
    records: &Records,
    run: impl Iterator<Item = RecordPointer>,
) -> Option<Vec<RecordBuffer>> {
    let run: Vec<(Position, usize)> = run
        .map(|record| (record.position(), record.record_bytes() as usize))
        .collect();
    let read = records.log_view.log.read_run(&run).ok()?;
    records.lifecycle.check_open().ok()?;
    Some(read)
}
