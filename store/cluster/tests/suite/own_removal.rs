//! Removed members: when they end, and which devices record the removal.

use crate::scene;

use cluster::Error;
use environment::simulated::Restart;

use scene::{Cluster, is_done};

fn is_removed(cluster: &Cluster, id: u64) -> bool {
    let replica = cluster.machines[id as usize - 1].replica.as_ref();
    let failure = replica.and_then(|it| it.failure());
    matches!(failure, Some(Error::Removed { member }) if *member == id)
}

/// Whether member `at` has applied the removal of member `id`.
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

/// Member 1 leads and has removed itself, and no other member knows that this is committed.
fn alone_with_its_removal() -> Cluster {
    let mut cluster = Cluster::new(3);
    cluster.kept_from_others = Some(cluster.replica(1).index() + 1);
    drop(cluster.remove(1, 1));
    assert!(shows_removal(&cluster, 1, 1), "a majority has it");
    assert!(!shows_removal(&cluster, 2, 1) && !shows_removal(&cluster, 3, 1));
    cluster
}

#[test]
fn a_leader_that_removes_itself_ends_once_the_others_know_and_does_not_start_again() {
    let mut cluster = alone_with_its_removal();
    let term = cluster.replica(1).term();
    cluster.refusals_are_lost = true;
    cluster.tick();
    assert!(
        cluster.replica(1).failure().is_none(),
        "its vote may be needed"
    );
    cluster.kept_from_others = None;
    cluster.until(|cluster| is_removed(cluster, 1) && cluster.leader() != 0);
    assert!(shows_removal(&cluster, 2, 1) && shows_removal(&cluster, 3, 1));
    let leader = cluster.leader();
    assert_eq!(cluster.replica(leader).term(), term + 1, "by a transfer");
    cluster.lose_power(1);
    assert_refused(&mut cluster, 1);
    assert!(is_done(&mut cluster.put(leader, "k")));
}

#[test]
fn a_removed_leader_that_is_cut_off_stays_until_another_member_refuses_it() {
    let mut cluster = alone_with_its_removal();
    cluster.part(&[1]);
    cluster.long();
    assert!(
        cluster.replica(1).failure().is_none(),
        "no member refuses it"
    );
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
fn a_removed_leader_that_loses_power_before_others_know_can_still_vote() {
    let mut cluster = alone_with_its_removal();
    cluster.lose_power(1);
    cluster.kept_from_others = None;
    // Of two members that run, one has the entry: without this vote none finds out.
    cluster.part(&[3]);
    cluster.start(1);
    cluster.until(|cluster| is_removed(cluster, 1) && cluster.leader() == 0);
    assert!(shows_removal(&cluster, 2, 1));
    cluster.lose_power(1);
    assert_refused(&mut cluster, 1);
    cluster.cut.clear();
    cluster.until(|cluster| cluster.leader() > 1 && cluster.agrees());
}

/// Member 1 is elected with its removal in its log, which the former leader wrote, and the
/// others confirm everything before it has flushed its own part.
#[test]
fn a_leader_that_is_removed_during_its_flush_still_leads_until_others_know() {
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
        replica.unwrap().holds_leadership()
    });
    cluster.cut.clear();
    cluster.until(|cluster| shows_removal(cluster, 1, 1));
    assert!(cluster.replica(1).index() > index, "its own part");
    assert!(cluster.replica(1).applied_index() < cluster.replica(1).index());
    cluster.flushes_late = None;
    cluster.run_until_quiet();
    assert!(cluster.replica(1).holds_leadership() && !is_removed(&cluster, 1));
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
fn a_member_that_was_removed_while_it_was_down_does_not_start_when_it_is_cut_off() {
    let mut cluster = Cluster::new(3);
    cluster.kill(3);
    assert!(is_done(&mut cluster.remove(1, 3)));
    cluster.start(3);
    cluster.run_until_quiet();
    assert!(is_removed(&cluster, 3));
    assert!(!shows_removal(&cluster, 3, 3), "its log does not say so");
    cluster.lose_power(3);
    cluster.part(&[3]);
    assert_refused(&mut cluster, 3);
}

#[test]
fn a_leader_of_two_is_removed_at_the_request_of_either_member() {
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
fn the_removal_of_a_leader_of_two_waits_for_the_other_until_a_timeout() {
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
    assert!(
        !is_removed(&cluster, 1),
        "the refused removal is not repeated"
    );
}

#[test]
fn a_follower_answers_the_removal_of_its_leader_when_the_leader_s_answer_is_lost() {
    let mut cluster = Cluster::new(3);
    cluster.answers_are_lost = true;
    let mut answer = cluster.remove(2, 1);
    cluster.until(|cluster| is_removed(cluster, 1) && cluster.leader() > 1);
    assert!(is_done(&mut answer));
}

/// Power fails at each I/O of a removal. If a member has shown the removal, because of which
/// the removed one may have ended for good, its device has it.
#[test]
fn a_removal_is_visible_on_a_member_only_when_it_is_on_its_device() {
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
