//! Writing a checkpoint, beside writes and reads.

use super::block::BlockWriter;
use super::entries::EntriesWriter;
use super::files;
use super::format::{BLOCK_BYTES, Foot, Head, Kind};
use crate::Error;
use crate::live::SegmentLife;
use crate::overruled::Overruled;
use crate::parts::Parts;
use crate::revision_marks::RevisionMarks;
use crate::trees::OF_VERSIONS;
use environment::{Disk, Instant, OpenMode, Shortage};
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use value_log::Log;

/// Bytes written between two pauses of a paced checkpoint.
const PAUSE_BYTES: u64 = 1 << 20;

/// A checkpoint that has begun: all it needs from the applying thread.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) parts: Arc<Parts>,
    pub(crate) number: u64,
    pub(crate) head: Head,
    pub(crate) state: Vec<u8>,
    pub(crate) segments: Vec<(u32, SegmentLife)>,
    pub(crate) marks: RevisionMarks,
    pub(crate) overruled: Overruled,
    /// Sealed segments that nothing points into any more: released when the
    /// checkpoint is durable.
    pub(crate) dead: Vec<u32>,
    /// Written at the pace of the options, because no caller waits for it.
    pub(crate) paced: bool,
    /// When it is given up, because the end of a process waits for it.
    pub(crate) ends_at: Option<Instant>,
}

impl Job {
    /// Writes, makes durable, releases the dead segments. Returns the bytes
    /// of the file.
    pub(crate) fn run(self) -> Result<u64, Error> {
        let (parts, log) = (&self.parts, &self.parts.records.log_view.log);
        let (disk, directory) = (&*parts.directory.disk, &parts.directory.path);
        let partial = directory.join(files::PARTIAL);
        files::remove(disk, directory, files::PARTIAL)?;
        let bytes = self.write_in_the_room_there_is(&partial)?;
        // What the file points at, or says was applied, must outlive it: with
        // page-cache durability the log may be behind.
        log.flush()?;
        files::finish(disk, directory, files::PARTIAL, self.number)?;
        parts.counters.checkpoints.add(1);
        parts.counters.checkpoint_bytes.add(bytes);
        // An older one is of use only while everything it needs is there.
        let goes_alone =
            !self.dead.is_empty() || parts.directory.is_low_on_space(log.segment_bytes());
        let kept = if goes_alone { 1 } else { files::KEPT };
        files::remove_old(disk, directory, kept)?;
        parts.release(&self.dead)?;
        Ok(bytes)
    }

    /// Writes the file. On a full disk the older checkpoint goes first, and if that is not
    /// enough segments made ahead, when this checkpoint lets segments be released.
    fn write_in_the_room_there_is(&self, partial: &Path) -> Result<u64, Error> {
        let log = &self.parts.records.log_view.log;
        let (disk, directory) = (&*self.parts.directory.disk, &self.parts.directory.path);
        let mut outcome = self.write(partial);
        if lacks_room(&outcome) {
            files::remove(disk, directory, files::PARTIAL)?;
            files::remove_old(disk, directory, 1)?;
            outcome = self.write(partial);
        }
        let mut yielding = None;
        while lacks_room(&outcome) && !self.dead.is_empty() {
            files::remove(disk, directory, files::PARTIAL)?;
            yielding.get_or_insert(Yielding(log));
            if !log.yield_room()? {
                break;
            }
            outcome = self.write(partial);
        }
        if lacks_room(&outcome) {
            // The unfinished file takes room and has no use.
            files::remove(disk, directory, files::PARTIAL)?;
        }
        outcome.map_err(|error| self.parts.directory.write_failed(partial, error))
    }

    fn write(&self, path: &Path) -> io::Result<u64> {
        let file = self.parts.directory.disk.open(path, OpenMode::CreateNew)?;
        let mut blocks = BlockWriter::new(file);
        blocks.block(Kind::Head, &self.head.encode())?;
        for piece in self.state.chunks(BLOCK_BYTES) {
            blocks.block(Kind::State, piece)?;
        }
        self.write_segments(&mut blocks)?;
        self.write_marks(&mut blocks)?;
        self.write_overruled(&mut blocks)?;
        let mut foot = Foot {
            state_bytes: self.state.len() as u64,
            ..Foot::default()
        };
        // In this order: see the module above.
        for tree in OF_VERSIONS {
            self.write_tree(&mut blocks, tree, &mut foot)?;
        }
        blocks.block(Kind::Foot, &foot.encode())?;
        blocks.finish()
    }

