//! Cutting a log in front of damage, while it is not open.
//!
//! ```text
//!   before   frame ─ frame ─ ✗ damaged ✗ ─ frame ─ frame │ next segment │ ..
//!   after    frame ─ frame ─ [last words] 0 0 0 0 0 0 0    .damaged       .damaged
//!                            └ what must outlive the cut
//! ```
//!
//! [`survey`] walks as an opening does and writes nothing. [`cut`] keeps every byte: the
//! segment's file is copied and later segments are renamed. Each step leaves a log that
//! is refused as before, or is cut: the records that must outlive the cut are stable in
//! front of the damage before anything behind it goes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::{Disk, File, OpenMode};

use crate::directory::{self, Contents};
use crate::format::{
    BLOCK_BYTES, FRAME_HEADER_BYTES, FRAMES_START, FrameHeader, SEAL_NOTE_BYTES, SEAL_NOTE_START,
    Salt,
};
use crate::frame::{Chain, Finisher, encode_group};
use crate::inspect::Link;
use crate::record::records_bytes;
use crate::recovery::{Reached, Visit, Walker};
use crate::window::FileWindow;
use crate::{Body, Error, Group, Options, Position, Record, Sequence, Tag};

/// Bytes copied or cleared at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Room that the last words may need: a block that is not filled, and the frame.
const LAST_WORDS_BYTES_MAX: u64 = 2 * BLOCK_BYTES;
/// Names that are tried for a copy.
const COPIES_MAX: u32 = 1000;

/// A place where a log can be cut: the end of its last sound frame.
#[derive(Clone, Debug)]
pub struct Cut {
    /// File of the segment.
    pub file: PathBuf,
    /// The place.
    pub position: Position,
    /// What is wrong behind it.
    pub what: String,
    /// The last sound frame: what follows must refer to it.
    pub link: Link,
    /// Files of the segments behind, in order.
    pub beyond: Vec<PathBuf>,
    /// Highest epoch that was found.
    epoch: u32,
    synced_up_to: Position,
    salt: Salt,
    segment_bytes: u64,
}

/// Walks the log as an opening would. `None`: it can be opened. An error: it cannot be
/// read, or nothing of it is left.
pub fn survey(
    disk: &dyn Disk,
    path: &Path,
    options: &Options,
    replay_from: Option<Position>,
    visit: &mut Visit<'_>,
) -> Result<Option<Cut>, Error> {
    let contents = directory::read(disk, path)?;
    let replay_from = replay_from.filter(|&from| from != Position::NONE);
    if contents.log.is_empty() {
        return Err(Error::damaged(path, 0, "there is no segment of a log"));
    }
    let mut show = |group: &Group<'_>| visit(group);
    let walker = Walker::begin(disk, path, &contents, replay_from, options, &mut show)?;
    let reached = walker.survey()?;
    reached
        .map(|(reached, error)| found(disk, &contents, &reached, &error))
        .transpose()
}

fn found(
    disk: &dyn Disk,
    contents: &Contents,
    reached: &Reached,
    error: &Error,
) -> Result<Cut, Error> {
    let Some(last) = reached.last else {
        return Err(error.clone());
    };
    let reached = &in_next_where_full(contents, *reached);
    let segment = &contents.log[reached.index];
    let mut epoch = last.epoch;
    for (at, behind) in contents.log.iter().enumerate().skip(reached.index) {
        epoch = epoch.max(behind.header.epoch);
        let from = if at == reached.index {
            reached.end
        } else {
            FRAMES_START
        };
        let file = disk
            .open(&behind.path, OpenMode::Read)
            .map_err(Error::io("open", &behind.path))?;
        let mut window = FileWindow::sweeping(behind, file, behind.search_limit(from));
        let mut offset = from;
        let is_later = |header: &FrameHeader| header.epoch > 0;
        while let Some(found) = window.search(offset, is_later)? {
            epoch = epoch.max(found.header.epoch);
            offset = found.start + 8;
        }
    }
    Ok(Cut {
        file: segment.path.clone(),
        position: segment.position(reached.end),
        what: error.to_string(),
        link: Link {
            sequence: last.sequence.0,
            epoch: last.epoch,
            crc: last.crc,
        },
        beyond: contents.log[reached.index + 1..]
            .iter()
            .map(|it| it.path.clone())
            .collect(),
        epoch,
        synced_up_to: last.synced_up_to,
        salt: segment.header.salt,
        segment_bytes: segment.header.segment_bytes,
    })
}

/// A segment that is nearly full may have no room for the last words: they go to the next
/// one, which follows it.
fn in_next_where_full(contents: &Contents, reached: Reached) -> Reached {
    let here = &contents.log[reached.index];
    let next = contents.log.get(reached.index + 1);
    let is_full = reached.end + LAST_WORDS_BYTES_MAX > here.header.segment_bytes;
    match next.filter(|next| is_full && next.header.previous == here.id()) {
        Some(_) => Reached {
            index: reached.index + 1,
            end: FRAMES_START,
            ..reached
        },
        None => reached,
    }
}

