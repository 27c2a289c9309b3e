//! Machines that apply what another one decided.

use std::time::Duration;

use engine::{Batch, Commitment};
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{
    AlarmRequest, CompactionRequest, LeaseGrantRequest, LeaseTimeToLiveRequest, MemberAddRequest,
    PutRequest,
};
use revisions::{Command, Error, Options, check_records};

use crate::store::{Store, put, small};

fn quorum() -> Options {
    let mut options = small();
    options.engine.commitment = Commitment::Quorum;
    options
}

/// What a leader tells, one batch per command.
fn decided(leader: &mut Store, commands: Vec<Command>) -> Vec<Batch> {
    let mut batches = Vec::new();
    for command in commands {
        leader.machine.evaluate(&command).unwrap();
        let index = leader.index + 1;
        let batch = leader.machine.seal(1, index).unwrap();
        leader.index = index;
        batches.push(batch.clone());
        apply(leader, batch);
    }
    batches
}

fn apply(store: &mut Store, batch: Batch) {
    let engine = store.reader.engine().clone();
    let body = batch.encode().unwrap();
    // As it comes out of another member's log.
    let batch = Batch::decode(batch.term, batch.index, &body).unwrap();
    check_records(&batch).unwrap();
    let appended = engine.append_entry(&batch, &body, None).unwrap();
    engine.wait_durable(appended.sequence).unwrap();
    (store.term, store.index) = (batch.term, batch.index);
    store.machine.apply(batch, appended);
}

fn story() -> Vec<Command> {
    let lease = LeaseGrantRequest { id: 5, ttl: 10 };
    let leased = PutRequest {
        lease: 5,
        ..put("b", "2")
    };
    let raise = AlarmRequest {
        action: 1,
        member_id: 3,
        alarm: 1,
    };
    vec![
        Command::Put(put("a", "1")),
        Command::LeaseGrant(lease),
        Command::Put(leased),
        Command::Compact(CompactionRequest {
            revision: 3,
            physical: false,
        }),
        Command::MemberAdd(MemberAddRequest {
            peer_ur_ls: vec!["http://a:1".into()],
            is_learner: false,
        }),
        Command::Alarm(raise),
    ]
}

#[test]
fn a_follower_applies_what_it_never_decided_and_decides_on_top_of_it() {
    let (mut leader, mut follower) = (Store::new(), Store::with(quorum()));
    assert!(leader.machine.leads() && !follower.machine.leads());
    let used_before = follower.reader.quota().0;
    for batch in decided(&mut leader, story()) {
        apply(&mut follower, batch);
    }
    assert_eq!(
        follower.reader.hash().unwrap(),
        leader.reader.hash().unwrap()
    );
    assert_eq!(follower.reader.members(), leader.reader.members());
    assert!(follower.reader.quota().0 > used_before + 4 * 80);
    follower.machine.promote(Duration::ZERO);
    // Each of these is refused or answered by what was decided elsewhere.
    let again = Command::Compact(CompactionRequest {
        revision: 3,
        physical: false,
    });
    let refused = |outcome: Result<_, Error>| match outcome {
        Err(Error::Etcd(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    };
    assert_eq!(refused(follower.run(again)), Refusal::Compacted);
    let alarmed = follower.run(Command::Put(put("a", "2")));
    assert_eq!(refused(alarmed), Refusal::NoSpace);
    let member = story().remove(4);
    follower.advance(Duration::from_secs(1));
    assert_eq!(refused(follower.run(member)), Refusal::PeerUrlExist);
    assert_eq!(follower.delete("a", "").header.unwrap().revision, 4);
}

#[test]
fn leases_do_not_expire_on_a_follower_and_get_their_full_time_after_promotion() {
    let (mut leader, mut follower) = (Store::new(), Store::with(quorum()));
    for batch in decided(&mut leader, story()) {
        apply(&mut follower, batch);
    }
    follower.advance(Duration::from_secs(60));
    assert_eq!(follower.expire(), 0);
    for id in [5, 6] {
        let question = LeaseTimeToLiveRequest { id, keys: true };
        let answer = follower.reader.lease_time_to_live(&question);
        assert!(
            matches!(answer, Err(Error::Etcd(Refusal::NotLeader))),
            "{id}"
        );
    }
    follower.machine.promote(Duration::from_secs(2));
    let question = LeaseTimeToLiveRequest { id: 5, keys: true };
    let answer = follower.reader.lease_time_to_live(&question).unwrap();
    assert_eq!((answer.ttl, answer.granted_ttl), (12, 10));
}

#[test]
fn a_batch_sealed_before_a_demotion_may_be_applied_or_not() {
    for comes_true in [true, false] {
        let mut store = Store::new();
        store.put("a", "1");
        let evaluate = |store: &mut Store, key: &str| {
            store
                .machine
                .evaluate(&Command::Put(put(key, "2")))
                .unwrap();
        };
        evaluate(&mut store, "a");
        let sealed = store.machine.seal(1, 2).unwrap();
        evaluate(&mut store, "b");
        store.machine.demote();
        assert!(!store.machine.leads() && store.machine.open_is_empty());
        assert!(store.machine.seal(1, 3).is_none());
        let next = if comes_true {
            apply(&mut store, sealed);
            3
        } else {
            2
        };
        // The new leader's first entry says nothing.
        let nothing = Batch {
            term: 2,
            index: next,
            changes: Vec::new(),
        };
        apply(&mut store, nothing);
        store.machine.promote(Duration::ZERO);
        let revision = store.put("a", "3").header.unwrap().revision;
        assert_eq!(revision, if comes_true { 4 } else { 3 });
        assert_eq!(store.get("b", "", 0).unwrap().count, 0);
        let kept = store.get("a", "", 0).unwrap();
        let store = store.reopen();
        assert_eq!(store.get("a", "", 0).unwrap().kvs, kept.kvs);
    }
}

#[test]
fn an_empty_entry_may_come_while_this_machine_leads() {
    let mut store = Store::new();
    store.put("a", "1");
    let nothing = Batch {
        term: 1,
        index: 2,
        changes: Vec::new(),
    };
    apply(&mut store, nothing);
    assert_eq!(store.put("a", "2").header.unwrap().revision, 3);
    assert_eq!(store.reader.engine().status().applied_index, 3);
}

#[test]
#[should_panic(expected = "only the leader decides")]
fn a_follower_decides_nothing() {
    let mut follower = Store::with(quorum());
    let _ = follower.machine.evaluate(&Command::Put(put("a", "1")));
}

#[test]
#[should_panic(expected = "was not decided here")]
fn a_leader_applies_only_its_own_decisions() {
    let mut other = Store::new();
    let batch = decided(&mut other, vec![Command::Put(put("a", "1"))]).remove(0);
    apply(&mut Store::new(), batch);
}

#[test]
#[should_panic(expected = "promoted with batches under way")]
fn promotion_with_batches_under_way_panics() {
    let mut store = Store::new();
    store
        .machine
        .evaluate(&Command::Put(put("a", "1")))
        .unwrap();
    store.machine.seal(1, 1).unwrap();
    store.machine.promote(Duration::ZERO);
}
