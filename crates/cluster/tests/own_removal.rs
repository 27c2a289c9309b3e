//! Members that are removed, and what they know of it on each device.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod scene;

use cluster::Error;
use environment::simulated::Restart;

use scene::{Cluster, is_done};

fn is_removed(cluster: &Cluster, id: u64) -> bool {
    let replica = cluster.machines[id as usize - 1].replica.as_ref();
    let failure = replica.and_then(|it| it.failure());
    matches!(failure, Some(Error::Removed { member }) if *member == id)
}

/// What this member has applied says that another is removed.
fn shows_removal(cluster: &Cluster, at: u64, id: u64) -> bool {
    let replica = cluster.machines[at as usize - 1].replica.as_ref();
    replica.unwrap().reader().is_removed(id)
}

fn assert_refused(cluster: &mut Cluster, id: u64) {
    for _ in 0..2 {
        match cluster.try_start(id) {
            Err(Error::Removed { member }) if member == id => {}
            other => panic!("{other:?}"),
        }
    }
}

/// It leads, has removed itself, and nobody else knows that this is committed.
fn alone_with_its_removal() -> Cluster {
    let mut cluster = Cluster::new(3);
    cluster.kept_from_others = Some(cluster.replica(1).index() + 1);
    drop(cluster.remove(1, 1));
    assert!(shows_removal(&cluster, 1, 1), "a majority has it");
    assert!(!shows_removal(&cluster, 2, 1) && !shows_removal(&cluster, 3, 1));
    cluster
}

#[test]
fn a_leader_that_removes_itself_ends_once_the_others_know_and_remembers() {
    let mut cluster = alone_with_its_removal();
    let term = cluster.replica(1).term();
    cluster.doors_are_shut = true;
    cluster.tick();
    assert!(cluster.replica(1).failure().is_none(), "they might need it");
    cluster.kept_from_others = None;
    cluster.until(|cluster| is_removed(cluster, 1) && cluster.leader() != 0);
    assert!(shows_removal(&cluster, 2, 1) && shows_removal(&cluster, 3, 1));
    let leader = cluster.leader();
    assert_eq!(cluster.replica(leader).term(), term + 1, "it was asked to");
    cluster.lose_power(1);
    assert_refused(&mut cluster, 1);
    assert!(is_done(&mut cluster.put(leader, "k")));
}

#[test]
fn a_leader_that_removes_itself_stays_as_long_as_it_is_not_heard_and_is_told_later() {
    let mut cluster = alone_with_its_removal();
    cluster.part(&[1]);
    cluster.long();
    assert!(cluster.replica(1).failure().is_none(), "nobody refuses it");
    let others = cluster.leader();
    assert!(
        others > 1,
        "the others have the entry, and elect without it"
    );
    cluster.kept_from_others = None;
    cluster.cut.clear();
    cluster.until(|cluster| is_removed(cluster, 1));
    cluster.lose_power(1);
    assert_refused(&mut cluster, 1);
    assert!(is_done(&mut cluster.put(others, "k")));
}

#[test]
fn a_leader_that_loses_power_before_others_know_has_a_vote_to_find_out_with() {
    let mut cluster = alone_with_its_removal();
    cluster.lose_power(1);
    cluster.kept_from_others = None;
    // Who has the entry is one of two: without the third nobody finds out.
    cluster.part(&[3]);
    cluster.start(1);
    cluster.until(|cluster| is_removed(cluster, 1) && cluster.leader() == 0);
    assert!(shows_removal(&cluster, 2, 1));
    cluster.lose_power(1);
    assert_refused(&mut cluster, 1);
    cluster.cut.clear();
    cluster.until(|cluster| cluster.leader() > 1 && cluster.agrees());
}

