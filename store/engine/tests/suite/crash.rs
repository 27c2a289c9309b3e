//! A crash at every single I/O of a workload, and every fault at every I/O.
//!
//! What was acknowledged is there, what was not is there whole or not at all,
//! and no revision is missing: so the recovered store must equal the model
//! after some batch that lies between the last acknowledged and the last
//! appended one.
//!
//! `INKSTONE_TEST_SEED` changes what a loss of power leaves and which bits flip.

use crate::store;

use engine::{Durability, Error, Options};
use environment::Disk;
use environment::randomness::Random;
use environment::simulated::{Fault, Restart, SimulatedDisk};
use std::path::Path;
use store::crashes::{RESTARTS, Trial, ignored_flush_is_noticed};
use store::model::Model;
use store::{DIRECTORY, Store, Write, delete, put, seed};

/// What a run left for the judge.
struct Story {
    /// The model after each batch; number 0 is the empty store.
    after: Vec<Model>,
    acknowledged: u64,
    /// Last batch that a checkpoint has covered.
    checkpointed: u64,
}

impl Story {
    fn new() -> Story {
        Story {
            after: vec![Model::default()],
            acknowledged: 0,
            checkpointed: 0,
        }
    }

    /// The recovered store is one of those it may be.
    fn judge(&self, store: &mut Store, what: &str) {
        let index = store.recovered.applied_index;
        assert!(
            index >= self.acknowledged,
            "{what}: batch {} was acknowledged, {index} is the last",
            self.acknowledged
        );
        assert!(
            index < self.after.len() as u64,
            "{what}: batch {index} was never appended"
        );
        store.model = self.after[index as usize].clone();
        store.check_all();
    }
}

/// Bursts of batches with one flush each, compaction, checkpoints, reclaim.
fn run(disk: &SimulatedDisk, story: &mut Story) -> Result<(), Error> {
    run_with(disk, story, &options())
}

fn run_with(disk: &SimulatedDisk, story: &mut Story, options: &Options) -> Result<(), Error> {
    let mut store = Store::open(disk, options.clone(), story.after.last().unwrap().clone())?;
    for round in 0..14u8 {
        burst(&mut store, story, round)?;
        match round {
            3 | 9 => {
                compact(&mut store, story)?;
                store.checkpoint()?;
                story.checkpointed = store.index;
            }
            6 => {
                compact(&mut store, story)?;
                store.defragment()?;
            }
            12 => {
                store.applier.begin_defragmentation();
                finish_beside_writes(&mut store, story, 30)?;
            }
            13 => {
                let before = store.engine.status().upkeep.relocated_bytes;
                store.applier.begin_defragmentation_in_key_order();
                finish_beside_writes(&mut store, story, 40)?;
                let after = store.engine.status().upkeep.relocated_bytes;
                assert!(after > before, "versions lie out of order");
            }
            _ => {}
        }
    }
    drop(store);
    // A second opening, from the checkpoint and a tail.
    let mut store = Store::open(disk, options.clone(), story.after.last().unwrap().clone())?;
    burst(&mut store, story, 20)?;
    store.checkpoint()?;
    story.checkpointed = store.index;
    Ok(())
}

/// Ends a defragmentation beside the writes of some rounds.
fn finish_beside_writes(store: &mut Store, story: &mut Story, first: u8) -> Result<(), Error> {
    for round in first..first + 3 {
        burst(store, story, round)?;
    }
    while store.applier.is_defragmenting() {
        store.maintain()?;
        std::thread::yield_now();
    }
    Ok(())
}

fn burst(store: &mut Store, story: &mut Story, round: u8) -> Result<(), Error> {
    let mut appended = Vec::new();
    for number in 0..3u8 {
        let writes = writes(round, number, &store.model);
        let batch = store.batch(&writes);
        let outcome = store.append(&batch);
        store.index = batch.index;
        store.model.apply(&batch);
        // Even a failed append may have reached the disk.
        story.after.push(store.model.clone());
        appended.push((batch, outcome?));
    }
    store.engine.wait_durable(appended[2].1.sequence)?;
    story.acknowledged = store.index;
    for (batch, appended) in &appended {
        store.applier.apply(batch, appended);
    }
    // Checkpoints and reclaim beside the writes crash as well.
    store.maintain()
}

