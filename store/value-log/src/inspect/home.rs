//! Tells which files are of a directory's log, by the rule that an opening uses.

use environment::Disk;

use super::{Directory, SegmentFile};
use crate::SegmentKind;
use crate::directory::Home;
use crate::format::Unreadable;

/// The log that a directory holds, by most of its segments.
#[derive(Clone, Copy, Debug)]
pub struct HomeLog(Option<Home>);

impl Directory {
    /// Judges by the headers of all segments.
    pub fn home(&self, disk: &dyn Disk) -> HomeLog {
        let salts_of = |kind: SegmentKind| {
            let files = self.segments.iter().filter(move |file| file.kind == kind);
            files.filter_map(|file| Some(file.read_header(disk)?.salt))
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
        match file.decode_header(disk)? {
            Err(Unreadable::Foreign) => Some("it does not begin with a segment header".to_owned()),
            Err(_) => None,
            Ok(header) if !file.is_named_by(&header) => {
                Some(format!("its header belongs to segment {:08x}", header.id))
            }
            Ok(header) => self.0?.complaint(header.salt),
        }
    }
}
