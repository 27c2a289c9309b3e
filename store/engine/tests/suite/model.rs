//! The engine against a model, through random operations; others with another
//! `INKSTONE_TEST_SEED`.

use crate::store;

use engine::{Error, Status};
use environment::randomness::Random;
use environment::simulated::SimulatedDisk;
use std::collections::BTreeSet;
use store::model::Model;
use store::{Store, Write, delete, put, seed};

/// Keys with everything that an encoding could stumble over.
fn key(random: &mut Random) -> Vec<u8> {
    const ALPHABET: [u8; 4] = [0, 1, b'a', 0xff];
    let length = 1 + random.below(3);
    (0..length).map(|_| *random.pick(&ALPHABET)).collect()
}

fn value(random: &mut Random) -> Vec<u8> {
    let length = if random.chance(1, 20) {
        6000
    } else {
        random.below(400)
    };
    vec![random.next_u64() as u8; length as usize]
}

fn transaction(random: &mut Random, model: &Model) -> Vec<Write> {
    let mut used = BTreeSet::new();
    let mut writes = Vec::new();
    let alive = model.keys_now();
    for _ in 0..1 + random.below(4) {
        if random.chance(1, 3) && !alive.is_empty() {
            let key = random.pick(&alive).to_vec();
            if used.insert(key.clone()) {
                writes.push(delete(key));
            }
        } else {
            let key = key(random);
            if used.insert(key.clone()) {
                writes.push(put(key, value(random)));
            }
        }
    }
    if random.chance(1, 8) {
        writes.extend(again(random, &writes));
    }
    writes
}

/// The transaction writes a key that it has put once more: puts it, deletes it,
/// or both. (What etcd makes of a key deleted first is its own affair: a
/// compaction at that revision loses the value.)
fn again(random: &mut Random, writes: &[Write]) -> Vec<Write> {
    let mut puts = writes.iter().filter_map(|write| match write {
        Write::Put(key, _) => Some(key),
        Write::Delete(_) => None,
    });
    let Some(key) = puts.next_back() else {
        return Vec::new();
    };
    let mut again = Vec::new();
    if random.chance(1, 2) {
        again.push(put(key, value(random)));
    }
    if random.chance(2, 3) {
        again.push(delete(key));
    }
    again
}

fn check_a_range(random: &mut Random, store: &Store) {
    let model = &store.model;
    let oldest = model.compacted.max(1);
    let at = oldest + random.below((model.revision - oldest + 1) as u64) as i64;
    let start = key(random);
    let end = random.chance(2, 3).then(|| key(random));
    let end = end.as_deref();
    let expected = model.range(&start, end, at);
    assert_eq!(
        store.range(&start, end, at),
        expected,
        "{start:?}..{end:?} at {at}"
    );
    let snapshot = store.engine.snapshot();
    let count = store.engine.count(&snapshot, &start, end, at);
    assert_eq!(
        count,
        expected.len() as u64,
        "count of {start:?}..{end:?} at {at}"
    );
    let mut both_ends = Vec::new();
    let mut back = Vec::new();
    let mut range = snapshot.range(&start, end, at);
    loop {
        let forward = random.chance(1, 2);
        let found = if forward {
            range.next()
        } else {
            range.next_back()
        };
        match found {
            Some(version) if forward => both_ends.push(version),
            Some(version) => back.push(version),
            None => break,
        }
    }
    both_ends.extend(back.into_iter().rev());
    let read = both_ends
        .iter()
        .map(|version| store.engine.read(version).unwrap().kv);
    assert!(
        read.eq(expected),
        "from both ends: {start:?}..{end:?} at {at}"
    );
    let point = snapshot
        .get(&start, at)
        .map(|version| store.engine.read(&version).unwrap().kv);
    assert_eq!(
        point,
        model.visible(&start, at).map(|change| change.kv.clone()),
        "{start:?} at {at}"
    );
}

fn step(random: &mut Random, store: &mut Store) -> Result<(), Error> {
    match random.below(100) {
        0..=1 => store.checkpoint()?,
        2 => store.defragment()?,
        3..=4 => {
            let ahead = (store.model.revision - store.model.compacted.max(0)) as u64;
            let revision = store.model.compacted.max(0) + random.below(ahead + 1) as i64;
            if revision > store.model.compacted.max(0) {
                store.begin_compaction(revision)?;
            }
        }
        5..=30 => check_a_range(random, store),
        _ => {
            let writes = transaction(random, &store.model);
            if !writes.is_empty() {
                store.write(&writes)?;
            }
        }
    }
    store.maintain()
}

fn run(seed: u64, steps: u64) -> Status {
    let mut random = Random::from_seed(seed);
    let disk = SimulatedDisk::new(seed);
    let mut store = Store::new(&disk);
    for _ in 0..steps {
        step(&mut random, &mut store).unwrap();
        if random.chance(1, 60) {
            store = store.reopen(&disk);
        }
        if random.chance(1, 40) {
            if random.chance(1, 2) {
                store.applier.finish_compaction();
                store.check_kept();
            }
            let oldest = store.model.compacted.max(1);
            let at = oldest + random.below((store.model.revision - oldest + 1) as u64) as i64;
            store.check_hash(at);
            store.check_history(at);
        }
    }
    store.check_all();
    // These counters prove that the run did work; they start at zero at each open.
    let status = store.engine.status();
    let mut store = store.reopen(&disk);
    store.check_all();
    status
}

#[test]
fn random_operations_agree_with_the_model() {
    let statuses: Vec<Status> = (0..40).map(|number| run(seed(number), 600)).collect();
    let sum = |figure: fn(&Status) -> u64| statuses.iter().map(figure).sum::<u64>();
    assert!(sum(|status| status.upkeep.checkpoints) > 40, "{statuses:?}");
    assert!(
        sum(|status| status.upkeep.relocated_bytes) > 100_000,
        "{statuses:?}"
    );
    assert!(
        sum(|status| status.upkeep.released_segments) > 40,
        "{statuses:?}"
    );
}
