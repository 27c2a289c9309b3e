//! How many keys a range has, now or at a past revision, without walking it.
//!
//! ```text
//!   keys at R  =  keys now  -  born since R  +  gone since R     (within the range)
//! ```
//!
//! TURNOVER holds, per main revision, the keys that were born (+) and that
//! went (-); most writes change an existing key and leave no trace there. It
//! keeps the last [`KEPT_MAX`] of them. Where more happened since R than the
//! range holds entries, the walk is shorter and is taken.

use crate::Snapshot;
use crate::range::Merge;
use crate::trees::{COMPACTED_KEY, CURRENT, FLOOR_KEY, HISTORY, TURNOVER};
use ordered_index::{Entry, Writer};
use std::ops::Bound;

/// Births and deaths remembered; bounds their memory to some megabytes.
const KEPT_MAX: u64 = 1 << 16;
const MAIN_BYTES: usize = 8;
const BORN: u64 = 1;
const GONE: u64 = 2;

pub(crate) fn count(snapshot: &Snapshot, start: &[u8], end: Option<&[u8]>, at: i64) -> u64 {
    let trees = &snapshot.trees;
    let now = trees.count(CURRENT, start, end);
    if at >= snapshot.revision() {
        return now;
    }
    let floor = trees
        .get(TURNOVER, FLOOR_KEY)
        .map_or(i64::MAX, |entry| entry.stamp as i64);
    let walk = now + history_entries(snapshot, start, end);
    let turnover = trees.count(TURNOVER, &first_of(at + 1), None);
    if at < floor || turnover > walk {
        return count_by_walk(snapshot, start, end, at);
    }
    correct(snapshot, start, end, at, now)
}

fn history_entries(snapshot: &Snapshot, start: &[u8], end: Option<&[u8]>) -> u64 {
    let (from, to) = (
        crate::history_key::prefix(start),
        end.map(crate::history_key::prefix),
    );
    snapshot.trees.count(HISTORY, &from, to.as_deref())
}

fn count_by_walk(snapshot: &Snapshot, start: &[u8], end: Option<&[u8]>, at: i64) -> u64 {
    let mut merge = Merge::new(snapshot, start, end, at, false);
    std::iter::from_fn(|| merge.next()).count() as u64
}

fn correct(snapshot: &Snapshot, start: &[u8], end: Option<&[u8]>, at: i64, now: u64) -> u64 {
    let from = first_of(at + 1);
    let mut cursor = snapshot
        .trees
        .cursor(TURNOVER, Bound::Included(&from), Bound::Unbounded);
    let (mut born, mut gone) = (0, 0);
    while let Some((turnover_key, entry)) = cursor.next() {
        let key = &turnover_key[MAIN_BYTES..];
        if key < start || end.is_some_and(|end| key >= end) {
            continue;
        }
        born += u64::from(entry.value == BORN);
        gone += u64::from(entry.value == GONE);
    }
    (now + gone)
        .checked_sub(born)
        .expect("no more keys are born than there are")
}

fn first_of(main: i64) -> [u8; MAIN_BYTES] {
    (main.max(0) as u64).to_be_bytes()
}

fn turnover_key(main: i64, key: &[u8]) -> Vec<u8> {
    [&first_of(main), key].concat()
}

/// Notes that `key` began to exist at `main`.
pub(crate) fn note_birth(writer: &mut Writer, main: i64, key: &[u8]) {
    note(writer, main, key, BORN);
}

/// Notes that `key` ceased to exist at `main`.
pub(crate) fn note_death(writer: &mut Writer, main: i64, key: &[u8]) {
    note(writer, main, key, GONE);
}

fn note(writer: &mut Writer, main: i64, key: &[u8], what: u64) {
    let key = turnover_key(main, key);
    // Gone and born again within one transaction is no change of the count.
    if writer
        .insert(
            TURNOVER,
            &key,
            Entry {
                value: what,
                stamp: 0,
            },
        )
        .is_some()
    {
        writer.remove(TURNOVER, &key);
    }
}

/// From here on births and deaths are noted.
pub(crate) fn start(writer: &mut Writer, revision: i64) {
    set_floor(writer, revision);
}

