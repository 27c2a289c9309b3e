//! The header of an object: its kind, its cluster, and its revisions.

use crate::format::{HEADER_BYTES, KIND_BASE, KIND_CHANGES, MAGIC, SUM_BYTES, VERSION};
use crate::name::{ObjectKind, ObjectName};
use crate::{Error, Mark};

/// The description that an object begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub name: ObjectName,
    /// Time of the first batch, or when a snapshot was asked for; Unix, in milliseconds.
    pub begun_ms: u64,
    /// Compaction of a base; -1: none, and for changes.
    pub compacted: i64,
    /// Number of the state of users in a base; 0 for changes.
    pub auth_revision: u64,
    /// HashKV of a base; 0 for changes.
    pub hash: u32,
    /// Of the rows of the last revision.
    pub mark: Mark,
    /// Bytes of the payload before compression.
    pub plain_bytes: u64,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let name = &self.name;
        let (kind, level) = match name.kind {
            ObjectKind::Base => (KIND_BASE, 0),
            ObjectKind::Changes { level, .. } => (KIND_CHANGES, level),
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([kind, level]);
        bytes.extend(self.hash.to_le_bytes());
        for number in [name.cluster, name.history, name.nonce] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [name.first, name.last, self.compacted] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [
            self.begun_ms,
            name.time_ms,
            self.auth_revision,
            self.plain_bytes,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.mark.0);
        bytes.try_into().expect("the fields fill the header")
    }

    /// Reads the header of the object `name`, and compares both.
    pub fn decode(name: &ObjectName, bytes: &[u8]) -> Result<Header, Error> {
        let damaged = |problem: &str| Error::damaged(name.path(), problem);
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
            return Err(damaged("it does not begin as an object of a backup"));
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            let object = name.path();
            return Err(Error::Version { object, version });
        }
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let i64_at = |at: usize| u64_at(at) as i64;
        let plain_bytes = u64_at(88);
        let kind = match bytes[10] {
            KIND_BASE => ObjectKind::Base,
            KIND_CHANGES => ObjectKind::Changes {
                level: bytes[11],
                plain_bytes,
            },
            _ => return Err(damaged("it is neither a base nor changes")),
        };
        let header = Header {
            name: ObjectName {
                cluster: u64_at(16),
                history: u64_at(24),
                nonce: u64_at(32),
                first: i64_at(40),
                last: i64_at(48),
                time_ms: u64_at(72),
                kind,
            },
            compacted: i64_at(56),
            begun_ms: u64_at(64),
            auth_revision: u64_at(80),
            hash: u32::from_le_bytes(bytes[12..16].try_into().expect("4 bytes")),
            mark: Mark(bytes[96..96 + SUM_BYTES].try_into().expect("32 bytes")),
            plain_bytes,
        };
        match header.name == *name {
            true => Ok(header),
            false => Err(damaged("it is another object than its name says")),
        }
    }
}
