//! Groups of the log that a restart replays although a record in them is damaged.
//!
//! ```text
//!   frame header   verifies, and proves with its digest which records it was written with
//!   record         fails its checksum ─┬─ proved by what is left ─► replayed as it was
//!                                      └─ not                    ─► the log is damaged here
//! ```
//!
//! The key stands in a record once. While the engine runs the index knows it; at a
//! restart it does not, so a record that is not proved as a whole may be of any key.

use crate::format::KIND_KEY;
use crate::{Error, salvage};
use std::path::Path;
use value_log::{Group, Log, Position, Record};

/// Records that fail their checksums and are proved, by number, and their payloads.
/// Fails where one is not.
pub(crate) fn of(directory: &Path, group: &Group<'_>) -> Result<Vec<(usize, Vec<u8>)>, Error> {
    let proved = group.damaged.iter().map(|&number| {
        let payload = proved(group, number).ok_or_else(|| damaged(directory, group, number));
        payload.map(|payload| (number, payload))
    });
    proved.collect()
}

fn proved(group: &Group<'_>, number: usize) -> Option<Vec<u8>> {
    let (_, kind, payload) = group.records[number];
    let suspect = group.suspect(number)?;
    // The frame has proved it: only the checksum on the disk is damaged.
    if suspect.was(kind, payload) {
        return Some(payload.to_vec());
    }
    if kind != KIND_KEY {
        return None;
    }
    let whole = salvage::unnamed_payload(&suspect)?;
    (whole.len() == payload.len()).then_some(whole)
}

/// Writes proved records again where they are. What cannot be written is found damaged
/// again when it is read.
pub(crate) fn write_again(log: &Log, mended: &[(Position, u8, Vec<u8>)]) {
    for (position, kind, payload) in mended {
        let record = Record {
            kind: *kind,
            parts: &[payload],
        };
        match log.mend(*position, &record) {
            Ok(_) => tracing::warn!(?position, "a damaged record was proved and written again"),
            Err(error) => tracing::warn!(%error, "a damaged record was not written again"),
        }
    }
}

fn damaged(directory: &Path, group: &Group<'_>, number: usize) -> Error {
    let position = group.records[number].0;
    Error::LogDamaged {
        file: directory.join(format!("{:08x}.log", position.segment())),
        offset: position.offset(),
        what: "a record that a restart needs fails its checksum".to_owned(),
    }
}
