//! What lies in a log's directory when it is opened.
//!
//! Files with other names are left alone: other crates keep their files here.
//! A file under one of the log's names must be the log's in every respect.

mod home;

use std::path::Path;
use std::sync::Arc;

use environment::{Disk, File, OpenMode};

use crate::format::{
    FRAMES_START, REACH_NOTE_BYTES, REACH_NOTE_START, ReachNote, SEAL_NOTE_BYTES, SEAL_NOTE_START,
    SEGMENT_HEADER_BYTES, Salt, SealNote, SegmentHeader, Unreadable, VERSION,
};
use crate::segment::{Extent, FileName, Segment};
use crate::window::FileWindow;
use crate::{Error, SEGMENT_BYTES_MAX, SegmentKind};

pub(crate) use home::Home;

/// All files of the log, sorted by number.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub log: Vec<Arc<Segment>>,
    pub sorted: Vec<Arc<Segment>>,
    pub spares: Vec<u32>,
    /// One more than the highest id that any file names.
    pub next_id: u32,
    /// One more than the highest number of a spare.
    pub spare_number: u32,
}

/// Reads the directory; removes files that were left half made.
pub(crate) fn read(disk: &dyn Disk, directory: &Path) -> Result<Contents, Error> {
    disk.create_directories(directory)
        .map_err(Error::io("create", directory))?;
    let mut contents = Contents {
        next_id: 1,
        ..Contents::default()
    };
    let mut names = disk.list(directory).map_err(Error::io("list", directory))?;
    names.sort();
    for name in names.iter().filter_map(|name| FileName::parse(name)) {
        contents.add(disk, directory, name)?;
    }
    contents.log.sort_by_key(|segment| segment.id());
    contents.sorted.sort_by_key(|segment| segment.id());
    contents.check_salts()?;
    Ok(contents)
}

