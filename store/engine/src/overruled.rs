//! Frames of the log with an entry that another one of the same index has replaced.
//!
//! They stay in the log, and a walk along the log must skip them: their revisions
//! now belong to other changes. They are rare (a change of leaders) and few, so a
//! list of stretches is enough. Checkpoints hold the list, and stretches are dropped
//! with their segments.

use value_log::Position;

/// Stretches in ascending order, none touching another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overruled(Vec<(Position, Position)>);

impl Overruled {
    /// Adds the frames that start at `first`, at `last` or between them. Stretches that lie
    /// between them already become part of the new one.
    pub(crate) fn add(&mut self, first: Position, mut last: Position) {
        assert!(first <= last, "a stretch from {first} back to {last}");
        while let Some(&(from, to)) = self.0.last().filter(|&&(_, to)| to >= first) {
            assert!(
                from >= first || to >= last,
                "{first} to {last} cuts {from} to {to}"
            );
            if from <= first {
                return;
            }
            last = last.max(to);
            self.0.pop();
        }
        self.0.push((first, last));
    }

    /// Whether the frame that starts there is overruled.
    pub(crate) fn has(&self, start: Position) -> bool {
        let after = self.0.partition_point(|&(first, _)| first <= start);
        after > 0 && start <= self.0[after - 1].1
    }

    /// Drops the stretches in segments that are gone.
    pub(crate) fn retain(&mut self, kept: impl Fn(u32) -> bool) {
        self.0
            .retain(|&(first, last)| kept(first.segment()) || kept(last.segment()));
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (Position, Position)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> Position {
        Position::new(3, offset)
    }

    #[test]
    fn a_frame_within_a_stretch_counts_no_more() {
        let mut overruled = Overruled::default();
        overruled.add(at(64), at(128));
        overruled.add(at(512), at(512));
        let counted = [56, 136, 504, 520];
        assert!(counted.iter().all(|&offset| !overruled.has(at(offset))));
        let gone = [64, 72, 128, 512];
        assert!(gone.iter().all(|&offset| overruled.has(at(offset))));
        overruled.retain(|segment| segment != 3);
        assert!(!overruled.has(at(64)));
    }

    #[test]
    fn a_longer_stretch_takes_in_the_shorter_ones() {
        let mut overruled = Overruled::default();
        overruled.add(at(64), at(64));
        overruled.add(at(256), at(320));
        overruled.add(at(512), at(512));
        overruled.add(at(256), at(320));
        overruled.add(at(192), at(640));
        let stretches: Vec<_> = overruled.iter().collect();
        assert_eq!(stretches, [(at(64), at(64)), (at(192), at(640))]);
    }
}
