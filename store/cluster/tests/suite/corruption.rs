//! Members with different states, and the alarm that names them.

use crate::scene;

use std::path::Path;

use cluster::{Error, Mutant};
use engine::{KeyWalk, MemoryFault};
use environment::{Disk, OpenMode};
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmRequest, AlarmType, LeaseGrantRequest, PutRequest};
use revisions::Command;
use tokio::sync::oneshot;

use scene::{Cluster, Pending, is_done};

const CORRUPT: &str = "etcdserver: corrupt cluster";

/// Members that the alarm CORRUPT names, as member `at` has applied it.
fn corrupt(cluster: &mut Cluster, at: u64) -> Vec<u64> {
    let alarms = cluster.replica(at).reader().alarms();
    let corrupt = alarms
        .iter()
        .filter(|it| it.alarm == AlarmType::Corrupt as i32);
    corrupt.map(|it| it.member_id).collect()
}

fn corrupt_anywhere(cluster: &Cluster) -> bool {
    let replicas = cluster.machines.iter().filter_map(|it| it.replica.as_ref());
    replicas.into_iter().any(|replica| {
        let alarms = replica.reader().alarms();
        alarms
            .iter()
            .any(|it| it.alarm == AlarmType::Corrupt as i32)
    })
}

fn ask(cluster: &mut Cluster, at: u64, command: Command) -> Pending {
    let (answer, receiver) = oneshot::channel();
    cluster.replica(at).propose(&command, answer);
    cluster.run_until_quiet();
    receiver
}

fn put_many(cluster: &mut Cluster, at: u64, count: usize) {
    for number in 0..count {
        assert!(is_done(&mut cluster.put(at, &format!("key{number}"))));
    }
}

#[test]
fn a_healthy_cluster_agrees_through_restarts_and_changes_of_the_leader() {
    let mut cluster = Cluster::new(3);
    for round in 0..4_u64 {
        put_many(&mut cluster, 1, 5);
        cluster.lose_power(2 + round % 2);
        put_many(&mut cluster, 1, 5);
        cluster.start(2 + round % 2);
        cluster.until(|cluster| cluster.leader() != 0 && cluster.agrees());
        cluster.move_lead(3);
        put_many(&mut cluster, 3, 3);
        cluster.move_lead(1);
    }
    cluster.long();
    assert!(!corrupt_anywhere(&cluster));
    let found = cluster.replica(1).agreements();
    assert!(found.agreed > 0, "{found:?}");
    assert_eq!((found.differed, found.alarms), (0, 0));
}

#[test]
fn an_idle_cluster_that_agrees_compares_nothing_more() {
    let mut cluster = Cluster::new(3);
    put_many(&mut cluster, 1, 3);
    cluster.long();
    let before = cluster.replica(1).agreements();
    cluster.long();
    assert_eq!(cluster.replica(1).agreements(), before);
}

#[test]
fn a_follower_that_applies_another_value_is_named() {
    let mut cluster = Cluster::with_mutant_at(3, 3, Mutant::AppliesAnotherValue);
    assert_eq!(cluster.leader(), 1);
    put_many(&mut cluster, 1, 40);
    cluster.until(corrupt_anywhere);
    cluster.until(Cluster::agrees);
    for at in 1..=3 {
        assert_eq!(corrupt(&mut cluster, at), [3], "at {at}");
    }
}

#[test]
fn a_leader_that_applies_another_value_is_named() {
    let mut cluster = Cluster::with_mutant_at(3, 1, Mutant::AppliesAnotherValue);
    assert_eq!(cluster.leader(), 1);
    put_many(&mut cluster, 1, 40);
    cluster.until(corrupt_anywhere);
    cluster.until(Cluster::agrees);
    assert_eq!(corrupt(&mut cluster, 2), [1]);
}

#[test]
fn without_a_majority_the_alarm_names_member_0() {
    let mut cluster = Cluster::with_mutant_at(2, 2, Mutant::AppliesAnotherValue);
    put_many(&mut cluster, 1, 40);
    cluster.until(corrupt_anywhere);
    cluster.until(Cluster::agrees);
    assert_eq!(corrupt(&mut cluster, 1), [0]);
}

#[test]
fn without_the_third_voter_the_alarm_names_member_0() {
    let mut cluster = Cluster::with_mutant_at(3, 3, Mutant::AppliesAnotherValue);
    cluster.kill(2);
    put_many(&mut cluster, 1, 40);
    cluster.until(corrupt_anywhere);
    assert_eq!(corrupt(&mut cluster, 1), [0]);
}

