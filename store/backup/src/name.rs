//! Names of objects. A name says what an object is and has, so that a plan needs a list alone.
//!
//! ```text
//!   CLUSTER/HISTORY/bases/REVISION-TIME-NONCE.base
//!   CLUSTER/HISTORY/changes/FIRST-LAST-LEVEL-BYTES-TIME-NONCE.changes
//! ```

use std::fmt::Display;
use std::str::FromStr;

use crate::format::{BASES, CHANGES};

/// Name of an object below the root of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// Id of the cluster.
    pub cluster: u64,
    /// Id of the history: grows with the time of its beginning.
    pub history: u64,
    /// Random number of the process that wrote it.
    pub nonce: u64,
    /// The first revision; of a base, its revision.
    pub first: i64,
    /// The last revision; one less than the first if it has none.
    pub last: i64,
    /// When the last revision was received, or the base was begun; Unix, in milliseconds.
    pub time_ms: u64,
    /// Its kind.
    pub kind: ObjectKind,
}

/// The kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A whole snapshot.
    Base,
    /// All rows of a range of revisions.
    Changes {
        /// How often its rows were merged.
        level: u8,
        /// Bytes of its payload before compression.
        plain_bytes: u64,
    },
}

impl ObjectName {
    /// The path below the root of the backup.
    pub fn path(&self) -> String {
        let (cluster, history) = (self.cluster, self.history);
        let (first, last, time, nonce) = (self.first, self.last, self.time_ms, self.nonce);
        let folder = format!("{cluster:016x}/{history:016x}");
        match self.kind {
            ObjectKind::Base => format!("{folder}/{BASES}/{first:019}-{time}-{nonce:016x}.base"),
            ObjectKind::Changes { level, plain_bytes } => format!(
                "{folder}/{CHANGES}/{first:019}-{last:019}-{level}-{plain_bytes}-{time}-{nonce:016x}.changes"
            ),
        }
    }

    /// The object of a path; `None` if the path is none of a backup.
    pub fn parse(path: &str) -> Option<ObjectName> {
        let mut folders = path.split('/');
        let cluster = hexadecimal(folders.next()?)?;
        let history = hexadecimal(folders.next()?)?;
        let (folder, file) = (folders.next()?, folders.next()?);
        let parts: Vec<&str> = file.strip_suffix(suffix(folder)?)?.split('-').collect();
        let (first, last, kind, rest) = match (folder, &parts[..]) {
            (BASES, [revision, rest @ ..]) => {
                let revision = decimal(revision)?;
                (revision, revision, ObjectKind::Base, rest)
            }
            (CHANGES, [first, last, level, plain_bytes, rest @ ..]) => {
                let (level, plain_bytes) = (decimal(level)?, decimal(plain_bytes)?);
                let kind = ObjectKind::Changes { level, plain_bytes };
                (decimal(first)?, decimal(last)?, kind, rest)
            }
            _ => return None,
        };
        let &[time, nonce] = rest else { return None };
        let name = ObjectName {
            cluster,
            history,
            nonce: hexadecimal(nonce)?,
            first,
            last,
            time_ms: decimal(time)?,
            kind,
        };
        // Another way to write the same numbers is another object.
        (name.path() == path && first <= last.checked_add(1)?).then_some(name)
    }

    /// Whether it is a whole snapshot.
    pub fn is_base(&self) -> bool {
        self.kind == ObjectKind::Base
    }

    /// Whether it has no revision, only leases and hashes.
    pub fn is_empty(&self) -> bool {
        self.last < self.first
    }

    /// Bytes of the payload of changes before compression; 0 for a base.
    pub fn plain_bytes(&self) -> u64 {
        match self.kind {
            ObjectKind::Base => 0,
            ObjectKind::Changes { plain_bytes, .. } => plain_bytes,
        }
    }
}

impl Display for ObjectName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.path())
    }
}

fn suffix(folder: &str) -> Option<&'static str> {
    match folder {
        BASES => Some(".base"),
        CHANGES => Some(".changes"),
        _ => None,
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

fn decimal<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(kind: ObjectKind) -> ObjectName {
        ObjectName {
            cluster: 0xcdf8_181e_3277_9a1f,
            history: 7,
            nonce: u64::MAX,
            first: 12,
            last: if kind == ObjectKind::Base { 12 } else { 900 },
            time_ms: 1_764_000_000_123,
            kind,
        }
    }

    #[test]
    fn a_name_is_read_as_it_was_written() {
        let (level, plain_bytes) = (2, 77);
        for kind in [ObjectKind::Base, ObjectKind::Changes { level, plain_bytes }] {
            let name = name(kind);
            assert_eq!(ObjectName::parse(&name.path()), Some(name), "{name}");
        }
    }

    #[test]
    fn other_paths_are_no_objects() {
        let base = name(ObjectKind::Base).path();
        for path in [
            "",
            "a/b",
            "notes.txt",
            &format!("{base}.part"),
            &format!("{base}/more"),
            &base.replace("bases", "changes"),
            &base.replace("-ffff", "-+fff"),
            &base.replace("0000000000000000012", "12"),
        ] {
            assert_eq!(ObjectName::parse(path), None, "{path}");
        }
    }
}