impl Contents {
    fn add(&mut self, disk: &dyn Disk, directory: &Path, name: FileName) -> Result<(), Error> {
        let path = name.in_directory(directory);
        match name {
            FileName::Segment(kind, id) => {
                let segment = open_segment(disk, &path, kind, id)?;
                self.next_id = self.next_id.max(id + 1);
                match kind {
                    SegmentKind::Log => self.log.push(segment),
                    SegmentKind::Sorted => self.sorted.push(segment),
                }
            }
            FileName::Spare(number) => {
                self.spare_number = self.spare_number.max(number + 1);
                self.spares.push(number);
                if let Some(header) = peek_header(disk, &path)? {
                    self.next_id = self.next_id.max(header.id + 1);
                }
            }
            FileName::Making(number) => {
                self.spare_number = self.spare_number.max(number + 1);
                disk.remove(&path).map_err(Error::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// An error unless all segments are of one log.
    fn check_salts(&self) -> Result<(), Error> {
        let segments = || self.log.iter().chain(&self.sorted);
        let salts: Vec<Salt> = segments().map(|it| it.header.salt).collect();
        let Some(home) = Home::of(&salts) else {
            return Ok(());
        };
        let foreign = segments().find_map(|it| Some((it, home.complaint(it.header.salt)?)));
        match foreign {
            None => Ok(()),
            Some((segment, what)) => Err(Error::Foreign {
                file: segment.path.clone(),
                what,
            }),
        }
    }
}

fn peek_header(disk: &dyn Disk, path: &Path) -> Result<Option<SegmentHeader>, Error> {
    let file = disk
        .open(path, OpenMode::Read)
        .map_err(Error::io("open", path))?;
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    let read = file
        .read_at(&mut bytes, 0)
        .map_err(Error::io("read", path))?;
    Ok(SegmentHeader::decode(&bytes[..read]).ok())
}

fn open_segment(
    disk: &dyn Disk,
    path: &Path,
    kind: SegmentKind,
    id: u32,
) -> Result<Arc<Segment>, Error> {
    let file = disk
        .open(path, OpenMode::ReadWrite)
        .map_err(Error::io("open", path))?;
    let mut bytes = [0; FRAMES_START as usize];
    let read = file
        .read_at(&mut bytes, 0)
        .map_err(Error::io("read", path))?;
    let header = SegmentHeader::decode(&bytes[..read]).map_err(|why| header_error(path, &why))?;
    check_header(&*file, path, &header, kind, id)?;
    let seal = &bytes[SEAL_NOTE_START as usize..][..SEAL_NOTE_BYTES];
    let extent = extent_of(seal, &header).unwrap_or(Extent::EMPTY);
    let reach = reach_of(
        &bytes[REACH_NOTE_START as usize..][..REACH_NOTE_BYTES],
        &header,
    );
    Ok(Arc::new(Segment::new(
        header,
        path.to_path_buf(),
        file,
        reach,
        extent,
    )))
}

fn header_error(path: &Path, why: &Unreadable) -> Error {
    match why {
        Unreadable::Foreign => Error::Foreign {
            file: path.to_path_buf(),
            what: "it has no segment header".into(),
        },
        Unreadable::Version(found) => Error::Version {
            file: path.to_path_buf(),
            found: *found,
            supported: VERSION,
        },
        Unreadable::Checksum => {
            Error::damaged(path, 0, "the segment header's checksum does not match")
        }
        Unreadable::Nonsense => Error::damaged(path, 0, "the segment header makes no sense"),
    }
}

fn check_header(
    file: &dyn File,
    path: &Path,
    header: &SegmentHeader,
    kind: SegmentKind,
    id: u32,
) -> Result<(), Error> {
    if header.id != id || header.kind != kind {
        let what = format!(
            "its header is that of {}",
            FileName::Segment(header.kind, header.id)
        );
        return Err(Error::Foreign {
            file: path.to_path_buf(),
            what,
        });
    }
    let size = file.size().map_err(Error::io("ask the size of", path))?;
    if header.segment_bytes > SEGMENT_BYTES_MAX || header.segment_bytes < 2 * FRAMES_START {
        return Err(Error::damaged(
            path,
            24,
            format!("a segment of {} bytes", header.segment_bytes),
        ));
    }
    if size < header.segment_bytes {
        let what = format!(
            "the file is cut short: {size} bytes of {}",
            header.segment_bytes
        );
        return Err(Error::damaged(path, size, what));
    }
    Ok(())
}

/// What the seal note says, when there is one of this segment.
fn extent_of(note: &[u8], header: &SegmentHeader) -> Option<Extent> {
    let SealNote {
        segment,
        end,
        first_tag,
        last_tag,
        ..
    } = SealNote::decode(note).ok()?;
    let fits = segment == header.id && (FRAMES_START..=header.segment_bytes).contains(&end);
    fits.then_some(Extent {
        end,
        sealed: true,
        first_tag,
        last_tag,
    })
}

/// What the reach note says; without one frames may be anywhere.
fn reach_of(note: &[u8], header: &SegmentHeader) -> u64 {
    match ReachNote::decode(note) {
        Ok(note) if note.segment == header.id => note.reach,
        _ => header.segment_bytes,
    }
}

/// Finds the extent of a segment without a seal note by its frame headers.
pub(crate) fn measure(segment: &Segment) -> Result<(), Error> {
    let mut extent = Extent {
        sealed: true,
        ..Extent::EMPTY
    };
    let mut window = FileWindow::new(
        segment,
        Arc::clone(&segment.file),
        segment.header.segment_bytes,
    );
    let mut last = None;
    while let Some(found) = window.header_behind(extent.end, |header| {
        last.is_none_or(|last| header.sequence > last)
    })? {
        last = Some(found.header.sequence);
        extent.note_tag(found.header.tag);
        extent.end = found.end();
    }
    segment.set_extent(extent);
    Ok(())
}