#[test]
fn a_difference_outlives_a_restart_of_the_member() {
    let mut cluster = Cluster::with_mutant_at(3, 3, Mutant::AppliesAnotherValue);
    // Nothing is compared while the member applies its other values.
    cluster.hashes_of_are_lost = Some(3);
    put_many(&mut cluster, 1, 40);
    cluster.until(Cluster::agrees);
    cluster.replica(3).machine_mut().checkpoint().unwrap();
    cluster.kill(3);
    cluster.no_mutant();
    cluster.start(3);
    cluster.hashes_of_are_lost = None;
    cluster.until(corrupt_anywhere);
    cluster.until(Cluster::agrees);
    assert_eq!(corrupt(&mut cluster, 1), [3]);
}

/// Spoils the entry of `key3` of member 2.
fn spoil(cluster: &mut Cluster, fault: MemoryFault) {
    let machine = cluster.replica(2).machine_mut();
    assert!(machine.spoil_in_memory(b"key3", fault));
}

/// Walks the keys in the memory of member 2, as its scrubber does.
fn walk(cluster: &mut Cluster) -> Option<KeyWalk> {
    let engine = cluster.replica(2).reader().engine().clone();
    engine.check_keys(&mut || true)
}

#[test]
fn a_revision_that_changed_in_memory_is_corrected_and_nothing_wrong_is_answered() {
    let mut cluster = Cluster::new(3);
    put_many(&mut cluster, 1, 5);
    cluster.until(Cluster::agrees);
    spoil(&mut cluster, MemoryFault::Revision);
    // Reads of the key fail: the record is not of the revision that the index says.
    let asked = etcd_api::etcdserverpb::RangeRequest {
        key: "key3".into(),
        ..Default::default()
    };
    assert!(cluster.replica(2).reader().range(&asked).is_err());
    assert_eq!(walk(&mut cluster), Some(KeyWalk::Correctable(1)));
    cluster.replica(2).upkeep().unwrap();
    assert_eq!(walk(&mut cluster), Some(KeyWalk::Sound));
    assert!(cluster.has(2, "key3"));
    assert!(is_done(&mut cluster.put(1, "key3")));
    cluster.long();
    assert!(!corrupt_anywhere(&cluster));
}

#[test]
fn a_member_that_lost_an_entry_in_memory_names_itself() {
    let mut cluster = Cluster::new(3);
    put_many(&mut cluster, 1, 5);
    cluster.until(Cluster::agrees);
    spoil(&mut cluster, MemoryFault::Lost);
    assert_eq!(walk(&mut cluster), Some(KeyWalk::Spoiled));
    cluster.until(corrupt_anywhere);
    cluster.until(Cluster::agrees);
    assert_eq!(corrupt(&mut cluster, 1), [2]);
}

#[test]
fn a_changed_entry_that_is_written_over_is_found_by_comparison() {
    let mut cluster = Cluster::new(3);
    put_many(&mut cluster, 1, 5);
    cluster.until(Cluster::agrees);
    spoil(&mut cluster, MemoryFault::Revision);
    assert!(is_done(&mut cluster.put(1, "key3")));
    cluster.until(corrupt_anywhere);
    cluster.until(Cluster::agrees);
    assert_eq!(corrupt(&mut cluster, 1), [2]);
}

#[test]
fn the_alarm_refuses_writes_and_lets_reads_and_its_end_pass() {
    let mut cluster = Cluster::new(3);
    put_many(&mut cluster, 1, 5);
    let alarm = |action: AlarmAction| {
        Command::Alarm(AlarmRequest {
            action: action.into(),
            member_id: 2,
            alarm: AlarmType::Corrupt.into(),
        })
    };
    assert!(is_done(&mut ask(
        &mut cluster,
        1,
        alarm(AlarmAction::Activate)
    )));
    let put = || {
        Command::Put(PutRequest {
            key: "k".into(),
            ..PutRequest::default()
        })
    };
    let grant = Command::LeaseGrant(LeaseGrantRequest { ttl: 60, id: 7 });
    for command in [put(), grant] {
        let refused = ask(&mut cluster, 1, command)
            .try_recv()
            .unwrap()
            .unwrap_err();
        assert_eq!(refused.to_string(), CORRUPT);
        assert!(matches!(refused, Error::Refused(_)));
    }
    assert!(cluster.has(1, "key0"));
    assert!(is_done(&mut ask(
        &mut cluster,
        1,
        alarm(AlarmAction::Deactivate)
    )));
    assert!(is_done(&mut ask(&mut cluster, 1, put())));
    cluster.long();
    assert!(!corrupt_anywhere(&cluster), "the states are equal");
}

