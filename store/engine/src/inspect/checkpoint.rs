//! Verifying a checkpoint: it is read block by block, nothing is kept, and every
//! entry is shown to a visitor.

use std::path::{Path, PathBuf};

use environment::{Disk, OpenMode};
use value_log::Position;

use crate::Error;
use crate::checkpoint::block::BlockReader;
use crate::checkpoint::entries::read_entries;
use crate::checkpoint::files;
use crate::checkpoint::format::{Foot, Head, Kind, rows};
use crate::hidden;
use crate::history_key;
use crate::trees::{CURRENT, HIDDEN, HISTORY, VersionEntry};

/// A checkpoint's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFile {
    /// Its number; the greatest is the newest.
    pub number: u64,
    /// Where it is.
    pub path: PathBuf,
}

/// What a checkpoint says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Term of the last batch it holds.
    pub applied_term: u64,
    /// Index of that batch.
    pub applied_index: u64,
    /// The log is replayed from here on.
    pub replay_position: Position,
    /// Last main revision.
    pub revision: i64,
    /// Last compacted main revision; -1: never.
    pub compacted: i64,
    /// Greatest main revision any entry points at.
    pub last_main: i64,
    /// Keys that exist.
    pub keys: u64,
    /// Superseded versions and tombstones.
    pub superseded: u64,
    /// Bytes of the state blob.
    pub state_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// A part of a checkpoint that does not verify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where in the file.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

/// An entry: a version of a key, and where the log holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Main revision of the version.
    pub main: i64,
    /// True for a deletion.
    pub tombstone: bool,
    /// Where its record is.
    pub position: Position,
    /// The whole record, header and padding included.
    pub record_bytes: u64,
}

/// The checkpoints in `directory`, newest first.
pub fn checkpoints(disk: &dyn Disk, directory: &Path) -> Result<Vec<CheckpointFile>, Error> {
    let names = files::list(disk, directory)?;
    let numbers = files::numbers(&names).into_iter();
    Ok(numbers
        .map(|number| CheckpointFile {
            number,
            path: files::path(directory, number),
        })
        .collect())
}

/// Whether `name` is a file that checkpoints leave in a directory.
pub fn is_checkpoint_name(name: &str) -> bool {
    [files::PARTIAL, files::INCOMING].contains(&name)
        || !files::numbers(&[name.to_owned()]).is_empty()
}

impl CheckpointFile {
    /// Reads all of it, checks every block, shows every entry.
    pub fn verify(
        &self,
        disk: &dyn Disk,
        visit: &mut dyn FnMut(Pointer<'_>),
    ) -> Result<Checkpoint, Damage> {
        let at_start = |what: String| Damage { offset: 0, what };
        let cannot = |error: std::io::Error| at_start(error.to_string());
        let file = disk.open(&self.path, OpenMode::Read).map_err(cannot)?;
        let file_bytes = file.size().map_err(cannot)?;
        let mut blocks = BlockReader::new(file).map_err(at_start)?;
        let mut pass = Pass::default();
        loop {
            let offset = blocks.offset();
            let (kind, payload) = blocks.block().map_err(|what| Damage {
                offset,
                what: format!("block: {what}"),
            })?;
            let taken = pass.take(kind, payload, visit);
            taken.map_err(|what| Damage {
                offset,
                what: what.to_owned(),
            })?;
            if kind == Kind::Foot {
                break;
            }
        }
        let end = blocks.offset();
        match blocks.at_end() {
            Ok(true) => Ok(pass.summary(file_bytes)),
            Ok(false) => Err(Damage {
                offset: end,
                what: "something follows its foot".to_owned(),
            }),
            Err(what) => Err(Damage { offset: end, what }),
        }
    }
}

/// What has been read so far.
#[derive(Default)]
struct Pass {
    head: Option<Head>,
    seen: Foot,
    /// The key of an entry of HISTORY.
    user_key: Vec<u8>,
}

impl Pass {
    fn take(
        &mut self,
        kind: Kind,
        payload: &[u8],
        visit: &mut dyn FnMut(Pointer<'_>),
    ) -> Result<(), &'static str> {
        match (kind, self.head) {
            (Kind::Head, None) => {
                self.head = Some(Head::decode(payload).ok_or("its head has another size")?)
            }
            (Kind::Head, Some(_)) => return Err("it has two heads"),
            (_, None) => return Err("it has no head"),
            (Kind::State | Kind::Segments | Kind::Marks | Kind::Overruled, _)
                if self.seen.entries.iter().any(|&entries| entries > 0) =>
            {
                return Err("a table follows its entries");
            }
            (Kind::State, _) => self.seen.state_bytes += payload.len() as u64,
            (Kind::Segments | Kind::Marks | Kind::Overruled, _) => drop(rows(kind, payload)?),
            (Kind::Entries, _) => read_entries(payload, |tree, key, entry| {
                self.seen.count(tree, entry);
                visit(self.pointer(tree, key, VersionEntry::from(entry))?);
                Ok::<(), &'static str>(())
            })?,
            (Kind::Foot, _) if Foot::decode(payload) != Some(self.seen) => {
                return Err("its foot does not sum what it holds");
            }
            (Kind::Foot, _) => {}
        }
        Ok(())
    }

    fn pointer<'k>(
        &'k mut self,
        tree: usize,
        mut key: &'k [u8],
        version: VersionEntry,
    ) -> Result<Pointer<'k>, &'static str> {
        if tree == HISTORY {
            if !history_key::is_well_formed(key) {
                return Err("a key of its history is malformed");
            }
            let main = history_key::decode(key, &mut self.user_key);
            if main != version.main as u64 {
                return Err("a key of its history names another revision");
            }
            key = &self.user_key;
        }
        if tree == HIDDEN {
            let (main, user_key) =
                hidden::decode(key).ok_or("a key of its hidden versions is malformed")?;
            if main != version.main as u64 {
                return Err("a key of its hidden versions names another revision");
            }
            key = user_key;
        }
        let pointer = version.pointer;
        let (position, record_bytes) = (pointer.position(), pointer.record_bytes());
        Ok(Pointer {
            key,
            main: version.main,
            tombstone: version.tombstone,
            position,
            record_bytes,
        })
    }

    fn summary(&self, file_bytes: u64) -> Checkpoint {
        let head = self.head.expect("the foot is refused before a head");
        Checkpoint {
            applied_term: head.applied_term,
            applied_index: head.applied_index,
            replay_position: head.replay_position,
            revision: head.revision,
            compacted: head.compacted,
            last_main: self.seen.last_main as i64,
            keys: self.seen.entries[CURRENT],
            superseded: self.seen.entries[HISTORY] + self.seen.entries[HIDDEN],
            state_bytes: self.seen.state_bytes,
            file_bytes,
        }
    }
}
