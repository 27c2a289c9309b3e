//! One segment file, and all that are there.
//!
//! A segment's handle stays open for the segment's life. Readers find it
//! through a lock that is held for a map look-up only, never over I/O.
//!
//! A released file is renamed and overwritten later, while a reader may still
//! hold the handle; so a reader looks at `released` after it has read: unset
//! means that the bytes are those of the segment it asked for. A reader that does not copy them pins the
//! segment instead (`pins.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, PoisonError, RwLock};

use environment::{File, Mutex};

use crate::format::{FRAMES_START, ReachNote, SegmentHeader};
use crate::pins::Pins;
use crate::{Blocks, Position, SegmentInfo, SegmentKind, Tag};

/// How far a segment is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// End of the last frame that is done (not merely appended).
    pub end: u64,
    /// Nothing will be added.
    pub sealed: bool,
    /// Tag of the first tagged group, zero when there is none.
    pub first_tag: Tag,
    /// Tag of the last tagged group.
    pub last_tag: Tag,
}

impl Extent {
    /// Nothing in it yet.
    pub const EMPTY: Extent = Extent {
        end: FRAMES_START,
        sealed: false,
        first_tag: NO_TAG,
        last_tag: NO_TAG,
    };

    /// Takes note of one more group.
    pub fn note_tag(&mut self, tag: Tag) {
        if tag != NO_TAG {
            self.last_tag = tag;
            if self.first_tag == NO_TAG {
                self.first_tag = tag;
            }
        }
    }

    /// Takes note that the last group, which had the tag `before`, became longer.
    pub fn note_longer(&mut self, before: Tag, tag: Tag) {
        assert_eq!(before, self.last_tag, "it is the last group");
        if self.first_tag == before {
            self.first_tag = tag;
        }
        self.last_tag = tag;
    }
}

/// The tag of an untagged group.
pub(crate) const NO_TAG: Tag = Tag {
    term: 0,
    index: 0,
    first: 0,
    last: 0,
};

/// Number of steps in which a segment's reach moves; each step costs one more flush.
const REACH_STEPS: u64 = 8;
/// Steps are no smaller than this.
const REACH_STEP_BYTES_MIN: u64 = 64 << 10;

/// The reach of a segment for frames that end at `end`, of which the blocks of `ready_bytes` are
/// ready. Written blocks that are not ready are not covered: zeros are written there later.
pub(crate) fn reach_for(header: &SegmentHeader, end: u64, ready_bytes: u64) -> ReachNote {
    let step = (header.segment_bytes / REACH_STEPS).max(REACH_STEP_BYTES_MIN);
    let limit = match header.blocks {
        Blocks::Written => ready_bytes,
        Blocks::Reserved => header.segment_bytes,
    };
    ReachNote {
        segment: header.id,
        reach: end.next_multiple_of(step).min(limit),
    }
}

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub header: SegmentHeader,
    /// Its name while it is in use.
    pub path: PathBuf,
    pub file: Arc<dyn File>,
    /// What its reach note said at opening: no frame ended beyond this.
    pub reach: u64,
    /// Bytes from the start of the file of which the blocks are ready. Frames end before; it only grows.
    ready_bytes: AtomicU64,
    extent: Mutex<Extent>,
    /// Pins of readers that look at its bytes without a copy.
    pub pins: Pins,
    released: AtomicBool,
}

impl Segment {
    /// A segment as its header and its reach note describe it.
    pub fn new(
        header: SegmentHeader,
        path: PathBuf,
        file: Arc<dyn File>,
        reach: u64,
        extent: Extent,
    ) -> Segment {
        let ready_bytes = match (header.grows, header.blocks) {
            (false, _) => header.segment_bytes,
            (true, Blocks::Written) => reach.clamp(FRAMES_START, header.segment_bytes),
            (true, Blocks::Reserved) => FRAMES_START,
        };
        Segment {
            header,
            path,
            file,
            reach,
            ready_bytes: AtomicU64::new(ready_bytes),
            extent: Mutex::new(extent),
            pins: Pins::new(),
            released: AtomicBool::new(false),
        }
    }

    pub fn id(&self) -> u32 {
        self.header.id
    }

    /// Bytes from the start of the file of which the blocks are ready.
    pub fn ready_bytes(&self) -> u64 {
        self.ready_bytes.load(Ordering::Acquire)
    }

    /// Notes that the blocks before `bytes` are ready.
    pub fn note_ready(&self, bytes: u64) {
        assert!(
            bytes <= self.header.segment_bytes,
            "{bytes} bytes ready of {self:?}"
        );
        self.ready_bytes.fetch_max(bytes, Ordering::AcqRel);
    }

    /// Whether all blocks are ready.
    pub fn is_ready(&self) -> bool {
        self.ready_bytes() == self.header.segment_bytes
    }

    pub fn extent(&self) -> Extent {
        *self.extent.lock()
    }

    pub fn set_extent(&self, extent: Extent) {
        assert!(
            extent.end <= self.header.segment_bytes,
            "{extent:?} exceeds the segment"
        );
        assert!(
            extent.end.is_multiple_of(8),
            "{extent:?} ends within a frame"
        );
        *self.extent.lock() = extent;
    }

    /// Offset at which a search from `from` may end. If `from` lies beyond the reach note, the
    /// device has an older note than the last one, and it is ignored.
    pub fn search_limit(&self, from: u64) -> u64 {
        match self.reach {
            reach if (from..=self.header.segment_bytes).contains(&reach) => reach,
            _ => self.header.segment_bytes,
        }
    }

