//! A crash at every I/O of a workload: acknowledged writes are there, and nothing that
//! was never written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use engine::{Durability, Options, Worker};
use environment::randomness::Random;
use environment::simulated::{Fault, Restart, SimulatedDisk};

use crate::compression::Compression;
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
fn options(plan: CrashPlan) -> Options {
    Options {
        log: engine::LogOptions {
            segment_bytes: 64 << 10,
            spare_segments: 1,
            reserve_bytes: 0,
            worker: Worker::Caller,
            durability: plan.durability,
            ..engine::LogOptions::default()
        },
        batch_bytes_max: 32 << 10,
        checkpoint_bytes: plan.checkpoint_bytes,
        background_bytes_per_second: u64::MAX,
        ..Options::default()
    }
}

fn open(disk: &SimulatedDisk, plan: CrashPlan) -> Result<Core, Error> {
    let (disk, options) = (Arc::new(disk.clone()), options(plan));
    let form = (plan.format, plan.compression);
    Core::open_or_make(disk, Path::new(DIRECTORY), options, form)
}

/// The writes of a run, and how far they were acknowledged.
#[derive(Debug)]
struct Story {
    /// The pairs after each write; number 0 is the empty map.
    after: Vec<Pairs>,
    /// Index in `after` of the last write that was acknowledged.
    acknowledged: usize,
    /// The same of the last one that a flush or an opening has put on stable storage.
    flushed: usize,
    checkpoints: u64,
    /// Those among them that were written at the end of a life.
    closing_checkpoints: u64,
}

impl Story {
    /// Operations that are written together, of which each notes what is there behind it.
    fn begin_group(&mut self, random: &mut Random, plan: CrashPlan) -> Vec<Operation> {
        let operations = 1 + random.below(plan.group_max);
        let mut next = || {
            let mut pairs = self.after.last().unwrap().clone();
            let operation = operation(random, plan, &mut pairs);
            self.after.push(pairs);
            operation
        };
        (0..operations).map(|_| next()).collect()
    }
}

/// The work of a run.
#[derive(Clone, Copy, Debug)]
struct CrashPlan {
    durability: Durability,
    /// Version of the format with which the map is made.
    format: Format,
    compression: Compression,
    /// Values have fewer bytes. Many small ones share a frame where nothing is flushed.
    value_bytes_end: u64,
    checkpoint_bytes: u64,
    /// Most operations that are written together.
    group_max: u64,
}

impl CrashPlan {
    fn new(durability: Durability) -> CrashPlan {
        CrashPlan {
            durability,
            format: Format::NEWEST,
            compression: Compression::None,
            value_bytes_end: 3_000,
            checkpoint_bytes: 64 << 10,
            group_max: 1,
        }
    }

    fn of_small_values() -> CrashPlan {
        CrashPlan {
            value_bytes_end: 60,
            checkpoint_bytes: 1 << 10,
            group_max: 12,
            ..CrashPlan::new(Durability::Os)
        }
    }
}

/// Opens the map twice and runs puts, deletions and batches, with some snapshots and flushes, and
/// with all due upkeep after each write.
fn run(disk: &SimulatedDisk, plan: CrashPlan) -> Story {
    let mut story = Story {
        after: vec![Pairs::new()],
        acknowledged: 0,
        flushed: 0,
        checkpoints: 0,
        closing_checkpoints: 0,
    };
    // The error that ends it is in the story by then.
    let _ = (0..2).try_for_each(|life| run_once(disk, plan, life, &mut story));
    story
}

