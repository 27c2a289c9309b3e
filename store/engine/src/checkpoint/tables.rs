//! The parts of a checkpoint besides entries: the blob and the tables.

use super::format::{Kind, rows};
use super::unusable::Unusable;
use crate::format::{u32_at, u64_at};
use crate::live::Live;
use crate::overruled::Overruled;
use crate::revision_marks::RevisionMarks;
use std::collections::BTreeSet;
use value_log::Position;

/// The blob and the tables, as far as they were read. Rows about segments that do not exist
/// are left out.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Ids of the segments that exist.
    pub(super) present: BTreeSet<u32>,
    pub(crate) state: Vec<u8>,
    /// Without the live bytes, which follow from the entries.
    pub(crate) live: Live,
    pub(crate) marks: RevisionMarks,
    pub(crate) overruled: Overruled,
}

impl Tables {
    pub(super) fn new(present: BTreeSet<u32>) -> Tables {
        Tables {
            present,
            state: Vec::new(),
            live: Live::default(),
            marks: RevisionMarks::default(),
            overruled: Overruled::default(),
        }
    }

    /// Takes a block that holds no entries.
    pub(super) fn take(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Unusable> {
        match kind {
            Kind::State => self.state.extend(payload),
            Kind::Segments => self.take_segments(payload)?,
            Kind::Marks => self.take_marks(payload)?,
            Kind::Overruled => self.take_overruled(payload)?,
            Kind::Head | Kind::Entries | Kind::Foot => return Err("it has two heads".into()),
        }
        Ok(())
    }

    fn take_segments(&mut self, payload: &[u8]) -> Result<(), &'static str> {
        for segment in rows(Kind::Segments, payload)? {
            let id = u32_at(segment, 0);
            if self.present.contains(&id) {
                let (last_main, last_index) = (u64_at(segment, 8) as i64, u64_at(segment, 16));
                self.live.passed(id, Some(last_main), last_index);
            }
        }
        Ok(())
    }

    fn take_marks(&mut self, payload: &[u8]) -> Result<(), &'static str> {
        for mark in rows(Kind::Marks, payload)? {
            let position = Position::from_bits(u64_at(mark, 8));
            if self.present.contains(&position.segment()) {
                self.marks.restore(u64_at(mark, 0) as i64, position);
            }
        }
        Ok(())
    }

    fn take_overruled(&mut self, payload: &[u8]) -> Result<(), &'static str> {
        for stretch in rows(Kind::Overruled, payload)? {
            let [first, last] = [0, 8].map(|at| Position::from_bits(u64_at(stretch, at)));
            let end = self.overruled.iter().next_back();
            if first > last || end.is_some_and(|(_, end)| end >= first) {
                return Err("its table of overruled frames is out of order");
            }
            if self.present.contains(&last.segment()) {
                self.overruled.add(first, last);
            }
        }
        Ok(())
    }
}
