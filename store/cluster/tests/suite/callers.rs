//! A node without a network that does not wait for the device: callers run the replica on
//! their own threads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::alone::{self, BreakableClock, put, value};
use cluster::{Error, Flushing, Node, NodeOptions};
use engine::Durability;
use environment::Clock;
use environment::simulated::{Fault, Restart, SimulatedClock, SimulatedDisk};
use etcd_api::etcdserverpb::{
    CompactionRequest, LeaseGrantRequest, MemberAddRequest, MemberRemoveRequest, PutRequest,
};
use revisions::{Command, Response};

const WRITERS: u64 = 8;

fn options(disk: &SimulatedDisk) -> NodeOptions {
    let mut options = alone::options(disk);
    options.replica.machine.engine.log.durability = Durability::Os;
    options
}

/// With these options there is no tick that could hide a missing wake-up.
fn options_without_ticks(disk: &SimulatedDisk) -> NodeOptions {
    let mut options = options(disk);
    options.replica.heartbeat_interval = Duration::from_secs(3600);
    options.replica.election_timeout = Duration::from_secs(36_000);
    options
}

fn revision(mut response: Response) -> i64 {
    response.header_mut().revision
}

/// Runs `work` on several threads and returns their results.
fn on_threads<T: Send>(work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || work(writer)))
            .collect();
        let ends = threads.into_iter().map(|thread| thread.join().unwrap());
        ends.collect()
    })
}

#[test]
fn every_caller_sees_its_answered_write_and_all_writes_have_one_order() {
    let disk = SimulatedDisk::new(1);
    let node = Node::start(options(&disk)).unwrap();
    let revisions = on_threads(|writer| {
        let write = |number: u64| {
            let key = format!("{writer}/{number}");
            // Segments of 64 KiB: the log changes to new ones during the test.
            let written = node.carry_out(put(key.clone(), vec![b'v'; 500]));
            let written = revision(written.unwrap());
            assert_eq!(value(&node, &key).unwrap().len(), 500);
            assert!(node.reader().revision() >= written);
            written
        };
        (0..200).map(write).collect::<Vec<_>>()
    });
    for of_one in &revisions {
        assert!(of_one.is_sorted(), "{of_one:?}");
    }
    let all: BTreeSet<i64> = revisions.into_iter().flatten().collect();
    assert!(all.into_iter().eq(2..2 + 200 * WRITERS as i64));
}

#[test]
fn a_process_crash_at_any_io_loses_no_acknowledged_write() {
    for seed in 0..30 {
        let disk = SimulatedDisk::new(seed);
        let node = Node::start(options(&disk)).unwrap();
        disk.crash_at(disk.io_count() + 3 + 7 * seed);
        let acknowledged = on_threads(|writer| {
            let write = |number: &u64| {
                let key = format!("{writer}/{number}");
                node.carry_out(put(key, vec![b'x'; 300])).is_ok()
            };
            (0..1_000).take_while(write).count()
        });
        drop(node);
        let disk = disk.restart(Restart::ProcessCrash);
        let node = Node::start(options(&disk)).unwrap();
        for (writer, count) in acknowledged.into_iter().enumerate() {
            for number in 0..count {
                let key = format!("{writer}/{number}");
                let found = value(&node, &key);
                assert!(found.is_some(), "seed {seed}: {key} was acknowledged");
            }
        }
    }
}

#[test]
fn asynchronous_callers_and_working_callers_are_answered_side_by_side() {
    let disk = SimulatedDisk::new(2);
    let node = Node::start(options_without_ticks(&disk)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();
    let waiting = async {
        for number in 0..300 {
            node.execute(put(format!("waits/{number}"), "v"))
                .await
                .unwrap();
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let node = &node;
            scope.spawn(move || {
                for number in 0..300 {
                    node.carry_out(put(format!("{writer}/{number}"), "v"))
                        .unwrap();
                }
            });
        }
        runtime.block_on(waiting);
    });
    assert_eq!(node.reader().revision(), 1 + 300 * (WRITERS as i64 + 1));
}

