//! A node on a simulated disk: the guarantees for callers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::alone::{BreakableClock, options, put, value};
use cluster::{Error, Node};
use environment::simulated::{Fault, SimulatedClock, SimulatedDisk};
use environment::{Clock, Disk};
use etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest,
};
use revisions::{Command, Response};

fn revision(response: Response) -> i64 {
    let mut response = response;
    response.header_mut().revision
}

#[test]
fn answers_are_given_in_the_order_of_the_log_and_their_writes_are_visible() {
    let disk = SimulatedDisk::new(1);
    let node = Node::start(options(&disk)).unwrap();
    let pending: Vec<_> = (0..500)
        .map(|number| node.propose(put(format!("{number}"), "v")).unwrap())
        .collect();
    let revisions: Vec<_> = pending
        .into_iter()
        .map(|answer| revision(answer.wait().unwrap()))
        .collect();
    assert_eq!(revisions, (2..502).collect::<Vec<_>>());
    assert_eq!(node.reader().revision(), 501);
    assert_eq!(value(&node, "499").unwrap(), b"v");
    let status = node.status();
    assert_eq!(status.index, status.applied_index);
    assert!(status.index <= 500, "a batch holds at least one command");
}

#[test]
fn a_command_that_writes_nothing_is_answered() {
    let disk = SimulatedDisk::new(2);
    let node = Node::start(options(&disk)).unwrap();
    let delete = DeleteRangeRequest {
        key: "nothing".into(),
        ..Default::default()
    };
    let response = node
        .propose(Command::DeleteRange(delete))
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(revision(response), 1);
    let compact = CompactionRequest {
        revision: 7,
        physical: true,
    };
    let refused = node
        .propose(Command::Compact(compact))
        .unwrap()
        .wait()
        .unwrap_err();
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
}

