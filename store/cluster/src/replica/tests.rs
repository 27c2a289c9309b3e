//! Tests of one replica: refused batches, forwarded commands, votes, and snapshots.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::Worker;
use environment::Clock;
use environment::simulated::{Restart, SimulatedClock, SimulatedDisk};
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use revisions::{Reader, Response};
use tokio::sync::oneshot;

use super::*;
use crate::NodeOptions;
use raft::eraftpb::MessageType;

fn options() -> ReplicaOptions {
    let mut options = NodeOptions::new("/data");
    let engine = &mut options.replica.machine.engine;
    engine.log.segment_bytes = 64 << 10;
    engine.batch_bytes_max = 32 << 10;
    engine.log.reserve_bytes = 0;
    engine.log.worker = Worker::Caller;
    options.replica(1)
}

fn replica(clock: &SimulatedClock) -> (Replica, Reader) {
    let disk = Arc::new(SimulatedDisk::new(1));
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let mut replica = Replica::open(disk, Path::new("/data"), options(), clock).unwrap();
    commit(&mut replica);
    assert!(replica.leads(), "the only member leads");
    let reader = replica.reader().clone();
    (replica, reader)
}

/// Appends the open batch, makes it durable, applies it, and gives the answers.
fn commit(replica: &mut Replica) {
    for _ in 0..3 {
        replica.run();
        let engine = replica.reader().engine().clone();
        engine.work();
        replica.persisted(Ok(engine.durable()));
    }
    replica.run();
    let replies = replica.take_output().replies;
    replies.send();
}

/// Refuses the open batch, as if the log had no room for it.
fn refuse(replica: &mut Replica) {
    let (core, leader) = (&mut replica.core, replica.role.leader_mut().unwrap());
    let answers = leader.take_open();
    let entry = core.consensus.next();
    assert!(
        core.machine.seal(entry.term, entry.index).is_some(),
        "something was written"
    );
    core.machine.abandon();
    leader.refuse(core, answers, &Error::Panicked);
}

fn propose(replica: &mut Replica, command: &Command) -> oneshot::Receiver<Result<Response, Error>> {
    let (answer, receiver) = oneshot::channel();
    replica.propose(command, answer);
    receiver
}

/// Hands the answer of member `from` to a forwarded command to the replica.
fn answered(
    replica: &mut Replica,
    from: u64,
    number: u64,
    index: u64,
    outcome: Result<Response, revisions::Error>,
) {
    let outcome = Box::new(outcome);
    let answer = PeerMessage::Answer {
        number,
        index,
        outcome,
    };
    replica.receive(from, answer);
}

fn put(key: String) -> Command {
    Command::Put(PutRequest {
        key: key.into(),
        ..PutRequest::default()
    })
}

/// Deletes the keys of a group unless there is a key `block`.
fn delete_unless_blocked(group: usize) -> Command {
    let absent = Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: "block".into(),
        target_union: Some(TargetUnion::CreateRevision(0)),
        ..Compare::default()
    };
    let deletion = DeleteRangeRequest {
        key: format!("{group:02}/").into(),
        range_end: format!("{group:02}0").into(),
        ..DeleteRangeRequest::default()
    };
    Command::Txn(TxnRequest {
        compare: vec![absent],
        success: vec![RequestOp {
            request: Some(Request::RequestDeleteRange(deletion)),
        }],
        failure: Vec::new(),
    })
}

fn keys(reader: &Reader) -> i64 {
    let request = RangeRequest {
        key: "0".into(),
        range_end: "c".into(),
        count_only: true,
        ..RangeRequest::default()
    };
    reader.range(&request).unwrap().count
}

#[test]
fn commands_that_are_evaluated_again_may_take_several_batches() {
    let (mut replica, reader) = replica(&SimulatedClock::stepped());
    let groups = 12;
    for number in 0..100 * groups {
        let put = put(format!("{:02}/{number:040}", number % groups));
        while !replica.takes(&put) {
            commit(&mut replica);
        }
        propose(&mut replica, &put);
    }
    commit(&mut replica);
    propose(&mut replica, &put("block".into()));
    let mut answers: Vec<_> = (0..groups)
        .map(|group| propose(&mut replica, &delete_unless_blocked(group)))
        .collect();
    refuse(&mut replica);
    let mut batches = 0;
    while replica.has_commands_to_evaluate() {
        assert!(!replica.is_idle(), "there is more to do");
        replica.reevaluate();
        let more = replica.role.leader().unwrap().has_reevaluated();
        batches += 1;
        commit(&mut replica);
        assert!(batches > 1 || more, "one batch does not hold all commands");
    }
    assert_eq!(keys(&reader), 0);
    for answer in &mut answers {
        answer.try_recv().unwrap().unwrap();
    }
}