#[test]
fn commands_that_callers_leave_to_each_other_are_carried_out_without_a_tick() {
    let disk = SimulatedDisk::new(13);
    let node = Node::start(options_without_ticks(&disk)).unwrap();
    for writers in [2, 3, WRITERS] {
        on_threads(|writer| {
            let numbers = if writer < writers { 2000 } else { 0 };
            for number in 0..numbers {
                node.carry_out(put(format!("{writer}/{number}"), "v"))
                    .unwrap();
            }
        });
    }
    let puts = 2000 * (2 + 3 + WRITERS as i64);
    assert_eq!(node.reader().revision(), 1 + puts);
}

#[test]
fn after_a_failed_write_no_write_is_acknowledged_and_reads_are_served() {
    let disk = SimulatedDisk::new(4);
    let node = Node::start(options(&disk)).unwrap();
    node.carry_out(put("before", "kept")).unwrap();
    let mut refusals = 0;
    for number in 0..200 {
        // The thread that makes segments may meet a fault first, and tries again.
        if refusals == 0 {
            disk.inject(disk.io_count(), Fault::ShortWrite { bytes: 100 });
        }
        match node.carry_out(put(format!("{number}"), "lost")) {
            Ok(_) => assert_eq!(refusals, 0, "acknowledged after a failure"),
            Err(error) => {
                assert!(matches!(error, Error::LogFailed { .. }), "{error}");
                refusals += 1;
            }
        }
    }
    assert!(refusals > 0, "the fault was not noticed");
    assert_eq!(value(&node, "before").unwrap(), b"kept");
    assert!(node.refuses_writes().is_some());
}

#[test]
fn a_physical_compaction_that_takes_several_steps_is_answered() {
    let disk = SimulatedDisk::new(5);
    let node = Node::start(options(&disk)).unwrap();
    for _ in 0..3_000 {
        node.carry_out(put("key", "v")).unwrap();
    }
    let compact = CompactionRequest {
        revision: node.reader().revision(),
        physical: true,
    };
    let versions = || node.reader().engine().status().versions;
    assert!(versions() >= 3_000);
    node.carry_out(Command::Compact(compact)).unwrap();
    assert!(versions() <= 3, "{} left", versions());
}

#[test]
fn leases_expire_when_no_caller_writes() {
    let disk = SimulatedDisk::new(6);
    let mut options = options(&disk);
    let clock = SimulatedClock::stepped();
    options.clock = Arc::new(clock.clone());
    options.replica.machine.lease_ttl_min_seconds = 1;
    let node = Node::start(options).unwrap();
    let grant = LeaseGrantRequest { id: 9, ttl: 10 };
    node.carry_out(Command::LeaseGrant(grant)).unwrap();
    let held = PutRequest {
        key: "held".into(),
        lease: 9,
        ..Default::default()
    };
    node.carry_out(Command::Put(held)).unwrap();
    clock.advance(Duration::from_secs(11));
    // No caller writes: only the replica thread checks the clock.
    while value(&node, "held").is_some() {
        std::thread::yield_now();
    }
}

