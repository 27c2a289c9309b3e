//! Records that reclaim has copied, until the index points to the copies.
//!
//! A round of reclaim moves up to a million records and more, so the list of them is kept small:
//! 32 bytes and the key for each, in slices that are given back one by one as they are swapped.

use crate::history_key;
use crate::live::Live;
use crate::trees::{CURRENT, HISTORY, VersionEntry};
use ordered_index::{IndexEntry, Writer};
use std::collections::{BTreeSet, VecDeque};

/// Copies that the index does not know yet.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// In the order in which they were copied; what was swapped is gone.
    slices: VecDeque<Slice>,
    /// Sorted segments that were filled.
    filled: Vec<u32>,
    /// The victims that nothing points into once all places are swapped.
    emptied: BTreeSet<u32>,
}

/// Neighbours of a tree that were copied.
#[derive(Debug)]
pub(crate) struct Slice {
    tree: usize,
    /// One behind the other.
    keys: Vec<u8>,
    rows: Vec<Row>,
    /// Number of rows that are swapped.
    swapped: usize,
}

#[derive(Debug)]
struct Row {
    /// End of its key in the slice's keys.
    key_end: u32,
    old: IndexEntry,
    /// Where the copy is.
    new_value: u64,
}

struct Move<'a> {
    tree: usize,
    key: &'a [u8],
    old: IndexEntry,
    new: IndexEntry,
}

impl Moves {
    pub(crate) fn new(slices: VecDeque<Slice>, filled: Vec<u32>, emptied: BTreeSet<u32>) -> Moves {
        Moves {
            slices,
            filled,
            emptied,
        }
    }

    /// The sorted segments that hold the copies.
    pub(crate) fn filled(&self) -> &[u32] {
        &self.filled
    }

    /// The segments that nothing points into once all places are swapped.
    pub(crate) fn emptied(&self) -> &BTreeSet<u32> {
        &self.emptied
    }

    /// Swaps at most `at_most` places; true when none is left.
    pub(crate) fn swap(&mut self, writer: &mut Writer, live: &mut Live, at_most: usize) -> bool {
        self.filled
            .drain(..)
            .for_each(|segment| live.enter(segment));
        self.take(at_most, |moved| {
            if moved.swap(writer) {
                live.born(VersionEntry::from(moved.new).pointer);
                live.died(VersionEntry::from(moved.old).pointer);
            }
        });
        self.slices.is_empty()
    }

    /// Hands out at most `at_most` moves, in order, and forgets them.
    fn take(&mut self, at_most: usize, mut each: impl FnMut(&Move<'_>)) {
        let mut left = at_most;
        while let Some(slice) = self.slices.front_mut() {
            let count = left.min(slice.rows.len() - slice.swapped);
            for number in slice.swapped..slice.swapped + count {
                each(&slice.get(number));
            }
            slice.swapped += count;
            left -= count;
            if slice.swapped < slice.rows.len() {
                return;
            }
            self.slices.pop_front();
        }
    }
}

impl Slice {
    pub(crate) fn of_tree(tree: usize) -> Slice {
        Slice {
            tree,
            keys: Vec::new(),
            rows: Vec::new(),
            swapped: 0,
        }
    }

    /// Adds a record that was copied; `new` differs from `old` in its place alone.
    pub(crate) fn push(&mut self, key: &[u8], old: IndexEntry, new: IndexEntry) {
        assert_eq!(old.stamp, new.stamp, "a copy is of the same version");
        self.keys.extend(key);
        self.rows.push(Row {
            key_end: u32::try_from(self.keys.len()).expect("a slice of keys is small"),
            old,
            new_value: new.value,
        });
    }

    /// The slice without room for more; `None` if it is empty.
    pub(crate) fn complete(mut self) -> Option<Slice> {
        self.keys.shrink_to_fit();
        self.rows.shrink_to_fit();
        (!self.rows.is_empty()).then_some(self)
    }

    fn get(&self, number: usize) -> Move<'_> {
        let row = &self.rows[number];
        let before = number.checked_sub(1).map(|before| &self.rows[before]);
        let start = before.map_or(0, |before| before.key_end);
        Move {
            tree: self.tree,
            key: &self.keys[start as usize..row.key_end as usize],
            old: row.old,
            new: IndexEntry {
                value: row.new_value,
                ..row.old
            },
        }
    }
}

impl Move<'_> {
    /// Points the entry to the copy; false if it is gone. Since it was copied, the version
    /// may have been superseded (then it is in HISTORY) or compacted (then the copy is garbage).
    fn swap(&self, writer: &mut Writer) -> bool {
        if writer.replace_value(self.tree, self.key, self.old, self.new) {
            return true;
        }
        let main = VersionEntry::from(self.old).main as u64;
        let past = || history_key::encode(self.key, main);
        self.tree == CURRENT && writer.replace_value(HISTORY, &past(), self.old, self.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: u64) -> IndexEntry {
        IndexEntry { value, stamp: 7 }
    }

    fn slice(tree: usize, keys: &[&str]) -> Option<Slice> {
        let mut slice = Slice::of_tree(tree);
        for (number, key) in keys.iter().enumerate() {
            let number = number as u64;
            slice.push(key.as_bytes(), entry(number), entry(100 + number));
        }
        slice.complete()
    }

    #[test]
    fn moves_are_taken_once_and_in_order_in_steps_of_any_size() {
        let expected = [
            (CURRENT, "a", 0),
            (CURRENT, "", 1),
            (CURRENT, "long", 2),
            (HISTORY, "b", 0),
        ];
        for step in 1..6 {
            let slices = [slice(CURRENT, &["a", "", "long"]), slice(HISTORY, &["b"])];
            let slices = slices.into_iter().flatten().collect();
            let mut moves = Moves::new(slices, Vec::new(), BTreeSet::new());
            let mut taken = Vec::new();
            while !moves.slices.is_empty() {
                let before = taken.len();
                moves.take(step, |moved| {
                    assert_eq!(moved.new, entry(100 + moved.old.value));
                    let key = String::from_utf8(moved.key.to_vec()).unwrap();
                    taken.push((moved.tree, key, moved.old.value));
                });
                assert!(taken.len() - before <= step, "{step}");
            }
            let taken = taken.iter().map(|(tree, key, old)| (*tree, &key[..], *old));
            assert!(taken.eq(expected), "{step}");
        }
    }

    #[test]
    fn a_slice_without_moves_is_none() {
        assert!(slice(CURRENT, &[]).is_none());
    }
}
