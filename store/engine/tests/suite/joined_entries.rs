//! Batches that join the last entry: which do, and that they are there after an opening.

use crate::store;

use bytes::Bytes;
use engine::{Change, Durability, Error, Headers, Options, Worker};
use environment::simulated::{Restart, SimulatedDisk};
use store::model::Model;
use store::{COMPACTION, Store, Write, delete, put};

fn options(durability: Durability) -> Options {
    Options {
        log: engine::LogOptions {
            worker: Worker::Caller,
            durability,
            ..store::options().log
        },
        ..store::options()
    }
}

fn open(disk: &SimulatedDisk, model: Model) -> Store {
    Store::open(disk, options(Durability::Os), model).unwrap()
}

/// One transaction. Returns whether it joined the last entry.
fn write(store: &mut Store, writes: &[Write]) -> Result<bool, Error> {
    let mut batch = store.batch(writes);
    let appended = store.applier.append_joining(&mut batch, Headers::Short)?;
    store.engine.wait_durable(appended.sequence)?;
    store.applier.apply(&batch, &appended);
    store.model.apply(&batch);
    let joined = batch.index == store.index;
    store.index = batch.index;
    Ok(joined)
}

fn joins(store: &mut Store, key: &str) -> bool {
    write(store, &[put(key, "value")]).unwrap()
}

#[test]
fn joined_batches_keep_their_revisions_across_an_opening() {
    let disk = SimulatedDisk::new(1);
    let mut store = open(&disk, Model::default());
    for round in 0..50 {
        let key = |number: u64| format!("{:02}", (round * 7 + number) % 20);
        let writes = [put(key(0), vec![b'v'; 30]), put(key(1), "other")];
        write(&mut store, &writes).unwrap();
        if round % 5 == 4 {
            write(&mut store, &[delete(key(0))]).unwrap();
        }
    }
    assert!(
        store.index < 20,
        "60 transactions in {} entries",
        store.index
    );
    store.check_reads();
    let (model, index) = (store.model.clone(), store.index);
    disk.crash();
    drop(store);
    let disk = disk.restart(Restart::ProcessCrash);
    let store = open(&disk, model);
    assert_eq!(store.recovered.applied_index, index);
    store.check_reads();
}

#[test]
fn a_checkpoint_that_begins_keeps_later_batches_out_of_the_last_entry() {
    let disk = SimulatedDisk::new(1);
    // A checkpoint has a thread of its own then.
    let worker = Worker::CallerWithPool;
    let options = Options {
        checkpoint_bytes: 4 << 10,
        log: engine::LogOptions {
            worker,
            ..options(Durability::Os).log
        },
        ..options(Durability::Os)
    };
    let mut store = Store::open(&disk, options.clone(), Model::default()).unwrap();
    let mut begun = 0;
    for round in 0..300 {
        joins(&mut store, &format!("{:02}", round % 30));
        store.maintain().unwrap();
        let is_begun = store.applier.is_maintaining();
        if is_begun {
            // Whether or not its thread has flushed the log by now.
            assert!(!joins(&mut store, "later"), "{round}");
            store.finish_maintenance();
        }
        begun += u64::from(is_begun);
    }
    assert!(begun > 3, "{begun}");
    let model = store.model.clone();
    disk.crash();
    drop(store);
    let disk = disk.restart(Restart::ProcessCrash);
    let store = Store::open(&disk, options, model).unwrap();
    store.check_reads();
}

#[test]
fn a_batch_joins_no_entry_with_state_none_of_another_caller_and_none_before_an_opening() {
    let disk = SimulatedDisk::new(1);
    let mut store = open(&disk, Model::default());
    assert!(!joins(&mut store, "a"));
    let mut with_state = store.batch(&[put("b", "value")]);
    with_state.changes.push(Change::State {
        kind: COMPACTION,
        payload: Bytes::copy_from_slice(&(-1_i64).to_le_bytes()),
    });
    let appended = store
        .applier
        .append_joining(&mut with_state, Headers::Short);
    let appended = appended.unwrap();
    assert_eq!(with_state.index, store.index + 1, "it joins none either");
    store.applier.apply(&with_state, &appended);
    store.model.apply(&with_state);
    store.index = with_state.index;
    assert!(!joins(&mut store, "c"));
    assert!(joins(&mut store, "d"));
    store.write(&[put("e", "value")]).unwrap();
    assert!(!joins(&mut store, "f"), "the entry of another caller");
    let model = store.model.clone();
    drop(store);
    let mut store = open(&disk, model);
    assert!(!joins(&mut store, "g"), "the log has been closed");
    assert!(joins(&mut store, "h"));
    store.check_reads();
}

#[test]
fn each_batch_is_an_entry_where_each_is_flushed() {
    let disk = SimulatedDisk::new(1);
    let durable = options(Durability::Durable);
    let mut store = Store::open(&disk, durable, Model::default()).unwrap();
    for key in ["a", "b", "c"] {
        assert!(!joins(&mut store, key));
    }
}
