//! Reading a checkpoint in bulk. The file is input: nothing in it is trusted
//! before its checksum, and no length in it can make this panic.

use super::block::BlockReader;
use super::entries::read_entries;
use super::format::{Foot, Head, Kind, rows};
use crate::format::{u32_at, u64_at};
use crate::hidden;
use crate::history_key;
use crate::live::Live;
use crate::overruled::Overruled;
use crate::revision_marks::RevisionMarks;
use crate::state_hash;
use crate::trees::{CURRENT, HIDDEN, HISTORY, OF_VERSIONS, VersionEntry};
use environment::{Disk, OpenMode};
use ordered_index::{BulkLoad, IndexEntry};
use std::collections::BTreeSet;
use std::path::Path;
use value_log::Position;

/// A checkpoint in memory, its trees ready to install.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) head: Head,
    pub(crate) state: Vec<u8>,
    pub(crate) trees: [BulkLoad; OF_VERSIONS.len()],
    pub(crate) live: Live,
    /// Sum over the keys in the trees ([`crate::StateHash::keys`]).
    pub(crate) keys: u64,
    pub(crate) marks: RevisionMarks,
    pub(crate) overruled: Overruled,
    /// Greatest main revision in the trees: the log must reach at least that far.
    pub(crate) last_main: i64,
    pub(crate) file_bytes: u64,
}

/// Why a checkpoint cannot be used.
#[derive(Debug)]
pub(crate) struct Unusable {
    pub(crate) what: String,
    /// Its bytes verify and name a segment that is not there: so the log is not whole.
    pub(crate) names_lost_segment: bool,
}

impl Unusable {
    fn lost(what: String) -> Unusable {
        Unusable {
            what,
            names_lost_segment: true,
        }
    }
}

impl From<String> for Unusable {
    fn from(what: String) -> Unusable {
        Unusable {
            what,
            names_lost_segment: false,
        }
    }
}

impl From<&str> for Unusable {
    fn from(what: &str) -> Unusable {
        what.to_owned().into()
    }
}

/// Reads `path`. `present`: ids of the segments that exist; an entry that
/// points anywhere else makes the checkpoint unusable.
pub(crate) fn load(
    disk: &dyn Disk,
    path: &Path,
    present: &BTreeSet<u32>,
) -> Result<Loaded, Unusable> {
    let file = disk
        .open(path, OpenMode::Read)
        .map_err(|error| format!("cannot be opened: {error}"))?;
    let mut blocks = BlockReader::new(file)?;
    let (Kind::Head, payload) = block(&mut blocks)? else {
        return Err("it has no head".into());
    };
    let head = Head::decode(payload).ok_or("its head has another size")?;
    let replay = head.replay_position;
    if replay != Position::NONE && !present.contains(&replay.segment()) {
        return Err(Unusable::lost(format!(
            "the log no longer has {:?}, where it goes on",
            head.replay_position
        )));
    }
    let mut loader = Loader::new(head, present);
    loop {
        let (kind, payload) = block(&mut blocks)?;
        if kind == Kind::Foot {
            loader.check(&Foot::decode(payload).ok_or("its foot has another size")?)?;
            break;
        }
        loader.take(kind, payload)?;
    }
    if !blocks.at_end()? {
        return Err("something follows its foot".into());
    }
    loader.loaded.file_bytes = blocks.offset();
    Ok(loader.loaded)
}

fn block(blocks: &mut BlockReader) -> Result<(Kind, &[u8]), String> {
    let offset = blocks.offset();
    let block = blocks.block();
    block.map_err(|what| format!("block at byte {offset}: {what}"))
}

struct Loader<'a> {
    loaded: Loaded,
    seen: Foot,
    present: &'a BTreeSet<u32>,
    /// The segment of the entry before: neighbours often point into the same one.
    last_present: u32,
}

