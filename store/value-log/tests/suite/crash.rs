//! A crash at every single I/O: acknowledged groups are there, other groups are there
//! whole or not at all, and all that are there form a prefix.
//!
//! `INKSTONE_TEST_SEED` changes which blocks a loss of power leaves, and in which order.

use crate::support;

use environment::simulated::{Restart, SimulatedDisk};
use support::{explicit, open, payload, seed, shared, small_and_whole};
use value_log::{Error, Log, Options, Record, Seal, Tag, Worker};

/// Every run takes more I/Os than this, however many groups share a write (which depends
/// on the threads).
const IOS_MIN: u64 = 60;

/// What a run had promised to its client before the crash.
#[derive(Clone, Copy, Debug, Default)]
struct Promised {
    /// Highest index that was promised to be durable.
    acknowledged: u64,
    /// Highest index that was handed over.
    appended: u64,
    /// Lowest index that may be missing from the front: released.
    released_below: u64,
}

/// Sizes that fill several segments, some larger than a buffer.
fn bytes_of(index: u64) -> usize {
    match index % 11 {
        0 => 20_000,
        1 => 0,
        rest => 300 * rest as usize,
    }
}

fn append(log: &Log, seal: Seal, index: u64) -> Result<value_log::Appended, Error> {
    let payload = payload(index, bytes_of(index));
    let index = index.to_le_bytes();
    let record = Record {
        kind: 1,
        parts: &[&index, &payload],
    };
    let number = u64::from_le_bytes(index);
    let tag = Tag {
        term: 1,
        index: number,
        first: number,
        last: number,
    };
    match seal {
        Seal::Explicit => log.append_group(tag, &[record]),
        Seal::WhenIdle => log.append(&[record]),
    }
}

/// Appends groups `from..to`, three at a time, releasing old segments.
fn work(
    disk: &SimulatedDisk,
    options: &Options,
    from: u64,
    to: u64,
    promised: &mut Promised,
) -> Result<(), Error> {
    let (log, ..) = open(disk, options.clone())?;
    for index in from..to {
        promised.appended = index;
        let appended = append(&log, options.seal, index)?;
        if index % 3 == 0 {
            log.wait_durable(appended.sequence)?;
            promised.acknowledged = index;
        }
        if index % 20 == 0 {
            promised.released_below = index;
            log.rotate()?;
            promised.acknowledged = index;
            let mut relocation = log.relocate(0)?;
            relocation.append(Record {
                kind: 2,
                parts: &[b"survivor"],
            })?;
            let mut old = relocation.finish()?;
            old.extend(
                log.segments()
                    .iter()
                    .filter(|it| it.sealed)
                    .map(|it| it.id)
                    .min(),
            );
            log.release(&old)?;
        }
    }
    log.close()
}

/// Opens and checks; returns the highest index found.
fn check(disk: &SimulatedDisk, options: &Options, promised: &Promised, story: &str) -> u64 {
    let (log, recovered, seen) = match open(disk, options.clone()) {
        Ok(opened) => opened,
        Err(error) => panic!("{story}: {error}\n{}", disk.trace()),
    };
    let records = seen.into_iter().flat_map(|(_, payloads)| payloads);
    let mut expected = None;
    for record in records {
        let index = u64::from_le_bytes(record[..8].try_into().unwrap());
        let next = expected.unwrap_or(index);
        assert!(
            expected.is_some() || index <= promised.released_below + 1,
            "{story}: starts with {index}\n{}",
            disk.trace()
        );
        assert!(
            index == next || index <= promised.released_below,
            "{story}: {index} follows {next}\n{}",
            disk.trace()
        );
        assert_eq!(
            record[8..],
            payload(index, bytes_of(index)),
            "{story}: payload of {index}"
        );
        expected = Some(index + 1);
    }
    let last = expected.unwrap_or(promised.released_below + 1) - 1;
    assert!(
        last >= promised.acknowledged,
        "{story}: {last} of {promised:?}, {recovered:?}\n{}",
        disk.trace()
    );
    assert!(last <= promised.appended, "{story}: {last} of {promised:?}");
    drop(log);
    last
}

