//! Counts of keys at a past revision, seen from an old snapshot.

use crate::store;

use engine::{Batch, Change, KeyChange, Revision, Snapshot};
use environment::simulated::SimulatedDisk;
use store::{Store, delete, encode, put};

/// Every count that `snapshot` can be asked for, above what is compacted.
fn check(store: &Store, snapshot: &Snapshot) {
    let from = snapshot.compacted().max(store.model.compacted).max(1);
    for at in from..=snapshot.revision() {
        for (start, end) in [(&b""[..], None), (b"k1", Some(&b"k3"[..]))] {
            let expected = store.model.range(start, end, at).len() as u64;
            let found = store.engine.count(snapshot, start, end, at);
            let now = snapshot.revision();
            assert_eq!(found, expected, "{start:?} at {at}, seen from {now}");
        }
    }
}

/// Creates a key and puts it again. One more transaction deletes it and puts it back, creates
/// and deletes another key, and in every other round deletes the key of the round before.
fn write_on(store: &mut Store, round: u32) {
    let key = |number: u32| format!("k{number:03}");
    store.write(&[put(key(round), "born")]).unwrap();
    store.write(&[put(key(round), "again")]).unwrap();
    let mut together = vec![
        delete(key(round)),
        put(key(round), "back"),
        put(key(500 + round), "born"),
        delete(key(500 + round)),
    ];
    if round % 2 == 1 {
        together.push(delete(key(round - 1)));
    }
    store.write(&together).unwrap();
}

#[test]
fn a_moment_is_counted_right_while_later_keys_are_born_and_go() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    let mut held = Vec::new();
    for round in 0..60 {
        write_on(&mut store, round);
        held.push(store.engine.snapshot());
    }
    held.iter().for_each(|snapshot| check(&store, snapshot));
    let revision = store.model.revision;
    // What is noted goes with it, as far as whole chunks do: older moments are walked then.
    // None of these is a transaction's that deletes a key and puts it again.
    for compacted in [revision / 2, revision - 20, revision - 1] {
        store.compact(compacted).unwrap();
        held.iter().for_each(|snapshot| check(&store, snapshot));
        check(&store, &store.engine.snapshot());
    }
    for round in 60..70 {
        write_on(&mut store, round);
        check(&store, &store.engine.snapshot());
    }
}

#[test]
fn a_moment_before_the_opening_is_walked() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    (0..20).for_each(|round| write_on(&mut store, round));
    let mut store = store.reopen(&disk);
    check(&store, &store.engine.snapshot());
    (20..30).for_each(|round| write_on(&mut store, round));
    check(&store, &store.engine.snapshot());
}

/// One transaction that creates keys. The model does not get it, because it would be slow.
fn births(store: &Store, round: u64, keys: usize) -> Batch {
    let main = store.engine.snapshot().revision() + 1;
    let birth = |sub| {
        let key = format!("{round:03}/{sub:03}");
        Change::Key(KeyChange {
            revision: Revision {
                main,
                sub: sub as i64,
            },
            tombstone: false,
            kv: encode(key.as_bytes(), b""),
            key: key.into(),
            created: main,
            version: 1,
            lease: 0,
        })
    };
    Batch {
        term: 1,
        index: round + 1,
        changes: (0..keys).map(birth).collect(),
    }
}

/// More births than are noted: the oldest revisions are walked, the others corrected,
/// and both are right.
#[test]
fn counts_are_right_however_many_turns_were_forgotten() {
    const KEYS_EACH: usize = 250;
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    let mut early = None;
    for round in 0..300 {
        let births = births(&store, round, KEYS_EACH);
        let appended = store.append(&births).unwrap();
        store.engine.wait_durable(appended.sequence).unwrap();
        store.applier.apply(&births, &appended);
        if round == 10 {
            early = Some(store.engine.snapshot());
        }
    }
    let expected = |at: i64| (at - 1) as u64 * KEYS_EACH as u64;
    let now = store.engine.snapshot();
    for at in (1..=now.revision()).rev().step_by(7) {
        let found = store.engine.count(&now, b"", None, at);
        assert_eq!(found, expected(at), "at {at}");
    }
    let early = early.unwrap();
    for at in 1..=early.revision() {
        let found = store.engine.count(&early, b"", None, at);
        assert_eq!(
            found,
            expected(at),
            "at {at}, seen from {}",
            early.revision()
        );
    }
}