fn set_floor(writer: &mut Writer, revision: i64) {
    writer.insert(
        TURNOVER,
        FLOOR_KEY,
        Entry {
            value: 0,
            stamp: revision as u64,
        },
    );
}

/// Forgets the oldest when there are too many: a quarter at once, so that most
/// batches leave the old end of the tree alone.
pub(crate) fn trim(writer: &mut Writer) {
    if writer.len(TURNOVER) > KEPT_MAX {
        trim_to(writer, KEPT_MAX / 4 * 3);
    }
}

fn trim_to(writer: &mut Writer, kept_max: u64) {
    let excess = writer.len(TURNOVER).saturating_sub(kept_max);
    forget(writer, |_, forgotten| forgotten < excess);
}

/// Forgets what no count can ask for, because it is compacted: about `at_most`
/// entries. True when none is left.
pub(crate) fn forget_through(writer: &mut Writer, revision: i64, at_most: usize) -> bool {
    let at_most = at_most as u64;
    let forgotten = forget(writer, |main, forgotten| {
        main <= revision as u64 && forgotten < at_most
    });
    forgotten < at_most
}

/// Forgets the oldest revisions, whole ones, while `goes(revision, entries
/// forgotten so far)` says so. Returns how many entries.
fn forget(writer: &mut Writer, goes: impl Fn(u64, u64) -> bool) -> u64 {
    let mut oldest = Vec::new();
    let mut last = None;
    let mut cursor = writer.cursor(TURNOVER, Bound::Excluded(COMPACTED_KEY), Bound::Unbounded);
    while let Some((key, _)) = cursor.next() {
        let main = u64::from_be_bytes(key[..MAIN_BYTES].try_into().expect("eight bytes"));
        if last != Some(main) && !goes(main, oldest.len() as u64) {
            break;
        }
        last = Some(main);
        oldest.push(key.to_vec());
    }
    for key in &oldest {
        writer.remove(TURNOVER, key);
    }
    if let Some(main) = last {
        set_floor(writer, main as i64);
    }
    oldest.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history_key;
    use crate::place::Place;
    use crate::trees::{Known, TREES};

    fn known(main: i64, tombstone: bool) -> Known {
        Known {
            place: Place::from_bits(0),
            main,
            tombstone,
        }
    }

    /// Key `main` is born at `main`, every third dies 10 later.
    fn fill(writer: &mut Writer) -> Vec<u64> {
        let mut counts = vec![0, 0];
        for main in 2..100i64 {
            let old = [(main - 10) as u8];
            if main > 12 && main % 3 == 0 {
                let entry = writer.remove(CURRENT, &old).expect("it was born");
                writer.insert(
                    HISTORY,
                    &history_key::encode(&old, (main - 10) as u64),
                    entry,
                );
                let tombstone = known(main, true).entry();
                writer.insert(HISTORY, &history_key::encode(&old, main as u64), tombstone);
                note_death(writer, main, &old);
            }
            let key = [main as u8];
            writer.insert(CURRENT, &key, known(main, false).entry());
            note_birth(writer, main, &key);
            counts.push(writer.len(CURRENT));
        }
        counts
    }

    #[test]
    fn counts_are_right_however_much_turnover_was_forgotten() {
        let (mut writer, reader) = ordered_index::new(TREES);
        start(&mut writer, 1);
        let counts = fill(&mut writer);
        for kept_max in [1000, 100, 30, 5, 0] {
            trim_to(&mut writer, kept_max);
            writer.publish(99);
            let snapshot = Snapshot {
                trees: reader.pin(),
            };
            assert!(
                snapshot.trees.len(TURNOVER) <= kept_max.max(1),
                "{kept_max}"
            );
            for (at, &expected) in counts.iter().enumerate().skip(1) {
                let found = snapshot.count(&[], None, at as i64);
                assert_eq!(found, expected, "at {at} with {kept_max} kept");
            }
        }
    }

    #[test]
    fn a_key_gone_and_born_in_one_transaction_leaves_no_trace() {
        let (mut writer, _reader) = ordered_index::new(TREES);
        note_death(&mut writer, 5, b"k");
        note_birth(&mut writer, 5, b"k");
        assert_eq!(writer.len(TURNOVER), 0);
    }
}