#[test]
fn a_command_that_waits_to_be_evaluated_again_fails_with_the_log() {
    let (mut replica, _reader) = replica(&SimulatedClock::stepped());
    propose(&mut replica, &put("0".into()));
    commit(&mut replica);
    propose(&mut replica, &put("block".into()));
    let mut receiver = propose(&mut replica, &delete_unless_blocked(0));
    refuse(&mut replica);
    replica.fail(Error::LogFailed {
        reason: "test".into(),
    });
    commit(&mut replica);
    assert!(matches!(
        receiver.try_recv().unwrap(),
        Err(Error::LogFailed { .. })
    ));
    assert!(replica.is_idle());
}

#[test]
fn the_end_of_a_lease_is_counted_once_when_it_is_applied() {
    let clock = SimulatedClock::stepped();
    let (mut replica, reader) = replica(&clock);
    let grant = Command::LeaseGrant(LeaseGrantRequest { id: 1, ttl: 60 });
    propose(&mut replica, &grant);
    commit(&mut replica);
    clock.advance(Duration::from_secs(61));
    replica.tick();
    let Replica {
        core,
        role,
        requests,
        ..
    } = &mut replica;
    role.leader_mut().unwrap().revoke_expired(core, requests);
    refuse(&mut replica);
    assert_eq!(replica.status().leases_expired, 0);
    replica.reevaluate();
    assert_eq!(replica.status().leases_expired, 0);
    commit(&mut replica);
    assert_eq!(replica.status().leases_expired, 1);
    assert!(reader.lease_leases().leases.is_empty());
}

/// The second of three members. Its log acknowledges entries that are in the page cache.
fn page_cache_voter(disk: &SimulatedDisk) -> Replica {
    page_cache_voter_at(disk, &SimulatedClock::stepped())
}

fn page_cache_voter_at(disk: &SimulatedDisk, clock: &SimulatedClock) -> Replica {
    let mut options = options();
    let member = |id| revisions::Member {
        id,
        ..revisions::Member::default()
    };
    options.machine.member_id = 2;
    options.machine.initial_members = (1..=3).map(member).collect();
    options.machine.engine.log.durability = engine::Durability::Os;
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    Replica::open(Arc::new(disk.clone()), Path::new("/data"), options, clock).unwrap()
}

#[test]
fn an_entry_that_no_segment_holds_is_not_taken_and_ends_nothing() {
    let mut follower = page_cache_voter(&SimulatedDisk::new(3));
    let batch = engine::Batch {
        changes: vec![engine::Change::State {
            kind: 200,
            payload: vec![7; 100 << 10].into(),
        }],
        ..engine::Batch::default()
    };
    let last = follower.index();
    let mut append = raft::eraftpb::Message::default();
    append.set_msg_type(MessageType::MsgAppend);
    (append.from, append.to, append.term) = (1, 2, 7);
    append.index = last;
    append.log_term = follower.core.consensus.raft().raft_log.term(last).unwrap();
    let entry = crate::raft::entry::to_raft(7, last + 1, &batch.encode().unwrap());
    append.mut_entries().push(entry);
    follower.receive(1, PeerMessage::Raft(append));
    commit(&mut follower);
    assert!(follower.failure().is_none(), "{:?}", follower.failure());
    assert_eq!(follower.index(), last);
}

#[test]
fn an_answer_fails_with_a_timeout_when_its_entry_never_arrives() {
    let clock = SimulatedClock::stepped();
    let (mut replica, _) = replica(&clock);
    let (answer, mut receiver) = oneshot::channel();
    let (core, requests) = (&mut replica.core, &mut replica.requests);
    let far = put("far".into());
    requests.forwards.send(core, &far, Requester::Local(answer));
    let sent = replica.take_output().messages;
    let Some((_, PeerMessage::Command { number, .. })) = sent.into_iter().next() else {
        panic!("it is sent");
    };
    let put = etcd_api::etcdserverpb::PutResponse::default();
    let (leader, next) = (replica.leader(), replica.index() + 1);
    answered(&mut replica, leader, number, next, Ok(Response::Put(put)));
    commit(&mut replica);
    assert!(receiver.try_recv().is_err(), "the entry is not here");
    clock.advance(Duration::from_secs(60));
    replica.tick();
    commit(&mut replica);
    assert!(matches!(receiver.try_recv(), Ok(Err(Error::Refused(_)))));
}