#[test]
fn an_alarm_that_is_cleared_is_raised_again_while_its_reason_lasts() {
    let mut cluster = Cluster::with_mutant_at(3, 3, Mutant::AppliesAnotherValue);
    put_many(&mut cluster, 1, 40);
    cluster.until(corrupt_anywhere);
    let clear = Command::Alarm(AlarmRequest {
        action: AlarmAction::Deactivate.into(),
        member_id: 3,
        alarm: AlarmType::Corrupt.into(),
    });
    assert!(is_done(&mut ask(&mut cluster, 1, clear)));
    cluster.until(corrupt_anywhere);
}

#[test]
fn a_member_of_a_release_without_hashes_is_not_compared() {
    let mut cluster = Cluster::with_mutant_at(3, 3, Mutant::AppliesAnotherValue);
    cluster.hashes_of_are_lost = Some(3);
    put_many(&mut cluster, 1, 40);
    cluster.long();
    assert!(!corrupt_anywhere(&cluster));
    assert!(
        cluster.replica(1).agreements().agreed > 0,
        "the other one is"
    );
}

const SEALED: &str = "/data/00000001.log";

/// Three members that have sealed their first segment.
fn with_a_sealed_segment() -> Cluster {
    let mut cluster = Cluster::new(3);
    for number in 0..100 {
        let command = Command::Put(PutRequest {
            key: format!("key{number}").into(),
            value: value(number).into(),
            ..PutRequest::default()
        });
        assert!(is_done(&mut ask(&mut cluster, 1, command)));
    }
    cluster.until(Cluster::agrees);
    cluster
}

fn value(number: u32) -> Vec<u8> {
    let mut value = format!("value of {number:04} ").into_bytes();
    value.resize(1000, b'.');
    value
}

/// Flips a bit of a value in a member's first segment.
fn flip(cluster: &Cluster, id: u64, number: u32) {
    let disk = &cluster.machines[id as usize - 1].disk;
    let file = disk.open(Path::new(SEALED), OpenMode::Read).unwrap();
    let mut content = vec![0; file.size().unwrap() as usize];
    file.read_at(&mut content, 0).unwrap();
    let wanted = value(number);
    let place = content.windows(20).position(|part| part == &wanted[..20]);
    disk.flip_bit(Path::new(SEALED), place.unwrap() as u64 + 3, 1);
}

/// Scrubs a member's sealed segments once; returns the values that it found unreadable.
fn scrub(cluster: &mut Cluster, id: u64) -> usize {
    let mut scrubber = cluster.replica(id).reader().engine().scrubber();
    let mut unreadable = 0;
    loop {
        let step = scrubber.step().unwrap();
        unreadable += step.damaged.iter().map(|it| it.unreadable).sum::<usize>();
        if step.round_over {
            return unreadable;
        }
    }
}

fn damaged(cluster: &mut Cluster, id: u64) -> usize {
    cluster
        .replica(id)
        .reader()
        .engine()
        .damaged_versions()
        .len()
}

#[test]
fn a_flipped_bit_in_a_sealed_segment_is_scrubbed_out_with_the_record_of_another_member() {
    for id in 1..=3 {
        let mut cluster = with_a_sealed_segment();
        assert_eq!(scrub(&mut cluster, id), 0);
        flip(&cluster, id, 7);
        assert_eq!(scrub(&mut cluster, id), 1);
        cluster.tick();
        cluster.tick();
        assert_eq!(damaged(&mut cluster, id), 0);
        assert_eq!(scrub(&mut cluster, id), 0, "it is repaired on the device");
        assert!(cluster.has(id, "key7"));
        assert!(!corrupt_anywhere(&cluster));
    }
}

#[test]
fn a_damaged_value_waits_for_a_member_that_has_it() {
    let mut cluster = with_a_sealed_segment();
    (1..=3).for_each(|id| flip(&cluster, id, 7));
    flip(&cluster, 2, 9);
    assert_eq!(scrub(&mut cluster, 2), 2);
    cluster.part(&[2]);
    cluster.long();
    assert_eq!(damaged(&mut cluster, 2), 2, "no member can be asked");
    cluster.cut.clear();
    cluster.long();
    let left = cluster.replica(2).reader().engine().damaged_versions();
    assert_eq!(left.len(), 1, "the others have the same damage: {left:?}");
    assert_eq!(&left[0].key[..], b"key7");
    assert_eq!(scrub(&mut cluster, 2), 1);
}
