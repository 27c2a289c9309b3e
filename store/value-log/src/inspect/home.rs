//! Tells which files are of a directory's log, by the rule that an opening uses.

use environment::{Disk, OpenMode};

use super::{Directory, SegmentFile, read_all};
use crate::SegmentKind;
use crate::directory::Home;
use crate::format::{SEGMENT_HEADER_BYTES, SegmentHeader, Unreadable};

/// The log that a directory holds, by most of its segments.
#[derive(Clone, Copy, Debug)]
pub struct HomeLog(Option<Home>);

impl Directory {
    /// Judges by the headers of all segments.
    pub fn home(&self, disk: &dyn Disk) -> HomeLog {
        let salts_of = |kind: SegmentKind| {
            let files = self.segments.iter().filter(move |file| file.kind == kind);
            files.filter_map(|file| match decode(file, disk)? {
                Ok(header) if is_named_rightly(file, &header) => Some(header.salt),
                _ => None,
            })
        };
        let salts: Vec<_> = salts_of(SegmentKind::Log)
            .chain(salts_of(SegmentKind::Sorted))
            .collect();
        HomeLog(Home::of(&salts))
    }
}

impl HomeLog {
    /// Why `file` is no segment of this log. `None` when it is one, damaged or
    /// not, or cannot be read.
    pub fn foreign(&self, file: &SegmentFile, disk: &dyn Disk) -> Option<String> {
        match decode(file, disk)? {
            Err(Unreadable::Foreign) => Some("it does not begin with a segment header".to_owned()),
            Err(_) => None,
            Ok(header) if !is_named_rightly(file, &header) => {
                Some(format!("its header belongs to segment {:08x}", header.id))
            }
            Ok(header) => self.0?.complaint(header.salt),
        }
    }
}

/// `None` when the file cannot be read.
fn decode(file: &SegmentFile, disk: &dyn Disk) -> Option<Result<SegmentHeader, Unreadable>> {
    let opened = disk.open(&file.path, OpenMode::Read).ok()?;
    match read_all(&opened, SEGMENT_HEADER_BYTES as u64) {
        (_, Some(_)) => None,
        (bytes, None) => Some(SegmentHeader::decode(&bytes)),
    }
}

fn is_named_rightly(file: &SegmentFile, header: &SegmentHeader) -> bool {
    (header.id, header.kind) == (file.id, file.kind)
}