/// Cuts the log, with a group of `records` as its last words. Returns the files that
/// hold what was cut off. The caller has the directory to itself.
pub fn cut(disk: &dyn Disk, cut: &Cut, records: &[Record<'_>]) -> Result<Vec<PathBuf>, Error> {
    let file = disk
        .open(&cut.file, OpenMode::ReadWrite)
        .map_err(Error::io("open", &cut.file))?;
    let mut aside = vec![keep_copy(disk, &cut.file, &*file)?];
    let (frame, start) = last_words(cut, records)?;
    file.write_durable_at(&[&frame], start)
        .map_err(Error::io("write", &cut.file))?;
    let end = start + frame.len() as u64;
    clear(&*file, &cut.file, end, cut.segment_bytes)?;
    file.write_durable_at(&[&[0; SEAL_NOTE_BYTES]], SEAL_NOTE_START)
        .map_err(Error::io("write", &cut.file))?;
    for beyond in cut.beyond.iter().rev() {
        let to = free_name(disk, beyond)?;
        disk.rename(beyond, &to)
            .map_err(Error::io("rename", beyond))?;
        aside.push(to);
    }
    sync_directory_of(disk, &cut.file)?;
    Ok(aside)
}

/// The frame that comes last, and where it goes.
fn last_words(cut: &Cut, records: &[Record<'_>]) -> Result<(Vec<u8>, u64), Error> {
    let length = FRAME_HEADER_BYTES + records_bytes(records);
    let mut frame = vec![0; length];
    encode_group(&mut frame, Tag::default(), &[&Body::encode(records)]);
    let mut chain = Chain {
        salt: cut.salt,
        epoch: cut.epoch,
        next: Sequence(cut.link.sequence + 1),
        previous_crc: cut.link.crc,
        synced_up_to: cut.synced_up_to,
    };
    Finisher::default().finish(&mut frame, cut.position.segment(), &mut chain);
    let end = cut.position.offset();
    let touches_two = end % BLOCK_BYTES + length as u64 > BLOCK_BYTES;
    let start = match touches_two {
        true => end.next_multiple_of(BLOCK_BYTES),
        false => end,
    };
    if start + length as u64 > cut.segment_bytes {
        let what = "the damage begins at the segment's end, and there is no room to cut it off";
        return Err(Error::damaged(&cut.file, end, what));
    }
    Ok((frame, start))
}

fn keep_copy(disk: &dyn Disk, path: &Path, file: &dyn File) -> Result<PathBuf, Error> {
    let to = free_name(disk, path)?;
    let copy: Arc<dyn File> = disk
        .open(&to, OpenMode::CreateNew)
        .map_err(Error::io("create", &to))?;
    let size = file.size().map_err(Error::io("ask the size of", path))?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < size {
        // What the device cannot read is zeros in the copy.
        piece.fill(0);
        let wanted = (size - at).min(PIECE_BYTES as u64) as usize;
        let _ = file.read_at(&mut piece[..wanted], at);
        copy.write_at(&[&piece[..wanted]], at)
            .map_err(Error::io("write", &to))?;
        at += wanted as u64;
    }
    copy.sync_data().map_err(Error::io("flush", &to))?;
    sync_directory_of(disk, path)?;
    Ok(to)
}

/// A name beside `path` that no file has.
pub fn free_name(disk: &dyn Disk, path: &Path) -> Result<PathBuf, Error> {
    let (directory, name) = split(path);
    let names = disk.list(directory).map_err(Error::io("list", directory))?;
    let mut candidates = (1..COPIES_MAX).map(|number| match number {
        1 => format!("{name}.damaged"),
        number => format!("{name}.damaged-{number}"),
    });
    let free = candidates.find(|it| !names.contains(it));
    free.map(|name| directory.join(name))
        .ok_or_else(|| Error::Misuse {
            what: format!(
                "{} holds too many copies of {name}: move those away that end in .damaged",
                directory.display()
            ),
        })
}

fn split(path: &Path) -> (&Path, String) {
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    let name = path.file_name().unwrap_or_default();
    (directory, name.to_string_lossy().into_owned())
}

fn sync_directory_of(disk: &dyn Disk, path: &Path) -> Result<(), Error> {
    let (directory, _) = split(path);
    disk.sync_directory(directory)
        .map_err(Error::io("sync directory", directory))
}

fn clear(file: &dyn File, path: &Path, from: u64, to: u64) -> Result<(), Error> {
    let zeros = vec![0; PIECE_BYTES];
    let mut at = from;
    while at < to {
        let bytes = (to - at).min(PIECE_BYTES as u64) as usize;
        file.write_at(&[&zeros[..bytes]], at)
            .map_err(Error::io("write", path))?;
        at += bytes as u64;
    }
    file.sync_data().map_err(Error::io("flush", path))
}