fn restarts() -> [(&'static str, Restart); 6] {
    [
        ("process crash", Restart::ProcessCrash),
        ("power loss", Restart::power_loss()),
        ("no journal", Restart::power_loss_without_journal()),
        ("within a sector", Restart::power_loss_within_a_sector()),
        ("nothing kept", Restart::nothing_kept()),
        ("everything kept", Restart::everything_kept()),
    ]
}

/// Crashes a first life at every I/O, then a second one too, at an I/O that
/// moves along.
fn crash_everywhere(options: &Options, seed: u64) {
    for options in small_and_whole(options) {
        crash_at_every_io(&options, seed);
    }
}

fn crash_at_every_io(options: &Options, seed: u64) {
    for io in 0.. {
        let disk = SimulatedDisk::new(seed + io);
        disk.crash_at(io);
        let mut promised = Promised::default();
        let ended = work(&disk, options, 1, 62, &mut promised);
        if !disk.has_crashed() {
            assert!(ended.is_ok() && io > IOS_MIN, "{io}: {ended:?}");
            return;
        }
        for (name, restart) in restarts() {
            let story = format!("seed {seed}, crash at {io}, {name}");
            let revived = disk.restart(restart);
            let again = revived.fork();
            let last = check(&revived, options, &promised, &story);
            second_life(
                &again,
                options,
                &promised,
                io,
                &format!("{story}, last {last}"),
            );
        }
    }
}

/// With page-cache durability a process crash loses nothing that was promised, and
/// a loss of power leaves a prefix.
fn crash_everywhere_in_the_page_cache(options: &Options, can_reserve: bool, seed: u64) {
    for options in small_and_whole(options) {
        crash_at_every_io_in_the_page_cache(&options, can_reserve, seed);
    }
}

fn crash_at_every_io_in_the_page_cache(options: &Options, can_reserve: bool, seed: u64) {
    for io in 0.. {
        let disk = SimulatedDisk::new(seed + io);
        if !can_reserve {
            disk.refuse_reservations();
        }
        disk.crash_at(io);
        let mut promised = Promised::default();
        let ended = work(&disk, options, 1, 62, &mut promised);
        if !disk.has_crashed() {
            assert!(ended.is_ok() && io > IOS_MIN, "{io}: {ended:?}");
            return;
        }
        for (name, restart) in restarts() {
            let story = format!("seed {seed}, crash at {io}, {name}");
            let kept = if restart == Restart::ProcessCrash {
                promised.acknowledged
            } else {
                0
            };
            let promised = Promised {
                acknowledged: kept,
                ..promised
            };
            check(&disk.restart(restart), options, &promised, &story);
        }
    }
}

/// Opens a crashed disk and crashes again within or soon after recovery.
fn second_life(disk: &SimulatedDisk, options: &Options, promised: &Promised, io: u64, story: &str) {
    disk.crash_at(io % 17);
    let found = open(disk, options.clone()).map(|(log, _, seen)| {
        drop(log);
        seen.iter()
            .flat_map(|(_, payloads)| payloads)
            .last()
            .map(|record| u64::from_le_bytes(record[..8].try_into().unwrap()))
    });
    let disk = disk.restart(Restart::power_loss());
    // What the first recovery showed is there for good.
    let shown = found.ok().flatten().unwrap_or(0).max(promised.acknowledged);
    let promised = Promised {
        acknowledged: shown,
        appended: promised.appended,
        released_below: promised.released_below,
    };
    check(
        &disk,
        options,
        &promised,
        &format!("{story}, second crash at {}", io % 17),
    );
}

#[test]
fn explicit_groups_survive_a_crash_at_every_io() {
    crash_everywhere(&explicit(), seed(1000));
}

#[test]
fn shared_groups_survive_a_crash_at_every_io() {
    crash_everywhere(&shared(), seed(2000));
}

/// Large enough for a segment's reach to be moved.
#[test]
fn larger_segments_survive_a_crash_at_every_io() {
    let options = Options {
        segment_bytes: 256 << 10,
        ..explicit()
    };
    crash_everywhere(&options, seed(6000));
}

#[test]
fn groups_survive_a_crash_at_every_io_when_the_caller_does_the_work() {
    for seal in [Seal::Explicit, Seal::WhenIdle] {
        let options = Options {
            seal,
            worker: Worker::Caller,
            ..explicit()
        };
        crash_everywhere(&options, seed(7000));
    }
}

#[test]
fn the_page_cache_keeps_its_smaller_promise_at_every_io() {
    let options = Options {
        durability: value_log::Durability::Os,
        ..explicit()
    };
    crash_everywhere_in_the_page_cache(&options, true, seed(4000));
    let shared = Options {
        seal: Seal::WhenIdle,
        ..options.clone()
    };
    crash_everywhere_in_the_page_cache(&shared, true, seed(5000));
    crash_everywhere_in_the_page_cache(&options, false, seed(8000));
}

/// The second life finds a segment with blocks that are only reserved, or one of written blocks, and
/// wants the other.
#[test]
fn a_log_that_changes_its_durability_survives_a_crash_at_every_io() {
    let cached = Options {
        durability: value_log::Durability::Os,
        ..explicit()
    };
    crash_everywhere_after(&cached, &explicit(), seed(9000));
    crash_everywhere_after(&explicit(), &cached, seed(10_000));
}

fn crash_everywhere_after(first: &Options, second: &Options, seed: u64) {
    for first in small_and_whole(first) {
        for second in small_and_whole(second) {
            crash_at_every_io_after(&first, &second, seed);
        }
    }
}

fn crash_at_every_io_after(first: &Options, second: &Options, seed: u64) {
    for io in 0.. {
        let disk = SimulatedDisk::new(seed + io);
        let mut promised = Promised::default();
        work(&disk, first, 1, 26, &mut promised).unwrap();
        promised.acknowledged = promised.appended;
        let closed = promised.acknowledged;
        disk.crash_at(disk.io_count() + io);
        let ended = work(&disk, second, 26, 62, &mut promised);
        if !disk.has_crashed() {
            assert!(ended.is_ok() && io > IOS_MIN / 2, "{io}: {ended:?}");
            return;
        }
        for (name, restart) in restarts() {
            let story = format!("seed {seed}, crash at {io}, {name}");
            let keeps_all = second.durability == value_log::Durability::Durable
                || restart == Restart::ProcessCrash;
            let promised = Promised {
                acknowledged: if keeps_all {
                    promised.acknowledged
                } else {
                    closed
                },
                ..promised
            };
            for options in [first, second] {
                let revived = disk.restart(restart);
                check(&revived, options, &promised, &story);
            }
        }
    }
}

#[test]
fn the_canary_a_log_that_promises_too_early_is_caught() {
    let options = Options {
        durability: value_log::Durability::Os,
        ..explicit()
    };
    let caught = std::panic::catch_unwind(|| crash_everywhere(&options, seed(3000)));
    assert!(
        caught.is_err(),
        "page-cache durability must not pass for durability"
    );
}