/// Together the deletions fill several batches, while the clock stands still.
#[test]
fn leases_that_expire_together_end_in_several_batches() {
    const LEASES: i64 = 40;
    let disk = SimulatedDisk::new(8);
    let mut options = options(&disk);
    let clock = SimulatedClock::stepped();
    options.clock = Arc::new(clock.clone());
    options.replica.machine.lease_ttl_min_seconds = 1;
    options.replica.machine.engine.batch_bytes_max = 4 << 10;
    let node = Node::start(options).unwrap();
    for id in 1..=LEASES {
        let grant = LeaseGrantRequest { id, ttl: 10 };
        node.carry_out(Command::LeaseGrant(grant)).unwrap();
        for number in 0..10 {
            let held = PutRequest {
                key: format!("{id}/{number}/{}", "x".repeat(100)).into(),
                lease: id,
                ..Default::default()
            };
            node.carry_out(Command::Put(held)).unwrap();
        }
    }
    let keys = || node.reader().engine().snapshot().keys();
    assert_eq!(keys(), 10 * LEASES as u64);
    clock.advance(Duration::from_secs(11));
    while keys() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn puts_before_and_after_changes_of_the_configuration_survive_a_crash() {
    let disk = SimulatedDisk::new(9);
    let node = Node::start(options(&disk)).unwrap();
    let put_on = |name: &str| {
        for number in 0..5 {
            node.carry_out(put(format!("{name}/{number}"), "v"))
                .unwrap();
        }
    };
    put_on("before");
    let add = MemberAddRequest {
        peer_ur_ls: vec!["http://learner:2380".into()],
        is_learner: true,
    };
    let added = node.carry_out(Command::MemberAdd(add)).unwrap();
    let Response::MemberAdd(added) = added else {
        panic!("another answer: {added:?}")
    };
    put_on("beside a learner");
    let id = added.member.unwrap().id;
    node.carry_out(Command::MemberRemove(MemberRemoveRequest { id }))
        .unwrap();
    put_on("alone again");
    let revision = node.reader().revision();
    drop(node);
    let disk = disk.restart(Restart::ProcessCrash);
    let node = Node::start(options(&disk)).unwrap();
    assert_eq!(node.reader().revision(), revision);
    assert_eq!(value(&node, "alone again/4").unwrap(), b"v");
    assert!(node.reader().is_removed(id));
}

#[test]
fn writes_of_callers_are_flushed_in_the_background() {
    let disk = SimulatedDisk::new(7);
    let mut options = options(&disk);
    options.flushing = Some(Flushing {
        entries_max: 10,
        interval: Duration::from_millis(1),
    });
    let node = Node::start(options).unwrap();
    for number in 0..100 {
        node.carry_out(put(format!("{number}"), "v")).unwrap();
    }
    while node.unflushed().unwrap().entries > 0 {
        std::thread::yield_now();
    }
    disk.crash();
    drop(node);
    let disk = disk.restart(Restart::nothing_kept());
    let node = Node::start(self::options(&disk)).unwrap();
    assert_eq!(node.reader().revision(), 101);
}

#[test]
fn a_node_that_stops_answers_every_caller() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let node = Node::start(options(&disk)).unwrap();
        let begun = AtomicBool::new(false);
        let acknowledged = on_threads(|writer| {
            if writer == 0 {
                while !begun.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                node.stop();
                return 0;
            }
            for number in 0.. {
                match node.carry_out(put(format!("{writer}/{number}"), "v")) {
                    Ok(_) => begun.store(true, Ordering::Release),
                    Err(Error::Stopped) => return number,
                    Err(error) => panic!("{error}"),
                }
            }
            unreachable!("the node stops")
        });
        let all: i64 = acknowledged.into_iter().sum();
        drop(node);
        let node = Node::start(options(&disk)).unwrap();
        let revision = node.reader().revision();
        let most = 1 + all + WRITERS as i64;
        assert!((1 + all..=most).contains(&revision), "{revision}, {all}");
    }
}

#[test]
fn a_panic_at_work_ends_the_wait_of_every_caller() {
    let disk = SimulatedDisk::new(10);
    let clock = Arc::new(BreakableClock::default());
    let mut options = options(&disk);
    options.clock = Arc::clone(&clock) as Arc<dyn Clock>;
    let node = Node::start(options).unwrap();
    node.carry_out(put("a", "1")).unwrap();
    let ended = std::thread::scope(|scope| {
        let write = || while node.carry_out(put("b", "2")).is_ok() {};
        let threads: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        clock.broken.store(true, Ordering::Relaxed);
        let panicked = threads.into_iter().map(|it| it.join().is_err());
        panicked.filter(|panicked| *panicked).count()
    });
    assert!(ended <= 1, "the caller at work, or the replica's thread");
    // The thread that panicked may not have ended yet.
    while node.refuses_writes().is_none() {
        std::thread::yield_now();
    }
    assert!(node.carry_out(put("c", "3")).is_err());
    assert_eq!(value(&node, "a").unwrap(), b"1");
    node.stop();
}
