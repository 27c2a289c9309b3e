//! Members that acknowledge from their page caches, lose power, and rejoin.

use crate::scene;

use cluster::{Error, Mutant};
use engine::Durability;

use scene::{Cluster, LONG_TICKS, is_done};

/// A cluster of members that acknowledge entries before they are on the device.
fn cached(count: u64) -> Cluster {
    Cluster::with(count, Durability::Os, None)
}

#[test]
fn a_leader_makes_a_member_whole_that_has_lost_the_tail_of_its_log() {
    let mut cluster = cached(3);
    cluster.part(&[3]);
    assert!(is_done(&mut cluster.put(1, "e")));
    let before = cluster.replica(2).index();
    cluster.lose_power(2);
    cluster.start(2);
    assert!(cluster.replica(2).index() < before, "it has lost something");
    assert!(cluster.rejoins(2));
    cluster.until(|cluster| !cluster.rejoins(2));
    assert!(cluster.replica(2).index() >= before);
    assert!(cluster.has(2, "e"));
    assert!(is_done(&mut cluster.put(1, "f")), "it counts again");
}

#[test]
fn a_rejoining_member_does_not_elect_one_that_lacks_committed_entries() {
    let mut cluster = cached(3);
    cluster.part(&[3]);
    assert!(is_done(&mut cluster.put(1, "e")));
    cluster.lose_power(2);
    cluster.cut.clear();
    cluster.part(&[1]);
    cluster.start(2);
    cluster.long();
    assert!(
        cluster.rejoins(2),
        "the only other member with the entry is cut off"
    );
    let others = [cluster.replica(2).leads(), cluster.replica(3).leads()];
    assert_eq!(others, [false, false]);
    cluster.cut.clear();
    cluster.until(|cluster| cluster.leader() != 0 && cluster.agrees() && !cluster.rejoins(2));
    for id in 1..=3 {
        assert!(cluster.has(id, "e"), "member {id}");
    }
}

/// Members 1 and 2 have an entry, 2 loses it, 3 confirms it: is it committed?
fn counts_the_former_incarnation(mutant: Option<Mutant>) -> bool {
    let mut cluster = Cluster::with(5, Durability::Os, mutant);
    cluster.part(&[3, 4, 5]);
    let mut answer = cluster.put(1, "e");
    assert!(!is_done(&mut answer), "two of five have it");
    let end = cluster.replica(2).index();
    assert_eq!(end, cluster.replica(1).index());
    cluster.lose_power(2);
    // Member 1 receives the messages of member 2, and member 2 receives none of member 1.
    cluster.cut.insert((1, 2));
    cluster.start(2);
    assert!(cluster.replica(2).index() < end);
    cluster.tick();
    cluster.cut.remove(&(1, 3));
    cluster.cut.remove(&(3, 1));
    for _ in 0..3 {
        cluster.tick();
    }
    assert_eq!(cluster.replica(3).index(), end, "it has confirmed it");
    is_done(&mut answer)
}

#[test]
fn confirmations_of_a_former_incarnation_do_not_count() {
    assert!(!counts_the_former_incarnation(None));
    assert!(counts_the_former_incarnation(Some(Mutant::KeepsItsMatch)));
}

#[test]
fn an_entry_on_one_device_survives_a_loss_of_power_of_all_members() {
    let mut cluster = cached(3);
    assert!(is_done(&mut cluster.put(1, "e")));
    cluster.flush(2);
    (1..=3).for_each(|id| cluster.lose_power(id));
    cluster.start(1);
    cluster.start(3);
    cluster.long();
    assert_eq!(cluster.leader(), 0, "the member with the entry is down");
    cluster.start(2);
    cluster.until(|cluster| cluster.leader() != 0 && cluster.agrees());
    for id in 1..=3 {
        assert!(cluster.has(id, "e") && !cluster.rejoins(id), "member {id}");
    }
}

#[test]
fn members_with_killed_processes_need_not_rejoin() {
    let mut cluster = cached(3);
    assert!(is_done(&mut cluster.put(1, "e")));
    (1..=3).for_each(|id| cluster.kill(id));
    for id in 1..=2 {
        cluster.start(id);
        assert!(!cluster.rejoins(id));
    }
    cluster.until(|cluster| cluster.leader() != 0 && cluster.agrees());
    assert!(cluster.has(1, "e") && cluster.has(2, "e"));
}

#[test]
fn a_restart_does_not_make_a_rejoining_member_whole() {
    for durability in [Durability::Os, Durability::Durable] {
        let mut cluster = cached(3);
        cluster.part(&[2]);
        cluster.lose_power(2);
        cluster.machines[1].durability = durability;
        cluster.start(2);
        assert!(cluster.rejoins(2), "{durability:?}");
        cluster.kill(2);
        cluster.start(2);
        assert!(cluster.rejoins(2), "after a kill, {durability:?}");
        cluster.replica(2).fail(Error::Stopped);
        cluster.replica(2).machine_mut().close().unwrap();
        cluster.start(2);
        assert!(cluster.rejoins(2), "after a stop, {durability:?}");
        cluster.cut.clear();
        cluster.until(|cluster| !cluster.rejoins(2));
        cluster.kill(2);
        cluster.start(2);
        assert!(!cluster.rejoins(2), "{durability:?}");
    }
}

#[test]
fn a_member_with_a_closed_log_need_not_rejoin() {
    let mut cluster = cached(3);
    cluster.replica(2).fail(Error::Stopped);
    cluster.replica(2).machine_mut().close().unwrap();
    cluster.lose_power(2);
    cluster.start(2);
    assert!(!cluster.rejoins(2));
}

#[test]
fn members_that_accept_a_lost_tail_elect_a_leader_without_the_missing_one() {
    let mut cluster = cached(3);
    (1..=3).for_each(|id| cluster.lose_power(id));
    cluster.start(1);
    cluster.start(2);
    cluster.long();
    assert_eq!(cluster.leader(), 0);
    for id in 1..=2 {
        cluster.kill(id);
        cluster.machines[id as usize - 1].accepts = true;
        cluster.start(id);
        assert!(!cluster.rejoins(id));
    }
    cluster.until(|cluster| cluster.leader() != 0);
    for id in 1..=2 {
        cluster.kill(id);
        cluster.machines[id as usize - 1].accepts = false;
        cluster.start(id);
        assert!(!cluster.rejoins(id), "the option is needed for one start");
    }
}

#[test]
fn a_member_that_has_applied_an_entry_that_others_gave_up_ends_with_an_error() {
    let mut cluster = cached(3);
    cluster.part(&[3]);
    assert!(is_done(&mut cluster.put(1, "e")));
    cluster.lose_power(2);
    cluster.machines[1].accepts = true;
    cluster.cut.clear();
    cluster.part(&[1]);
    cluster.start(2);
    cluster.until(|cluster| cluster.leader() > 1);
    let leader = cluster.leader();
    assert!(is_done(&mut cluster.put(leader, "f")));
    cluster.cut.clear();
    for _ in 0..LONG_TICKS {
        cluster.tick();
    }
    let failure = cluster.replica(1).failure().unwrap().to_string();
    assert!(
        failure.contains("the other members have lost what this member has applied"),
        "{failure}"
    );
}

#[test]
fn the_only_voter_need_not_rejoin() {
    let mut cluster = cached(1);
    assert!(is_done(&mut cluster.put(1, "e")));
    cluster.lose_power(1);
    cluster.start(1);
    assert!(!cluster.rejoins(1));
    cluster.until(|cluster| cluster.leader() == 1);
    assert!(!cluster.has(1, "e"), "within the window");
}
