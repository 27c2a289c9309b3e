//! A log that still has its first frame: it holds the whole state, so that a
//! directory with missing or damaged checkpoints is rebuilt from it.
//!
//! ```text
//!   *.checkpoint   none usable
//!   log            segment with no segment before it ─► ... ─► end     no file missing
//!   sorted         none: what reclaim or a snapshot brought is not in the log
//! ```
//!
//! The walk over the log proves the rest: sequences and checksums chain from frame
//! to frame, entries begin with index 1, and revisions ascend by one.

use crate::Error;
use environment::Disk;
use std::path::Path;
use value_log::inspect::{Directory, SegmentFile};
use value_log::{Position, SegmentKind};

/// Where the log begins, or why it does not hold the whole state.
pub(crate) fn beginning(disk: &dyn Disk, directory: &Path) -> Result<Position, String> {
    let listed = Directory::list(disk, directory).map_err(|error| error.to_string())?;
    let segments = &listed.segments;
    if let Some(sorted) = segments.iter().find(|it| it.kind == SegmentKind::Sorted) {
        return Err(format!(
            "{} holds records that are in no other file",
            sorted.path.display()
        ));
    }
    let mut before = 0;
    for segment in segments {
        let header = segment.read_header(disk);
        let header =
            header.ok_or_else(|| format!("{} has no valid header", segment.path.display()))?;
        if header.previous != before {
            return Err(format!(
                "{} follows segment {:08x}, which is missing",
                segment.path.display(),
                header.previous
            ));
        }
        before = header.id;
    }
    check_last(disk, segments)?;
    let first = segments.first().ok_or("there is no segment of the log")?;
    Ok(Position::new(first.id, 0))
}

/// Refuses a sealed last segment: the log seals one only when the next one exists.
fn check_last(disk: &dyn Disk, segments: &[SegmentFile]) -> Result<(), String> {
    let Some(last) = segments.last() else {
        return Ok(());
    };
    let bytes = last.read(disk).map_err(|error| error.to_string())?;
    match bytes.seal() {
        Ok(Some(_)) => Err(format!(
            "{} is sealed, and the segment that follows it is missing",
            last.path.display()
        )),
        _ => Ok(()),
    }
}

/// A log that holds everything begins with the first entry there ever was.
pub(crate) fn check_first_entry(directory: &Path, first: Option<u64>) -> Result<(), Error> {
    match first {
        None | Some(1) => Ok(()),
        Some(index) => Err(Error::CheckpointMissing {
            directory: directory.into(),
            what: format!("its log begins with entry {index}"),
        }),
    }
}
