//! Objects with changes, from batches to bytes and back.

use std::io::Read;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::{ZlibDecoder, ZlibEncoder};
use sha2::{Digest, Sha256};

use crate::batch::ChangeBatch;
use crate::format::{CHANGES_BYTES_MAX, HEADER_BYTES, SUM_BYTES};
use crate::header::Header;
use crate::name::{ObjectKind, ObjectName};
use crate::{Error, Mark};

/// Where an object belongs, and which process writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Id of the cluster.
    pub cluster: u64,
    /// Id of the history.
    pub history: u64,
    /// Random number of the process.
    pub nonce: u64,
}

/// Changes as they are stored.
#[derive(Clone, Debug)]
pub struct SealedChanges {
    /// The object's name.
    pub name: ObjectName,
    /// All its bytes.
    pub bytes: Bytes,
}

/// Changes that were read.
#[derive(Debug)]
pub struct OpenedChanges {
    /// At least one, ascending, each of which follows the one before.
    pub batches: Vec<ChangeBatch>,
    /// Of the last revision.
    pub mark: Mark,
}

/// Makes an object of batches, each of which follows the one before.
pub fn seal(origin: Origin, level: u8, batches: &[ChangeBatch]) -> SealedChanges {
    let (begin, end) = (batches.first(), batches.last());
    let (begin, end) = begin.zip(end).expect("an object has a batch");
    let mut plain = Vec::with_capacity(batches.iter().map(ChangeBatch::encoded_bytes).sum());
    batches.iter().for_each(|batch| batch.encode(&mut plain));
    let plain_bytes = plain.len() as u64;
    let name = ObjectName {
        cluster: origin.cluster,
        history: origin.history,
        nonce: origin.nonce,
        first: begin.first,
        last: end.last,
        time_ms: end.time_ms,
        kind: ObjectKind::Changes { level, plain_bytes },
    };
    let last_rows = batches.iter().rev().find(|batch| !batch.is_empty());
    let header = Header {
        name,
        begun_ms: begin.time_ms,
        compacted: -1,
        auth_revision: 0,
        hash: 0,
        mark: last_rows.map(ChangeBatch::mark).unwrap_or_default(),
        plain_bytes,
    };
    let mut bytes = header.encode().to_vec();
    let mut encoder = ZlibEncoder::new(&plain[..], Compression::fast());
    let compressed = encoder.read_to_end(&mut bytes);
    compressed.expect("bytes in memory can be read");
    let sum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&sum);
    let bytes = bytes.into();
    SealedChanges { name, bytes }
}

/// Reads an object, and checks everything about it.
pub fn open(name: &ObjectName, bytes: &Bytes) -> Result<OpenedChanges, Error> {
    let damaged = |problem: &str| Error::damaged(name, problem);
    if bytes.len() < HEADER_BYTES + SUM_BYTES {
        return Err(damaged("it was cut off"));
    }
    let header = Header::decode(name, bytes)?;
    let (body, sum) = bytes.split_at(bytes.len() - SUM_BYTES);
    if Sha256::digest(body)[..] != *sum {
        return Err(damaged("its SHA-256 does not fit its bytes"));
    }
    if header.plain_bytes > CHANGES_BYTES_MAX {
        return Err(damaged("it is larger than changes can be"));
    }
    let mut plain = Vec::new();
    let decoder = ZlibDecoder::new(&body[HEADER_BYTES..]);
    let inflated = decoder
        .take(header.plain_bytes + 1)
        .read_to_end(&mut plain)
        .map_err(|_| damaged("its payload is not compressed as it should be"))?;
    if inflated as u64 != header.plain_bytes {
        return Err(damaged("its payload has another length"));
    }
    let mut rest = Bytes::from(plain);
    let mut batches: Vec<ChangeBatch> = Vec::new();
    while !rest.is_empty() {
        let batch = ChangeBatch::decode(&mut rest).map_err(damaged)?;
        if batches
            .last()
            .is_some_and(|last| batch.first != last.last + 1)
        {
            return Err(damaged("a batch does not follow the one before"));
        }
        batches.push(batch);
    }
    let ends = batches.first().zip(batches.last());
    if ends.map(|(first, last)| (first.first, last.last)) != Some((name.first, name.last)) {
        return Err(damaged("it has other revisions than its name says"));
    }
    let mark = header.mark;
    Ok(OpenedChanges { batches, mark })
}