#[test]
fn a_physical_compaction_is_answered_after_its_sweep_and_delays_no_other_command() {
    let disk = SimulatedDisk::new(9);
    let node = Node::start(options(&disk)).unwrap();
    let versions = || node.reader().engine().status().versions;
    for physical in [true, false] {
        let puts: Vec<_> = (0..3000)
            .map(|_| node.propose(put("key", "v")).unwrap())
            .collect();
        let newest = puts.into_iter().map(|put| revision(put.wait().unwrap()));
        let compact = CompactionRequest {
            revision: newest.max().unwrap(),
            physical,
        };
        let hash = || node.reader().hash_kv(compact.revision).unwrap().hash;
        let before = hash();
        assert!(versions() >= 3000);
        let compacted = node.propose(Command::Compact(compact)).unwrap();
        let other = node.propose(put("other", "v")).unwrap();
        compacted.wait().unwrap();
        assert!(!physical || versions() <= 3, "{} left", versions());
        assert_eq!(hash() == before, physical);
        other.wait().unwrap();
        // A sweep is done even if no caller waits for it.
        while versions() > 3 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn every_start_begins_a_new_term_and_keeps_acknowledged_writes() {
    let disk = SimulatedDisk::new(3);
    let mut terms = Vec::new();
    for start in 0..4 {
        let node = Node::start(options(&disk)).unwrap();
        assert_eq!(node.reader().revision(), 1 + start);
        terms.push(node.status().term);
        node.propose(put("key", format!("{start}")))
            .unwrap()
            .wait()
            .unwrap();
        node.stop();
        assert!(matches!(node.propose(put("late", "")), Err(Error::Stopped)));
    }
    assert!(
        terms.is_sorted_by(|earlier, later| earlier < later),
        "{terms:?}"
    );
}

#[test]
fn after_a_failed_flush_no_write_is_acknowledged_and_reads_are_served() {
    for fault in [Fault::FailedFlush, Fault::ShortWrite { bytes: 100 }] {
        let disk = SimulatedDisk::new(4);
        let node = Node::start(options(&disk)).unwrap();
        node.propose(put("before", "kept")).unwrap().wait().unwrap();
        let mut refusals = 0;
        for number in 0..200 {
            // The thread that makes spare segments may meet a fault first and tries again,
            // so faults are injected until one hits a write.
            if refusals == 0 {
                disk.inject(disk.io_count(), fault);
            }
            let outcome = node
                .propose(put(format!("{number}"), "lost"))
                .and_then(cluster::Pending::wait);
            match outcome {
                Ok(_) => assert_eq!(refusals, 0, "acknowledged after a failure"),
                Err(error) => {
                    assert!(matches!(error, Error::LogFailed { .. }), "{error}");
                    refusals += 1;
                }
            }
        }
        assert!(refusals > 0, "{fault:?} was not noticed");
        assert_eq!(value(&node, "before").unwrap(), b"kept");
        assert!(node.refuses_writes().is_some());
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.unwrap();
        runtime.block_on(node.read_index()).unwrap();
        node.stop();
        let late = runtime.block_on(node.read_index());
        assert!(matches!(late, Err(Error::LogFailed { .. })), "{late:?}");
    }
}

#[test]
fn a_full_queue_refuses_commands_and_loses_none_that_it_accepted() {
    let disk = SimulatedDisk::new(5);
    let mut options = options(&disk);
    options.queue_bytes_max = 2_000;
    let node = Node::start(options).unwrap();
    let mut taken = Vec::new();
    let mut refused = 0;
    for number in 0..3_000 {
        match node.propose(put(format!("{number}"), vec![0; 400])) {
            Ok(pending) => taken.push((number, pending)),
            Err(error) => {
                assert!(matches!(error, Error::TooManyRequests { .. }), "{error}");
                refused += 1;
            }
        }
    }
    assert!(!taken.is_empty());
    assert_eq!(taken.len() + refused, 3_000);
    for (number, pending) in taken {
        pending.wait().unwrap();
        assert!(
            value(&node, &number.to_string()).is_some(),
            "{number} was accepted and is lost"
        );
    }
}

#[test]
fn commands_that_do_not_fit_into_one_batch_go_into_the_next() {
    let disk = SimulatedDisk::new(6);
    let mut options = options(&disk);
    options.batch_bytes_max = 4 << 10;
    let node = Node::start(options).unwrap();
    let pending: Vec<_> = (0..100)
        .map(|number| {
            node.propose(put(format!("{number}"), vec![b'x'; 1_000]))
                .unwrap()
        })
        .collect();
    pending.into_iter().for_each(|answer| {
        answer.wait().unwrap();
    });
    assert_eq!(node.reader().revision(), 101);
    assert!(node.status().index >= 20, "{:?}", node.status());
}

#[test]
fn only_the_command_that_is_too_large_for_a_batch_is_refused() {
    let disk = SimulatedDisk::new(8);
    let node = Node::start(options(&disk)).unwrap();
    let mut pending = Vec::new();
    for number in 0..20 {
        pending.push((
            true,
            node.propose(put(format!("{number}"), vec![b'x'; 3_000]))
                .unwrap(),
        ));
        pending.push((
            false,
            node.propose(put("large", vec![b'x'; 20_000])).unwrap(),
        ));
    }
    for (fits, answer) in pending {
        let outcome = answer.wait();
        assert_eq!(outcome.is_ok(), fits, "{outcome:?}");
    }
    assert_eq!(value(&node, "large"), None);
    assert_eq!(node.reader().revision(), 21);
}

#[test]
fn at_the_memory_limit_puts_are_refused_and_deletes_are_carried_out() {
    let disk = SimulatedDisk::new(9);
    let mut options = options(&disk);
    options.replica.machine.engine.memory_bytes_max = 64 << 10;
    let node = Node::start(options).unwrap();
    let mut kept = 0;
    let refusal = loop {
        match node.propose(put(format!("{kept:06}"), "v")).unwrap().wait() {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 100_000, "the limit is never met");
    };
    assert!(refusal.to_string().contains("raise the limit"), "{refusal}");
    // Later writes are refused by the alarm until an operator disarms it.
    let again = node.propose(put("again", "")).unwrap().wait().unwrap_err();
    assert!(again.to_string().contains("space exceeded"), "{again}");
    assert_eq!(node.reader().alarms().len(), 1);
    assert_eq!(node.reader().revision(), 1 + kept);
    let delete = DeleteRangeRequest {
        key: "000000".into(),
        ..Default::default()
    };
    let response = node.propose(Command::DeleteRange(delete)).unwrap().wait();
    assert_eq!(revision(response.unwrap()), 2 + kept);
    assert_eq!(value(&node, "000000"), None);
    assert_eq!(value(&node, "000001").unwrap(), b"v");
}

#[test]
fn the_keys_of_an_expired_lease_are_deleted() {
    let disk = SimulatedDisk::new(7);
    let mut options = options(&disk);
    let clock = environment::simulated::SimulatedClock::stepped();
    options.clock = Arc::new(clock.clone());
    options.replica.machine.lease_ttl_min_seconds = 1;
    let node = Node::start(options).unwrap();
    let grant = LeaseGrantRequest { id: 9, ttl: 10 };
    node.propose(Command::LeaseGrant(grant))
        .unwrap()
        .wait()
        .unwrap();
    let held = PutRequest {
        key: "held".into(),
        lease: 9,
        ..Default::default()
    };
    node.propose(Command::Put(held)).unwrap().wait().unwrap();
    clock.advance(Duration::from_secs(9));
    node.propose(put("nudge", "")).unwrap().wait().unwrap();
    assert!(value(&node, "held").is_some());
    clock.advance(Duration::from_secs(2));
    // Each proposal makes the replica check the clock at least once.
    for _ in 0..1_000 {
        node.propose(put("nudge", "")).unwrap().wait().unwrap();
        if value(&node, "held").is_none() {
            assert_eq!(node.status().leases_expired, 1);
            return;
        }
    }
    panic!("the lease has expired, and its key is still there");
}

#[test]
fn a_power_loss_under_load_keeps_every_acknowledged_write() {
    for seed in 0..30 {
        let disk = SimulatedDisk::new(seed);
        let node = Node::start(options(&disk)).unwrap();
        let mut acknowledged = 0;
        disk.crash_at(disk.io_count() + 3 + seed);
        for number in 0..1_000 {
            let outcome = node.propose(put(format!("{number:04}"), vec![b'x'; 300]));
            if outcome.and_then(cluster::Pending::wait).is_err() {
                break;
            }
            acknowledged = number + 1;
        }
        drop(node);
        let disk = disk.restart(environment::simulated::Restart::power_loss());
        assert!(!disk.list(Path::new("/node")).unwrap().is_empty());
        let node = Node::start(options(&disk)).unwrap();
        for number in 0..acknowledged {
            let key = format!("{number:04}");
            assert!(
                value(&node, &key).is_some(),
                "seed {seed}: {key} was acknowledged"
            );
        }
        let revision = node.reader().revision();
        assert!(
            (acknowledged + 1..=acknowledged + 2).contains(&revision),
            "seed {seed}"
        );
    }
}

/// The deletions of all keys of leases that end at the same moment need several batches.
#[test]
fn leases_that_expire_together_may_fill_several_batches() {
    let disk = SimulatedDisk::new(9);
    let clock = Arc::new(SimulatedClock::stepped());
    let mut options = options(&disk);
    options.clock = Arc::clone(&clock) as Arc<dyn Clock>;
    let node = Node::start(options).unwrap();
    for id in 1..=30 {
        let grant = LeaseGrantRequest { id, ttl: 10 };
        let granted = node.propose(Command::LeaseGrant(grant)).unwrap();
        granted.wait().unwrap();
        for number in 0..30 {
            let request = PutRequest {
                key: format!("{id}/{number}").into(),
                lease: id,
                ..Default::default()
            };
            node.propose(Command::Put(request)).unwrap().wait().unwrap();
        }
    }
    clock.advance(Duration::from_secs(11));
    let all = RangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        count_only: true,
        ..Default::default()
    };
    for _ in 0..2_000 {
        if node.reader().range(&all).unwrap().count == 0 {
            return;
        }
        // Wakes the replica, which sleeps by the real clock.
        let nothing = DeleteRangeRequest {
            key: "nothing".into(),
            ..Default::default()
        };
        node.propose(Command::DeleteRange(nothing))
            .unwrap()
            .wait()
            .unwrap();
        clock.advance(Duration::from_millis(10));
    }
    panic!(
        "keys of expired leases: {}",
        node.reader().range(&all).unwrap().count
    );
}

#[test]
fn a_panic_of_the_replica_ends_the_wait_of_every_caller() {
    let disk = SimulatedDisk::new(10);
    let clock = Arc::new(BreakableClock::default());
    let mut options = options(&disk);
    options.clock = Arc::clone(&clock) as Arc<dyn Clock>;
    let node = Node::start(options).unwrap();
    node.propose(put("a", "1")).unwrap().wait().unwrap();
    clock.broken.store(true, Ordering::Relaxed);
    let mut refused = None;
    while refused.is_none() {
        refused = match node.propose(put("b", "2")) {
            Ok(pending) => pending.wait().err(),
            Err(error) => Some(error),
        };
    }
    while node.refuses_writes().is_none() {
        std::thread::yield_now();
    }
    assert!(node.propose(put("c", "3")).is_err());
    assert_eq!(value(&node, "a").unwrap(), b"1");
    node.stop();
}
