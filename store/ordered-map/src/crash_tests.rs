//! A crash at every I/O of a workload: acknowledged writes are there, and nothing that
//! was never written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use engine::{Durability, Options, Worker};
use environment::randomness::Random;
use environment::simulated::{Fault, Restart, SimulatedDisk};

use crate::core::Core;
use crate::pair;
use crate::snapshot::read;
use crate::stamp::Format;
use crate::upkeep::Left;
use crate::writing::{Edit, Operation};
use crate::{Error, WriteBatch};

const DIRECTORY: &str = "/data";

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// One thread does everything, in segments that are soon full.
fn options(durability: Durability) -> Options {
    Options {
        log: engine::LogOptions {
            segment_bytes: 64 << 10,
            spare_segments: 1,
            reserve_bytes: 0,
            worker: Worker::Caller,
            durability,
            ..engine::LogOptions::default()
        },
        batch_bytes_max: 32 << 10,
        checkpoint_bytes: 64 << 10,
        background_bytes_per_second: u64::MAX,
        ..Options::default()
    }
}

fn open(disk: &SimulatedDisk, durability: Durability) -> Result<Core, Error> {
    open_or_make(disk, durability, Format::NEWEST)
}

fn open_or_make(
    disk: &SimulatedDisk,
    durability: Durability,
    format: Format,
) -> Result<Core, Error> {
    let (disk, options) = (Arc::new(disk.clone()), options(durability));
    Core::open_or_make(disk, Path::new(DIRECTORY), options, format)
}

/// The writes of a run, and how far they were acknowledged.
#[derive(Debug)]
struct Story {
    /// The pairs after each write; number 0 is the empty map.
    after: Vec<Pairs>,
    /// Index in `after` of the last write that was acknowledged.
    acknowledged: usize,
    checkpoints: u64,
    /// Those among them that were written at the end of a life.
    closing_checkpoints: u64,
}

/// Opens the map twice and runs puts, deletions and batches, with some snapshots and with all due
/// upkeep after each write.
fn run(disk: &SimulatedDisk, durability: Durability) -> Story {
    run_in(disk, durability, Format::NEWEST)
}

/// The same in a map that is made with this version of the format.
fn run_in(disk: &SimulatedDisk, durability: Durability, format: Format) -> Story {
    let mut story = Story {
        after: vec![Pairs::new()],
        acknowledged: 0,
        checkpoints: 0,
        closing_checkpoints: 0,
    };
    // The error that ends it is in the story by then.
    let _ = (0..2).try_for_each(|life| run_once(disk, durability, format, life, &mut story));
    story
}

fn run_once(
    disk: &SimulatedDisk,
    durability: Durability,
    format: Format,
    life: u64,
    story: &mut Story,
) -> Result<(), Error> {
    let core = open_or_make(disk, durability, format)?;
    let mut random = Random::from_seed(life);
    let mut held = None;
    for round in 0..60 {
        let mut pairs = story.after.last().unwrap().clone();
        let operation = operation(&mut random, &mut pairs);
        let writes = pairs != *story.after.last().unwrap();
        story.after.push(pairs);
        if let Err(error) = core.carry_out(operation) {
            let later = Operation::One(Edit::put(pair::encode(b"later", b"")));
            core.carry_out(later)
                .expect_err("a log that has failed stays so");
            return Err(error);
        }
        story.acknowledged = story.after.len() - 1;
        if round % 16 == 8 {
            held = Some(core.hold());
        } else if round % 16 == 0 {
            drop(held.take());
        }
        if writes {
            while core.step()? == Left::Step {}
        }
    }
    let before = core.engine.status().upkeep.checkpoints;
    core.checkpoint_for_opening()?;
    let checkpoints = core.engine.status().upkeep.checkpoints;
    story.checkpoints += checkpoints;
    story.closing_checkpoints += checkpoints - before;
    Ok(())
}