/// Checkpoints often enough to be under way when it happens.
fn options() -> Options {
    Options {
        checkpoint_bytes: 20 << 10,
        ..store::options()
    }
}

fn writes(round: u8, number: u8, model: &Model) -> Vec<Write> {
    let value = vec![round ^ number; 700 + 1300 * usize::from(number)];
    let mut writes = vec![
        put([b'k', round % 5], &value),
        put([b'n', round, number], b"small"),
    ];
    if round > 4
        && number == 1
        && model
            .visible(&[b'n', round - 2, 0], model.revision)
            .is_some()
    {
        writes.push(delete([b'n', round - 2, 0]));
    }
    writes
}

fn compact(store: &mut Store, story: &mut Story) -> Result<(), Error> {
    let revision = store.model.revision - 2;
    let mut model = store.model.clone();
    model.compact(revision);
    story.after.push(model);
    store.compact(revision)?;
    story.acknowledged = store.index;
    Ok(())
}

/// Opens after a restart, judges the state, and checks that writes still work.
fn judge(disk: &SimulatedDisk, story: &Story, what: &str) {
    judge_with(disk, story, &options(), what);
}

fn judge_with(disk: &SimulatedDisk, story: &Story, options: &Options, what: &str) {
    let mut store = Store::open(disk, options.clone(), Model::default())
        .unwrap_or_else(|error| panic!("{what}: {error}\n{}", disk.trace()));
    story.judge(&mut store, what);
    store.write(&[put("after", what)]).unwrap();
    let mut store = store.reopen(disk);
    store.check_all();
}

/// I/Os of a whole run.
fn ios() -> u64 {
    let disk = SimulatedDisk::new(1);
    run(&disk, &mut Story::new()).unwrap();
    disk.io_count()
}

/// Runs until the crash or fault stops it.
fn run_until_it_stops(disk: &SimulatedDisk) -> Story {
    let mut story = Story::new();
    let _ = run(disk, &mut story);
    story
}

fn trial() -> Trial<impl Fn(&SimulatedDisk) -> Story, impl Fn(&SimulatedDisk, &Story, &str)> {
    Trial {
        name: "durable",
        run: run_until_it_stops,
        judge,
    }
}

#[test]
fn a_crash_at_any_io_loses_nothing_acknowledged() {
    let ios = ios();
    assert!(ios > 100, "only {ios} I/Os");
    trial().crash(0..ios, &RESTARTS);
}

/// With page-cache durability a loss of power leaves the state after some batch, not before
/// the last checkpoint; a process crash loses nothing.
#[test]
fn the_page_cache_keeps_its_smaller_promise_at_any_io() {
    let options = Options {
        log: engine::LogOptions {
            durability: Durability::Os,
            ..options().log
        },
        ..options()
    };
    let whole = SimulatedDisk::new(1);
    run_with(&whole, &mut Story::new(), &options).unwrap();
    let promised = |loses_power: bool| {
        let options = &options;
        move |disk: &SimulatedDisk| {
            let mut story = Story::new();
            let _ = run_with(disk, &mut story, options);
            if loses_power {
                story.acknowledged = story.checkpointed;
            }
            story
        }
    };
    let judge = |disk: &SimulatedDisk, story: &Story, what: &str| {
        judge_with(disk, story, &options, what);
    };
    let power = [
        Restart::power_loss(),
        Restart::power_loss_without_journal(),
        Restart::nothing_kept(),
    ];
    for (loses_power, restarts) in [(false, &[Restart::ProcessCrash][..]), (true, &power)] {
        let trial = Trial {
            name: "page cache",
            run: promised(loses_power),
            judge,
        };
        trial.crash(0..whole.io_count(), restarts);
    }
}

#[test]
fn a_crash_during_recovery_loses_nothing() {
    trial().crash_again((0..ios()).step_by(7), &options());
}