    pub fn position(&self, offset: u64) -> Position {
        Position::new(self.id(), offset)
    }

    /// Whether bytes read *before* this call may be another segment's.
    pub fn is_released(&self) -> bool {
        fence(Ordering::SeqCst);
        self.released.load(Ordering::SeqCst)
    }

    /// Call before the file is overwritten.
    pub fn set_released(&self) {
        self.released.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    pub fn info(&self) -> SegmentInfo {
        let Extent {
            end,
            sealed,
            first_tag,
            last_tag,
        } = self.extent();
        SegmentInfo {
            id: self.id(),
            kind: self.header.kind,
            used_bytes: end,
            sealed,
            first: self.position(FRAMES_START),
            first_tag,
            last_tag,
        }
    }
}

/// All segments in use.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    map: RwLock<BTreeMap<u32, Arc<Segment>>>,
}

impl Segments {
    /// Adds a segment, which can be read from now on.
    pub fn insert(&self, segment: Arc<Segment>) {
        let id = segment.id();
        // A segment's file has its whole size from the beginning, and is not cut. This is not
        // called earlier: recovery may make the kernel drop a page, which must not be mapped then.
        segment.file.keep_size();
        let before = self
            .map
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, segment);
        assert!(before.is_none(), "segment {id} is used twice");
    }

    pub fn remove(&self, id: u32) -> Option<Arc<Segment>> {
        self.map
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&id)
    }

    pub fn get(&self, id: u32) -> Option<Arc<Segment>> {
        self.map
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&id)
            .cloned()
    }

    /// The log segment with the lowest id that is at least `id`.
    pub fn log_from(&self, id: u32) -> Option<Arc<Segment>> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.range(id..)
            .find(|(_, it)| it.header.kind == SegmentKind::Log)
            .map(|(_, it)| Arc::clone(it))
    }

    pub fn all(&self) -> Vec<Arc<Segment>> {
        self.map
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }
}

/// A file name of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    /// `<id as 8 hex>.log` or `.sorted`.
    Segment(SegmentKind, u32),
    /// `<n>.spare`: zero-written or recycled, free to take.
    Spare(u32),
    /// `<n>.making`: half made, or a spare of which some blocks were not written. It does not outlive
    /// the opening that made it.
    Making(u32),
}

/// A file that is not in use, and becomes a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpareFile {
    pub number: u32,
    pub blocks: Blocks,
    /// Only the first step of its blocks is ready.
    pub grows: bool,
}

impl SpareFile {
    /// A spare that every opening finds again.
    pub fn written(number: u32) -> SpareFile {
        SpareFile {
            number,
            blocks: Blocks::Written,
            grows: false,
        }
    }

    /// Whether later openings find it, and may use it as a spare.
    pub fn is_kept(self) -> bool {
        self.blocks == Blocks::Written && !self.grows
    }

    pub fn name(self) -> FileName {
        match self.is_kept() {
            true => FileName::Spare(self.number),
            false => FileName::Making(self.number),
        }
    }
}

impl FileName {
    pub fn parse(name: &str) -> Option<FileName> {
        let (stem, kind) = name.split_once('.')?;
        let hex = || {
            (stem.len() == 8)
                .then(|| u32::from_str_radix(stem, 16).ok())
                .flatten()
        };
        let parsed = match kind {
            "log" => FileName::Segment(SegmentKind::Log, hex()?),
            "sorted" => FileName::Segment(SegmentKind::Sorted, hex()?),
            "spare" => FileName::Spare(stem.parse().ok()?),
            "making" => FileName::Making(stem.parse().ok()?),
            _ => return None,
        };
        (parsed.to_string() == name).then_some(parsed)
    }

    pub fn in_directory(self, directory: &Path) -> PathBuf {
        directory.join(self.to_string())
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FileName::Segment(SegmentKind::Log, id) => write!(formatter, "{id:08x}.log"),
            FileName::Segment(SegmentKind::Sorted, id) => write!(formatter, "{id:08x}.sorted"),
            FileName::Spare(number) => write!(formatter, "{number}.spare"),
            FileName::Making(number) => write!(formatter, "{number}.making"),
        }
    }
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedDisk;
    use environment::{Disk, OpenMode};

    use super::*;
    use crate::format::Salt;

    #[test]
    fn a_segment_in_use_keeps_its_size() {
        let disk = SimulatedDisk::new(1);
        let path = Path::new("/00000001.log");
        let file = disk.open(path, OpenMode::CreateNew).unwrap();
        file.set_size(8_192).unwrap();
        let header = SegmentHeader {
            id: 1,
            previous: 0,
            epoch: 1,
            segment_bytes: 8_192,
            kind: SegmentKind::Log,
            blocks: Blocks::Written,
            grows: false,
            salt: Salt(1),
        };
        let segment = Segment::new(header, path.into(), file, 8_192, Extent::EMPTY);
        let (segments, segment) = (Segments::default(), Arc::new(segment));
        segment.file.set_size(8_192).unwrap();
        segments.insert(Arc::clone(&segment));
        assert!(segment.file.set_size(4_096).is_err());
    }

    #[test]
    fn only_names_that_the_log_would_write_are_parsed() {
        let ours = FileName::Segment(SegmentKind::Log, 0x1f);
        assert_eq!(FileName::parse("0000001f.log"), Some(ours));
        assert_eq!(FileName::parse("12.spare"), Some(FileName::Spare(12)));
        for name in [
            "0000001F.log",
            "1f.log",
            "+000001f.log",
            "01.spare",
            "LOCK",
            "a.b.log",
            ".log",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