fn operation(random: &mut Random, pairs: &mut Pairs) -> Operation {
    let key = format!("{:03}", random.below(40)).into_bytes();
    let value = vec![random.below(256) as u8; random.below(3_000) as usize];
    match random.below(4) {
        0 => {
            pairs.remove(&key);
            Operation::One(Edit::delete(&key))
        }
        1 => {
            let other = format!("{:03}", random.below(40)).into_bytes();
            let batch = WriteBatch::new()
                .put(key.clone(), value.clone())
                .delete(other.clone());
            pairs.insert(key, value);
            pairs.remove(&other);
            Operation::Many(batch.into_edits())
        }
        _ => {
            let pair = pair::encode(&key, &value);
            pairs.insert(key, value);
            Operation::One(Edit::put(pair))
        }
    }
}

fn found(core: &Core) -> Pairs {
    let snapshot = core.engine.snapshot();
    let versions: Vec<_> = snapshot.range(&[], None, i64::MAX).collect();
    let pair = |key: &[u8]| {
        (
            key.to_vec(),
            read(&core.engine, key, i64::MAX).unwrap().unwrap().to_vec(),
        )
    };
    versions.iter().map(|it| pair(&it.key)).collect()
}

fn judge(disk: &SimulatedDisk, durability: Durability, story: &Story, what: &str) {
    let core = open(disk, durability).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = found(&core);
    let possible = &story.after[story.acknowledged..];
    assert!(
        possible.contains(&found),
        "{what}: after write {} of {} it holds {:?}",
        story.acknowledged,
        story.after.len() - 1,
        found.keys().collect::<Vec<_>>()
    );
    core.carry_out(Operation::One(Edit::put(pair::encode(b"more", b"ink"))))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// Number of I/Os of a run without a crash.
fn ios(durability: Durability) -> u64 {
    let disk = SimulatedDisk::new(0);
    let story = run(&disk, durability);
    assert_eq!(
        story.acknowledged, 120,
        "a run without a fault acknowledges every write"
    );
    assert!(
        story.checkpoints > 0,
        "the run writes checkpoints, so crashes hit them too"
    );
    assert_eq!(story.closing_checkpoints, 2, "one for each life");
    disk.io_count()
}

#[test]
fn a_loss_of_power_at_any_io_takes_nothing_that_was_acknowledged() {
    let restarts = [
        Restart::power_loss(),
        Restart::power_loss_without_journal(),
        Restart::power_loss_within_a_sector(),
        Restart::nothing_kept(),
        Restart::ProcessCrash,
    ];
    for io in 0..ios(Durability::Durable) {
        let disk = SimulatedDisk::new(io);
        disk.crash_at(io);
        let story = run(&disk, Durability::Durable);
        disk.crash();
        for restart in restarts {
            let what = format!("crash at I/O {io}, {restart:?}");
            judge(&disk.restart(restart), Durability::Durable, &story, &what);
        }
    }
}

#[test]
fn the_end_of_the_process_at_any_io_takes_nothing_that_the_system_had() {
    for io in 0..ios(Durability::Os) {
        let disk = SimulatedDisk::new(io);
        disk.crash_at(io);
        let story = run(&disk, Durability::Os);
        disk.crash();
        let what = format!("end at I/O {io}");
        judge(
            &disk.restart(Restart::ProcessCrash),
            Durability::Os,
            &story,
            &what,
        );
    }
}

#[test]
fn after_a_failed_flush_or_write_nothing_is_acknowledged() {
    for io in 0..ios(Durability::Durable) {
        for fault in [Fault::FailedFlush, Fault::ShortWrite { bytes: 100 }] {
            let disk = SimulatedDisk::new(io);
            disk.inject(io, fault);
            let story = run(&disk, Durability::Durable);
            disk.crash();
            let what = format!("{fault:?} at I/O {io}");
            judge(
                &disk.restart(Restart::power_loss()),
                Durability::Durable,
                &story,
                &what,
            );
        }
    }
}

#[test]
fn a_loss_of_power_at_any_io_of_a_map_of_the_first_format_takes_nothing() {
    for io in 0..ios(Durability::Durable) {
        let disk = SimulatedDisk::new(io);
        disk.crash_at(io);
        let story = run_in(&disk, Durability::Durable, Format::One);
        disk.crash();
        let what = format!("crash at I/O {io} of a map of version 1");
        let disk = disk.restart(Restart::power_loss());
        judge(&disk, Durability::Durable, &story, &what);
    }
}