/// A heartbeat of leader `from` in `term`, for member 2.
fn heartbeat(from: u64, term: u64) -> PeerMessage {
    let mut heartbeat = raft::eraftpb::Message::default();
    heartbeat.set_msg_type(MessageType::MsgHeartbeat);
    (heartbeat.from, heartbeat.to, heartbeat.term) = (from, 2, term);
    PeerMessage::Raft(heartbeat)
}

/// A follower that has forwarded a command to member 1, in term 7, and now follows
/// member 3; the command's number; and the receiver of its answer.
fn follower_of_another_leader(
    clock: &SimulatedClock,
) -> (Replica, u64, oneshot::Receiver<Result<Response, Error>>) {
    let mut follower = page_cache_voter_at(&SimulatedDisk::new(3), clock);
    follower.receive(1, heartbeat(1, 7));
    commit(&mut follower);
    assert_eq!(follower.leader(), 1);
    let receiver = propose(&mut follower, &put("k".into()));
    let number = forwarded_to(1, &mut follower).expect("it is sent");
    follower.receive(3, heartbeat(3, 8));
    commit(&mut follower);
    assert_eq!(follower.leader(), 3);
    (follower, number, receiver)
}

/// The number of the command that the replica sends to a member, if it sends one.
fn forwarded_to(member: u64, replica: &mut Replica) -> Option<u64> {
    replica.run();
    let sent = replica.take_output().messages;
    sent.into_iter().find_map(|(to, message)| match message {
        PeerMessage::Command { number, .. } if to == member => Some(number),
        _ => None,
    })
}

#[test]
fn the_outcome_of_a_command_is_unknown_when_its_leader_is_lost() {
    let clock = SimulatedClock::stepped();
    let (mut follower, number, mut receiver) = follower_of_another_leader(&clock);
    assert!(
        receiver.try_recv().is_err(),
        "its former leader may still answer"
    );
    clock.advance(follower.core.options.heartbeat_interval * 2);
    follower.tick();
    commit(&mut follower);
    let lost = receiver.try_recv().unwrap().unwrap_err().to_string();
    let expected = Error::Refused(etcd_api::Error::TimeoutDueToLeaderFail.into());
    assert_eq!(lost, expected.to_string());
    answered(
        &mut follower,
        1,
        number,
        0,
        Err(etcd_api::Error::LeaderChanged.into()),
    );
    assert_eq!(
        forwarded_to(3, &mut follower),
        None,
        "it is answered already"
    );
}

#[test]
fn a_command_that_a_leader_says_it_dropped_is_sent_to_the_next_one() {
    let clock = SimulatedClock::stepped();
    let (mut follower, number, mut receiver) = follower_of_another_leader(&clock);
    answered(
        &mut follower,
        1,
        number,
        0,
        Err(etcd_api::Error::LeaderChanged.into()),
    );
    let again = forwarded_to(3, &mut follower).expect("it is sent again");
    assert!(again > number, "{again} {number}");
    answered(
        &mut follower,
        3,
        again,
        0,
        Err(etcd_api::Error::LeaderChanged.into()),
    );
    assert_eq!(forwarded_to(3, &mut follower), None, "it has just refused");
    follower.receive(1, heartbeat(1, 9));
    commit(&mut follower);
    assert!(receiver.try_recv().is_err());
    clock.advance(Duration::from_secs(60));
    follower.tick();
    commit(&mut follower);
    assert!(matches!(receiver.try_recv(), Ok(Err(Error::Refused(_)))));
}

#[test]
fn a_member_that_does_not_lead_answers_leader_changed_to_a_forwarded_command() {
    let mut follower = page_cache_voter(&SimulatedDisk::new(3));
    follower.take_for_member(3, 9, &put("k".into()));
    let messages = follower.take_output().messages;
    let Some((3, PeerMessage::Answer { outcome, .. })) = messages.first() else {
        panic!("{messages:?}");
    };
    let expected: revisions::Error = etcd_api::Error::LeaderChanged.into();
    let refused = outcome.as_ref().as_ref().unwrap_err();
    assert_eq!(refused.to_string(), expected.to_string());
}