/// Member 1 is elected with its removal in its log, which the leader before has
/// written, and the others confirm all of it before it has flushed its own part.
#[test]
fn a_leader_that_is_removed_while_it_flushes_goes_on() {
    let mut cluster = Cluster::new(3);
    cluster.move_lead(2);
    cluster.cut.extend([(1, 2), (3, 2), (2, 3)]);
    let before = cluster.replica(2).index();
    drop(cluster.remove(2, 1));
    let index = cluster.replica(1).index();
    assert!(index > before && cluster.replica(3).index() < index);
    cluster.cut.clear();
    cluster.part(&[2]);
    cluster.flushes_late = Some(1);
    cluster.kept_from_others = Some(index);
    cluster.until(|cluster| {
        let replica = cluster.machines[0].replica.as_ref();
        replica.unwrap().holds_the_lead()
    });
    cluster.cut.clear();
    cluster.until(|cluster| shows_removal(cluster, 1, 1));
    assert!(cluster.replica(1).index() > index, "its own part");
    assert!(cluster.replica(1).applied_index() < cluster.replica(1).index());
    cluster.flushes_late = None;
    cluster.settle();
    assert!(cluster.replica(1).holds_the_lead() && !is_removed(&cluster, 1));
    assert_eq!(
        cluster.replica(1).applied_index(),
        cluster.replica(1).index()
    );
    cluster.kept_from_others = None;
    cluster.until(|cluster| is_removed(cluster, 1) && cluster.leader() > 1);
    cluster.lose_power(1);
    assert_refused(&mut cluster, 1);
}

#[test]
fn who_was_away_is_told_and_remembers_where_nobody_can_be_asked() {
    let mut cluster = Cluster::new(3);
    cluster.kill(3);
    assert!(is_done(&mut cluster.remove(1, 3)));
    cluster.start(3);
    cluster.settle();
    assert!(is_removed(&cluster, 3));
    assert!(!shows_removal(&cluster, 3, 3), "its log does not say so");
    cluster.lose_power(3);
    cluster.part(&[3]);
    assert_refused(&mut cluster, 3);
}

#[test]
fn a_leader_of_two_is_removed_whichever_of_them_is_asked() {
    for asked in [1, 2] {
        let mut cluster = Cluster::new(2);
        let mut answer = cluster.remove(asked, 1);
        cluster.until(|cluster| is_removed(cluster, 1) && cluster.leader() == 2);
        assert!(is_done(&mut answer), "asked at member {asked}");
        assert!(is_done(&mut cluster.put(2, "k")));
        cluster.lose_power(1);
        assert_refused(&mut cluster, 1);
    }
}

#[test]
fn the_removal_of_a_leader_of_two_waits_for_the_other_and_ends_in_time() {
    let mut cluster = Cluster::new(2);
    cluster.cut.insert((1, 2));
    let mut answer = cluster.remove(1, 1);
    cluster.tick();
    assert!(answer.try_recv().is_err(), "the other may be back soon");
    cluster.cut.clear();
    cluster.until(|cluster| is_removed(cluster, 1) && cluster.leader() == 2);
    assert!(is_done(&mut answer));

    let mut cluster = Cluster::new(2);
    cluster.cut.insert((1, 2));
    let mut answer = cluster.remove(1, 1);
    cluster.long();
    assert!(matches!(answer.try_recv(), Ok(Err(Error::Refused(_)))));
    cluster.cut.clear();
    cluster.until(|cluster| cluster.leader() != 0);
    cluster.long();
    assert!(!is_removed(&cluster, 1), "it was refused for good");
}

#[test]
fn a_follower_that_was_asked_to_remove_its_leader_says_that_it_is_done() {
    let mut cluster = Cluster::new(3);
    cluster.answers_are_lost = true;
    let mut answer = cluster.remove(2, 1);
    cluster.until(|cluster| is_removed(cluster, 1) && cluster.leader() > 1);
    assert!(is_done(&mut answer));
}

/// Power fails at each input or output of a removal: what a member has shown of it,
/// for which another may have gone for good, its device has.
#[test]
fn a_removal_is_seen_only_where_it_is_on_the_device() {
    for at in [1, 2] {
        let mut seen = 0;
        for io in 0.. {
            let mut cluster = Cluster::new(3);
            cluster.part(&[3]);
            let disk = cluster.machines[at as usize - 1].disk.clone();
            disk.crash_at(disk.io_count() + io);
            drop(cluster.remove(1, 3));
            cluster.tick();
            if cluster.leader() == 1 {
                drop(cluster.put(1, "k"));
            }
            if !disk.has_crashed() {
                break;
            }
            if shows_removal(&cluster, at, 3) {
                seen += 1;
                let machine = &mut cluster.machines[at as usize - 1];
                machine.replica = None;
                machine.disk = disk.restart(Restart::nothing_kept());
                cluster.start(at);
                assert!(
                    shows_removal(&cluster, at, 3),
                    "member {at}, input or output {io}"
                );
            }
        }
        assert!(seen > 0, "member {at}");
    }
}
