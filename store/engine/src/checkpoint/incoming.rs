//! A checkpoint of a state that is not there yet, without a name: written while a snapshot is
//! received, in any order of its trees.
//!
//! ```text
//!   snapshot.partial   [head: zeros] state* segments marks overruled
//!                      entries of CURRENT, of HISTORY, of CURRENT ... foot
//!                         ▲ written last: where the log goes on is known when
//!                           the state is installed
//! ```
//!
//! Until it is renamed to a checkpoint's name the file means nothing; it is removed
//! when this is dropped or the directory is opened.

use super::block::{BlockWriter, block_at_start};
use super::entries::EntriesWriter;
use super::files;
use super::format::{BLOCK_BYTES, FILE_HEADER_BYTES, Foot, HEAD_BYTES, Head, Kind};
use crate::Error;
use crate::directory::Directory;
use crate::trees::OF_VERSIONS;
use environment::{File, OpenMode};
use ordered_index::IndexEntry;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes written between two flushes, so that the last one is no burst.
const SYNC_BYTES: u64 = 8 << 20;

#[derive(Debug)]
pub(crate) struct IncomingCheckpoint {
    pub(crate) directory: Directory,
    path: PathBuf,
    file: Arc<dyn File>,
    /// `None` once the file is complete but for its head.
    blocks: Option<BlockWriter>,
    trees: [EntriesWriter; OF_VERSIONS.len()],
    foot: Foot,
    file_bytes: u64,
    /// The file is a checkpoint now, or may be: it is not removed.
    left: bool,
}

impl IncomingCheckpoint {
    pub(crate) fn begin(directory: &Directory) -> Result<IncomingCheckpoint, Error> {
        let disk = &*directory.disk;
        files::remove(disk, &directory.path, files::INCOMING)?;
        let path = directory.path.join(files::INCOMING);
        let file = disk
            .open(&path, OpenMode::CreateNew)
            .map_err(Error::disk("create", &path))?;
        let mut checkpoint = IncomingCheckpoint {
            blocks: Some(BlockWriter::new(Arc::clone(&file))),
            trees: OF_VERSIONS.map(EntriesWriter::new),
            foot: Foot::default(),
            file_bytes: 0,
            left: false,
            directory: directory.clone(),
            path,
            file,
        };
        checkpoint.write(|blocks, _| blocks.block(Kind::Head, &[0; HEAD_BYTES]))?;
        Ok(checkpoint)
    }

    /// Adds a part of the state blob.
    pub(crate) fn add_state(&mut self, part: &[u8]) -> Result<(), Error> {
        self.foot.state_bytes += part.len() as u64;
        self.write(|blocks, _| {
            let mut pieces = part.chunks(BLOCK_BYTES);
            pieces.try_for_each(|piece| blocks.block(Kind::State, piece))
        })
    }

    /// Ends the state blob and writes empty tables: the new state knows nothing of the log.
    pub(crate) fn end_state(&mut self) -> Result<(), Error> {
        self.write(|blocks, _| {
            let mut tables = [Kind::Segments, Kind::Marks, Kind::Overruled].into_iter();
            tables.try_for_each(|kind| blocks.block(kind, &[]))
        })
    }

    /// Adds an entry of a tree, behind those that it has.
    pub(crate) fn add(&mut self, tree: usize, key: &[u8], entry: IndexEntry) -> Result<(), Error> {
        self.foot.count(tree, entry);
        self.write(|blocks, trees| {
            trees[tree].push(key, entry);
            if trees[tree].is_full() {
                trees[tree].flush(blocks)?;
            }
            if blocks.unsynced_bytes() >= SYNC_BYTES {
                blocks.sync()?;
            }
            Ok(())
        })
    }

    /// Writes the foot and makes the file stable, after everything was added.
    pub(crate) fn complete(&mut self) -> Result<(), Error> {
        let foot = self.foot.encode();
        self.write(|blocks, trees| {
            trees.iter_mut().try_for_each(|tree| tree.flush(blocks))?;
            blocks.block(Kind::Foot, &foot)
        })?;
        let blocks = self.blocks.take().expect("it is completed once");
        let finished = blocks
            .finish()
            .map_err(|error| self.directory.write_failed(&self.path, error));
        self.file_bytes = finished?;
        Ok(())
    }

    /// Writes the head, and makes it stable.
    pub(crate) fn write_head(&self, head: &Head) -> Result<(), Error> {
        assert!(self.blocks.is_none(), "a head is written last");
        let block = block_at_start(Kind::Head, &head.encode());
        let written = self
            .file
            .write_durable_at(&[&block], FILE_HEADER_BYTES as u64);
        written.map_err(|error| self.directory.write_failed(&self.path, error))
    }

    /// Gives the file the name of a checkpoint, in place of the one that has it.
    /// After an error it may have it or not.
    pub(crate) fn replace(&mut self, number: u64) -> Result<(), Error> {
        self.left = true;
        let Directory { disk, path, .. } = &self.directory;
        files::finish(&**disk, path, files::INCOMING, number)
    }

    /// Bytes of the complete file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn write(
        &mut self,
        step: impl FnOnce(&mut BlockWriter, &mut [EntriesWriter]) -> io::Result<()>,
    ) -> Result<(), Error> {
        let blocks = self.blocks.as_mut().expect("it is not complete");
        step(blocks, &mut self.trees)
            .map_err(|error| self.directory.write_failed(&self.path, error))
    }
}

impl Drop for IncomingCheckpoint {
    fn drop(&mut self) {
        if !self.left {
            // If this fails, the next import or opening removes it.
            let _ = self.directory.disk.remove(&self.path);
        }
    }
}
