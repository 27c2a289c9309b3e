//! Where in the log a revision lies, to within 64 KiB.
//!
//! ```text
//!   log      ├──── segment 4 ────┤├──── segment 5 ─────
//!   marks    r17      r230        r411       r502          one per 64 KiB
//! ```
//!
//! A watch that starts at r300 begins to read at the mark of r230. The marks
//! are kept in memory and in checkpoints: 16 bytes per 64 KiB of log.

use value_log::Position;

/// Distance between marks.
const MARK_BYTES: u64 = 64 << 10;

/// RevisionMarks in ascending order, of revisions and of positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct RevisionMarks(Vec<(i64, Position)>);

impl RevisionMarks {
    /// The frame at `position` is the first that holds the main revision `main`.
    pub(crate) fn note(&mut self, main: i64, position: Position) {
        let due = self.0.last().is_none_or(|&(last, mark)| {
            assert!(main > last, "revision {main} was marked after {last}");
            mark.segment() != position.segment() || position.offset() - mark.offset() >= MARK_BYTES
        });
        if due {
            self.0.push((main, position));
        }
    }

    /// Takes over a mark from a checkpoint.
    pub(crate) fn restore(&mut self, main: i64, position: Position) {
        self.0.push((main, position));
    }

    /// Where to begin reading for `main`; `None` when it lies before the first mark.
    pub(crate) fn before(&self, main: i64) -> Option<Position> {
        let after = self.0.partition_point(|&(mark, _)| mark <= main);
        Some(self.0[after.checked_sub(1)?].1)
    }

    /// Drops the marks into segments that are gone.
    pub(crate) fn retain(&mut self, kept: impl Fn(u32) -> bool) {
        self.0.retain(|&(_, position)| kept(position.segment()));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, Position)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_found_at_the_last_mark_before_it() {
        let mut marks = RevisionMarks::default();
        marks.note(2, Position::new(1, 64));
        marks.note(10, Position::new(1, 4096));
        marks.note(500, Position::new(1, 80_000));
        marks.note(501, Position::new(2, 0));
        assert_eq!(marks.0.len(), 3, "the second is too close to the first");
        assert_eq!(marks.before(1), None);
        assert_eq!(marks.before(499), Some(Position::new(1, 64)));
        assert_eq!(marks.before(500), Some(Position::new(1, 80_000)));
        assert_eq!(marks.before(9000), Some(Position::new(2, 0)));
        marks.retain(|segment| segment == 2);
        assert_eq!(marks.before(500), None);
    }
}
