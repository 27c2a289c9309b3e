//! The SHA-256 that `etcdctl snapshot save` leaves behind the pages.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};

/// Bytes of the checksum.
const SUM_BYTES: u64 = 32;
/// Pages have multiples of this, so that a file's length tells whether a checksum follows.
const LENGTH_UNIT: u64 = 512;
const CHUNK_BYTES: usize = 1 << 20;

/// Whether a file is what was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It has no checksum, as etcd's member/snap/db.
    Missing,
    /// Its checksum fits its bytes.
    Whole,
    /// Its checksum does not fit its bytes, or its length fits neither a file with one nor without.
    Broken,
}

pub(crate) fn of(
    file: &File,
    length: u64,
    mut progress: impl FnMut(u64, u64),
) -> io::Result<Checksum> {
    match length % LENGTH_UNIT {
        0 => return Ok(Checksum::Missing),
        SUM_BYTES => {}
        _ => return Ok(Checksum::Broken),
    }
    let mut sum = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut at, end) = (0, length - SUM_BYTES);
    while at < end {
        // At most the length of the chunk.
        let bytes = (end - at).min(CHUNK_BYTES as u64) as usize;
        file.read_exact_at(&mut chunk[..bytes], at)?;
        sum.update(&chunk[..bytes]);
        at += bytes as u64;
        progress(bytes as u64, end);
    }
    let mut stored = [0; SUM_BYTES as usize];
    file.read_exact_at(&mut stored, end)?;
    match sum.finalize()[..] == stored {
        true => Ok(Checksum::Whole),
        false => Ok(Checksum::Broken),
    }
}