fn run_once(
    disk: &SimulatedDisk,
    plan: CrashPlan,
    life: u64,
    story: &mut Story,
) -> Result<(), Error> {
    let core = open(disk, plan)?;
    story.flushed = story.acknowledged;
    let mut random = Random::from_seed(life);
    let mut held = None;
    for round in 0..60 {
        let before = story.after.last().unwrap().clone();
        let group = story.begin_group(&mut random, plan);
        let answers = core.at_work(|work| work.carry_out(&group))?;
        if let Some(Err(error)) = answers.into_iter().find(Result::is_err) {
            let later = Operation::One(Edit::put(pair::encode(b"later", b"", plan.compression)));
            core.carry_out(later)
                .expect_err("a log that has failed stays so");
            return Err(error);
        }
        story.acknowledged = story.after.len() - 1;
        let writes = before != *story.after.last().unwrap();
        if round % 24 == 20 {
            core.engine.flush()?;
            story.flushed = story.acknowledged;
        }
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

/// One byte again and again. Where values are compressed, random bytes twice: such a value takes
/// half of its length.
fn random_value(random: &mut Random, plan: CrashPlan) -> Vec<u8> {
    let bytes = |random: &mut Random| random.below(plan.value_bytes_end) as usize;
    match plan.compression {
        Compression::None => vec![random.below(256) as u8; bytes(random)],
        Compression::Lz4 => {
            let half = (0..bytes(random)).map(|_| random.next_u64() as u8);
            half.collect::<Vec<u8>>().repeat(2)
        }
    }
}

fn operation(random: &mut Random, plan: CrashPlan, pairs: &mut Pairs) -> Operation {
    let key = format!("{:03}", random.below(40)).into_bytes();
    let value = random_value(random, plan);
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
            Operation::Many(batch.into_edits(plan.compression))
        }
        _ => {
            let pair = pair::encode(&key, &value, plan.compression);
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

/// Opens the map, checks that it holds what was there after one of the writes from `least` on,
/// and writes something.
fn judge(disk: &SimulatedDisk, plan: CrashPlan, (story, least): (&Story, usize), what: &str) {
    let core = open(disk, plan).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = found(&core);
    let possible = &story.after[least..];
    assert!(
        possible.contains(&found),
        "{what}: after write {least} of {} it holds {:?}",
        story.after.len() - 1,
        found.keys().collect::<Vec<_>>()
    );
    let more = pair::encode(b"more", b"ink", plan.compression);
    core.carry_out(Operation::One(Edit::put(more)))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// Number of I/Os of a run without a crash.
fn ios(plan: CrashPlan) -> u64 {
    let disk = SimulatedDisk::new(0);
    let story = run(&disk, plan);
    assert!(story.after.len() > 120, "two lives of sixty groups");
    assert_eq!(
        story.acknowledged,
        story.after.len() - 1,
        "a run without a fault acknowledges every write"
    );
    assert!(
        story.checkpoints > 0,
        "the run writes checkpoints, so crashes hit them too"
    );
    if plan.value_bytes_end > 1_000 {
        assert_eq!(story.closing_checkpoints, 2, "one for each life");
    }
    disk.io_count()
}

const LOSSES_OF_POWER: [Restart; 4] = [
    Restart::power_loss(),
    Restart::power_loss_without_journal(),
    Restart::power_loss_within_a_sector(),
    Restart::nothing_kept(),
];

/// A run that ended at I/O `io`.
fn crashed_at(io: u64, plan: CrashPlan) -> (SimulatedDisk, Story) {
    let disk = SimulatedDisk::new(io);
    if plan.durability == Durability::Os {
        disk.keep_pages_whole();
    }
    disk.crash_at(io);
    let story = run(&disk, plan);
    disk.crash();
    (disk, story)
}

#[test]
fn a_loss_of_power_at_any_io_takes_nothing_that_was_acknowledged() {
    let plan = CrashPlan::new(Durability::Durable);
    for io in 0..ios(plan) {
        let (disk, story) = crashed_at(io, plan);
        for restart in LOSSES_OF_POWER.into_iter().chain([Restart::ProcessCrash]) {
            let what = format!("crash at I/O {io}, {restart:?}");
            judge(
                &disk.restart(restart),
                plan,
                (&story, story.acknowledged),
                &what,
            );
        }
    }
}

#[test]
fn the_end_of_the_process_at_any_io_takes_nothing_that_the_system_had() {
    for plan in [CrashPlan::new(Durability::Os), CrashPlan::of_small_values()] {
        for io in 0..ios(plan) {
            let (disk, story) = crashed_at(io, plan);
            let what = format!("end at I/O {io}, {plan:?}");
            let disk = disk.restart(Restart::ProcessCrash);
            judge(&disk, plan, (&story, story.acknowledged), &what);
        }
    }
}

#[test]
fn a_loss_of_power_at_any_io_takes_nothing_that_was_flushed() {
    for plan in [CrashPlan::new(Durability::Os), CrashPlan::of_small_values()] {
        for io in 0..ios(plan) {
            let (disk, story) = crashed_at(io, plan);
            for restart in LOSSES_OF_POWER {
                let what = format!("crash at I/O {io}, {restart:?}, {plan:?}");
                judge(&disk.restart(restart), plan, (&story, story.flushed), &what);
            }
        }
    }
}

#[test]
fn after_a_failed_flush_or_write_nothing_is_acknowledged() {
    let plan = CrashPlan::new(Durability::Durable);
    for io in 0..ios(plan) {
        for fault in [Fault::FailedFlush, Fault::ShortWrite { bytes: 100 }] {
            let disk = SimulatedDisk::new(io);
            disk.inject(io, fault);
            let story = run(&disk, plan);
            disk.crash();
            let what = format!("{fault:?} at I/O {io}");
            let disk = disk.restart(Restart::power_loss());
            judge(&disk, plan, (&story, story.acknowledged), &what);
        }
    }
}

/// The machine goes on, and its page cache may show what the device does not have.
#[test]
fn after_a_failed_flush_of_a_map_in_the_page_cache_nothing_that_was_flushed_is_gone() {
    let plan = CrashPlan::of_small_values();
    for io in 0..ios(plan) {
        let disk = SimulatedDisk::new(io);
        disk.inject(io, Fault::FailedFlush);
        let mut story = run(&disk, plan);
        let what = format!("failed flush at I/O {io}");
        // A directory's flush that fails leaves the file system read-only.
        if !disk.trace().to_string().contains("the journal failed") {
            judge(&disk, plan, (&story, story.flushed), &what);
            let core = open(&disk, plan).unwrap();
            story.after = vec![found(&core)];
            story.flushed = 0;
        }
        disk.crash();
        for restart in LOSSES_OF_POWER {
            let what = format!("{what}, then {restart:?}");
            judge(&disk.restart(restart), plan, (&story, story.flushed), &what);
        }
    }
}

/// Cuts the power at each I/O of a run.
fn assert_no_loss_of_power_takes_anything(plan: CrashPlan) {
    for io in 0..ios(plan) {
        let (disk, story) = crashed_at(io, plan);
        let what = format!("crash at I/O {io} of {plan:?}");
        let disk = disk.restart(Restart::power_loss());
        judge(&disk, plan, (&story, story.acknowledged), &what);
    }
}

#[test]
fn a_loss_of_power_at_any_io_of_a_map_of_the_first_format_takes_nothing() {
    assert_no_loss_of_power_takes_anything(CrashPlan {
        format: Format::One,
        ..CrashPlan::new(Durability::Durable)
    });
}

#[test]
fn a_loss_of_power_at_any_io_takes_no_compressed_value() {
    assert_no_loss_of_power_takes_anything(CrashPlan {
        compression: Compression::Lz4,
        ..CrashPlan::new(Durability::Durable)
    });
}