impl<'a> Loader<'a> {
    fn new(head: Head, present: &'a BTreeSet<u32>) -> Loader<'a> {
        let trees = OF_VERSIONS.map(|_| BulkLoad::new());
        let loaded = Loaded {
            head,
            state: Vec::new(),
            trees,
            live: Live::default(),
            keys: 0,
            marks: RevisionMarks::default(),
            overruled: Overruled::default(),
            last_main: 0,
            file_bytes: 0,
        };
        Loader {
            loaded,
            seen: Foot::default(),
            present,
            last_present: 0,
        }
    }

    fn take(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Unusable> {
        match kind {
            Kind::State => {
                self.loaded.state.extend(payload);
                self.seen.state_bytes += payload.len() as u64;
                Ok(())
            }
            Kind::Segments => Ok(self.take_segments(payload)?),
            Kind::Marks => Ok(self.take_marks(payload)?),
            Kind::Overruled => Ok(self.take_overruled(payload)?),
            Kind::Entries => read_entries(payload, |tree, key, entry| self.push(tree, key, entry)),
            Kind::Head | Kind::Foot => Err("it has two heads".into()),
        }
    }

    fn take_segments(&mut self, payload: &[u8]) -> Result<(), String> {
        let live = &mut self.loaded.live;
        for segment in rows(Kind::Segments, payload)? {
            let id = u32_at(segment, 0);
            if self.present.contains(&id) {
                live.passed(id, Some(u64_at(segment, 8) as i64), u64_at(segment, 16));
            }
        }
        Ok(())
    }

    fn take_marks(&mut self, payload: &[u8]) -> Result<(), String> {
        let marks = &mut self.loaded.marks;
        for mark in rows(Kind::Marks, payload)? {
            let position = Position::from_bits(u64_at(mark, 8));
            if self.present.contains(&position.segment()) {
                marks.restore(u64_at(mark, 0) as i64, position);
            }
        }
        Ok(())
    }

    fn take_overruled(&mut self, payload: &[u8]) -> Result<(), String> {
        for stretch in rows(Kind::Overruled, payload)? {
            let [first, last] = [0, 8].map(|at| Position::from_bits(u64_at(stretch, at)));
            let end = self.loaded.overruled.iter().next_back();
            if first > last || end.is_some_and(|(_, end)| end >= first) {
                return Err("its table of overruled frames is out of order".into());
            }
            if self.present.contains(&last.segment()) {
                self.loaded.overruled.add(first, last);
            }
        }
        Ok(())
    }

    fn push(&mut self, tree: usize, key: &[u8], entry: IndexEntry) -> Result<(), Unusable> {
        let version = VersionEntry::from(entry);
        let segment = version.pointer.segment();
        if segment != self.last_present && !self.present.contains(&segment) {
            return Err(Unusable::lost(format!(
                "it points into segment {segment:08x}, which is gone"
            )));
        }
        self.last_present = segment;
        if tree == HISTORY && !history_key::is_well_formed(key) {
            return Err("a key of its history is malformed".into());
        }
        if tree == HIDDEN && hidden::decode(key).is_none() {
            return Err("a key of its hidden versions is malformed".into());
        }
        if tree == CURRENT {
            let element = state_hash::of_key(key, version.main);
            self.loaded.keys = self.loaded.keys.wrapping_add(element);
        }
        self.loaded.live.born(version.pointer);
        self.seen.count(tree, entry);
        self.loaded.trees[tree]
            .push(key, entry)
            .map_err(|error| error.to_string().into())
    }

    fn check(&mut self, foot: &Foot) -> Result<(), String> {
        if self.seen != *foot {
            return Err(format!(
                "it holds {:?} where its foot says {foot:?}",
                self.seen
            ));
        }
        self.loaded.last_main = foot.last_main as i64;
        Ok(())
    }
}

const _: () = assert!(
    OF_VERSIONS[0] == 0 && OF_VERSIONS[1] == 1 && OF_VERSIONS[2] == 2,
    "tree numbers in the file"
);