#[test]
fn a_vote_is_on_the_device_although_entries_need_not_be() {
    let disk = SimulatedDisk::new(3);
    let mut voter = page_cache_voter(&disk);
    let mut asked = raft::eraftpb::Message::default();
    asked.set_msg_type(MessageType::MsgRequestVote);
    (asked.from, asked.to, asked.term) = (1, 2, 7);
    (asked.index, asked.log_term) = (100, 6);
    voter.receive(1, PeerMessage::Raft(asked));
    let mut voted = false;
    for _ in 0..3 {
        voter.run();
        let engine = voter.reader().engine().clone();
        engine.work();
        voter.persisted(Ok(engine.durable()));
        voter.run();
        voted |= voter.take_output().messages.iter().any(|(_, message)| {
            matches!(message, PeerMessage::Raft(it)
                if it.get_msg_type() == MessageType::MsgRequestVoteResponse && !it.reject)
        });
    }
    assert!(voted, "it has not voted in term 7");
    disk.crash();
    let disk = disk.restart(Restart::nothing_kept());
    assert_eq!(page_cache_voter(&disk).term(), 7);
}

#[test]
fn a_member_that_lost_its_leadership_offers_no_snapshot() {
    let (mut leader, reader) = replica(&SimulatedClock::stepped());
    // The only member keeps no applied entries.
    drop(propose(&mut leader, &put("k".into())));
    commit(&mut leader);
    leader.upkeep().unwrap();
    let learner = etcd_api::etcdserverpb::MemberAddRequest {
        peer_ur_ls: vec!["http://10.0.0.2:2380".into()],
        is_learner: true,
    };
    drop(propose(&mut leader, &Command::MemberAdd(learner)));
    commit(&mut leader);
    let newcomer = reader.members().iter().find(|it| it.is_learner).unwrap().id;

    let term = leader.term();
    let progress = leader.core.consensus.raft().prs().get(newcomer).unwrap();
    let mut rejection = raft::eraftpb::Message::default();
    rejection.set_msg_type(MessageType::MsgAppendResponse);
    (rejection.from, rejection.term, rejection.reject) = (newcomer, term, true);
    rejection.index = progress.next_idx - 1;
    leader.receive(newcomer, PeerMessage::Raft(rejection));
    leader.receive(newcomer, heartbeat(newcomer, term + 1));
    leader.run();
    assert_eq!((leader.term(), leader.leads()), (term + 1, false));
    // A follower's messages wait for its disk.
    let engine = reader.engine().clone();
    engine.work();
    leader.persisted(Ok(engine.durable()));
    leader.run();
    let sent = leader.take_output().messages;
    let led: Vec<_> = sent.iter().filter_map(|(_, it)| it.term_led()).collect();
    assert!(
        !led.contains(&(term + 1)),
        "a message claims a term that another member leads"
    );
}

/// Answers that wait in a leader's role: a command of a local caller in the open batch, and one of
/// another member that is held because leadership is being handed over.
fn leader_with_waiting_commands() -> (Replica, oneshot::Receiver<Result<Response, Error>>) {
    let (mut leader, _) = replica(&SimulatedClock::stepped());
    let receiver = propose(&mut leader, &put("open".into()));
    leader.role.leader_mut().unwrap().successor = Some(9);
    leader.take_for_member(3, 7, &put("held".into()));
    assert!(leader.take_output().messages.is_empty(), "it waits");
    (leader, receiver)
}

#[test]
fn commands_that_wait_in_the_role_are_answered_when_leadership_ends() {
    let (mut leader, mut receiver) = leader_with_waiting_commands();
    leader.step_down();
    let output = leader.take_output();
    output.replies.send();
    let expected = answer::leader_changed().to_string();
    let local = receiver.try_recv().unwrap().unwrap_err();
    assert_eq!(local.to_string(), expected);
    let [
        (
            3,
            PeerMessage::Answer {
                number: 7, outcome, ..
            },
        ),
    ] = &output.messages[..]
    else {
        panic!("{:?}", output.messages);
    };
    let held = outcome.as_ref().as_ref().unwrap_err();
    assert_eq!(held.to_string(), expected);
    assert!(leader.is_idle());
}

#[test]
fn commands_that_wait_in_the_role_fail_with_the_log() {
    let (mut leader, mut receiver) = leader_with_waiting_commands();
    leader.fail(Error::LogFailed {
        reason: "test".into(),
    });
    let output = leader.take_output();
    output.replies.send();
    let local = receiver.try_recv().unwrap();
    assert!(matches!(local, Err(Error::LogFailed { .. })), "{local:?}");
    assert!(output.messages.is_empty(), "other members get no answer");
    assert!(leader.is_idle());
}