    fn write_segments(&self, blocks: &mut BlockWriter) -> io::Result<()> {
        let mut payload = Vec::new();
        for (id, life) in &self.segments {
            payload.extend(id.to_le_bytes());
            payload.extend([0; 4]);
            payload.extend(life.last_main.to_le_bytes());
            payload.extend(life.last_index.to_le_bytes());
        }
        blocks.block(Kind::Segments, &payload)
    }

    fn write_marks(&self, blocks: &mut BlockWriter) -> io::Result<()> {
        let mut payload = Vec::new();
        for (main, position) in self.marks.iter() {
            payload.extend(main.to_le_bytes());
            payload.extend(position.to_bits().to_le_bytes());
            if payload.len() >= BLOCK_BYTES {
                blocks.block(Kind::Marks, &payload)?;
                payload.clear();
            }
        }
        blocks.block(Kind::Marks, &payload)
    }

    fn write_overruled(&self, blocks: &mut BlockWriter) -> io::Result<()> {
        let ends = self
            .overruled
            .iter()
            .flat_map(|(first, last)| [first, last]);
        let payload: Vec<u8> = ends
            .flat_map(|position| position.to_bits().to_le_bytes())
            .collect();
        blocks.block(Kind::Overruled, &payload)
    }

    fn write_tree(&self, blocks: &mut BlockWriter, tree: usize, foot: &mut Foot) -> io::Result<()> {
        let mut entries = EntriesWriter::new(tree);
        let mut done = false;
        while !done {
            done = self.fill_block(tree, &mut entries, foot);
            entries.flush(blocks)?;
            if self.parts.records.lifecycle.is_cancelled() {
                return Err(io::Error::new(
                    io::ErrorKind::Interrupted,
                    "it was cancelled",
                ));
            }
            if self.is_late() {
                let what = "it has taken too long for the end of a process";
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            if self.paced && blocks.unsynced_bytes() >= PAUSE_BYTES {
                self.pause(blocks)?;
            }
        }
        Ok(())
    }

    fn is_late(&self) -> bool {
        let now = || self.parts.options.clock.now();
        self.ends_at.is_some_and(|end| now() > end)
    }

    fn pause(&self, blocks: &mut BlockWriter) -> io::Result<()> {
        let options = &self.parts.options;
        let micros =
            blocks.unsynced_bytes() * 1_000_000 / options.background_bytes_per_second.max(1);
        blocks.sync()?;
        options.clock.sleep(Duration::from_micros(micros));
        Ok(())
    }

    /// Gathers the entries of the next block. True at the end of the tree.
    ///
    /// The index is pinned for that alone and not while the block is written, because what puts
    /// replace stays in memory until then, and a write may wait for the device.
    fn fill_block(&self, tree: usize, entries: &mut EntriesWriter, foot: &mut Foot) -> bool {
        let trees = self.parts.records.index.reader.pin();
        let mut cursor = trees.cursor(tree, entries.rest(), Bound::Unbounded);
        while !entries.is_full() {
            let Some((key, entry)) = cursor.next() else {
                return true;
            };
            foot.count(tree, entry);
            entries.push(key, entry);
        }
        false
    }
}

fn lacks_room(outcome: &io::Result<u64>) -> bool {
    let error = outcome.as_ref().err();
    error.is_some_and(|it| Shortage::of(it) == Some(Shortage::Room))
}

/// Lets the log make segments ahead again when it is dropped.
struct Yielding<'a>(&'a Log);

impl Drop for Yielding<'_> {
    fn drop(&mut self) {
        self.0.end_yielding();
    }
}

/// The checkpoint of a new directory, written before its log: from now on a
/// log without a checkpoint has lost one.
pub(crate) fn first(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
    let partial = directory.join(files::PARTIAL);
    let write = || {
        let mut blocks = BlockWriter::new(disk.open(&partial, OpenMode::CreateNew)?);
        blocks.block(Kind::Head, &Head::EMPTY.encode())?;
        blocks.block(Kind::Foot, &Foot::default().encode())?;
        blocks.finish()
    };
    write().map_err(Error::disk("write", &partial))?;
    files::finish(disk, directory, files::PARTIAL, files::FIRST)
}