#[test]
fn a_failed_flush_or_short_write_at_any_io_loses_nothing_acknowledged() {
    trial().fail(0..ios());
}

/// The full disk shows up wherever something new is written: segments,
/// checkpoints, copies of reclaim. With room again, all goes on.
#[test]
fn a_disk_that_fills_up_anywhere_loses_nothing_acknowledged() {
    let mut stopped = 0;
    for capacity in (64 << 10..1 << 20).step_by(12 << 10) {
        let disk = SimulatedDisk::new(seed(capacity));
        disk.set_capacity(capacity);
        let mut story = Story::new();
        let error = match run(&disk, &mut story) {
            Ok(()) => continue,
            Err(error) => error,
        };
        stopped += 1;
        let what = format!("room for {capacity} bytes, then {error}");
        disk.set_capacity(u64::MAX);
        judge(&disk.fork(), &story, &what);
        disk.crash();
        judge(&disk.restart(Restart::power_loss()), &story, &what);
    }
    assert!(stopped > 10, "only {stopped} disks were too small");
}

#[test]
fn after_a_failed_flush_every_append_is_refused_until_reopened() {
    let disk = SimulatedDisk::new(3);
    let mut store = Store::new(&disk);
    store.write(&[put("a", "1")]).unwrap();
    // The log is small and has room, so that the next flush is the write's.
    disk.inject(disk.io_count(), Fault::FailedFlush);
    assert!(store.write(&[put("b", "2")]).is_err());
    assert!(store.write(&[put("c", "3")]).is_err());
    assert!(store.engine.status().log.failed.is_some());
    assert_eq!(
        store.get(b"a", 2).unwrap().kv,
        store::encode(b"a", b"1"),
        "reads go on"
    );
}

/// The harness sees a device that lies: else the tests above prove nothing.
#[test]
fn canary_an_ignored_flush_is_noticed() {
    let acknowledged = |disk: &SimulatedDisk| run_until_it_stops(disk).acknowledged;
    let noticed = ignored_flush_is_noticed(0..ios(), &options(), acknowledged);
    assert!(noticed, "no ignored flush was noticed");
}

/// Either opening refuses, or reading does, or nothing is wrong: never a
/// wrong byte, and never a silent loss of more than the last group.
#[test]
fn a_flipped_bit_anywhere_never_yields_a_wrong_byte() {
    let original = SimulatedDisk::new(seed(5));
    let mut story = Story::new();
    run(&original, &mut story).unwrap();
    let directory = Path::new(DIRECTORY);
    let mut random = Random::from_seed(seed(5));
    for name in original.list(directory).unwrap() {
        let path = directory.join(&name);
        let size = original
            .open(&path, environment::OpenMode::Read)
            .unwrap()
            .size()
            .unwrap();
        if name == "LOCK" || size == 0 {
            continue;
        }
        for _ in 0..60 {
            let disk = original.fork();
            // Most of a segment is zeros: half of the flips go to its front.
            let reach = if random.chance(1, 2) {
                size
            } else {
                size.min(6000)
            };
            disk.flip_bit(&path, random.below(reach), random.below(8) as u8);
            judge_damaged(&disk, &story, &name);
        }
    }
}

fn judge_damaged(disk: &SimulatedDisk, story: &Story, what: &str) {
    let Ok(store) = Store::open(disk, options(), Model::default()) else {
        return;
    };
    let index = store.recovered.applied_index;
    assert!(
        index + 3 >= story.acknowledged,
        "{what}: {index} of {}",
        story.acknowledged
    );
    let model = &story.after[index as usize];
    let at = model.revision;
    let snapshot = store.engine.snapshot();
    let versions: Vec<_> = snapshot.range(&[], None, at).collect();
    let expected = model.range(&[], None, at);
    assert_eq!(versions.len(), expected.len(), "{what}: keys");
    for (version, expected) in versions.iter().zip(expected) {
        if let Ok(stored) = store.engine.read(version) {
            assert_eq!(stored.kv, expected, "{what}");
        }
    }
}
