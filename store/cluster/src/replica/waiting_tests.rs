//! Tests of a member that waits for its first snapshot.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::Worker;
use environment::Clock;
use environment::simulated::{SimulatedClock, SimulatedDisk};
use raft::eraftpb::Message;

use super::*;
use crate::NodeOptions;
use raft::eraftpb::MessageType;

const MEMBER: u64 = 4;

fn waiting(disk: &SimulatedDisk, clock: &SimulatedClock) -> Replica {
    let mut options = NodeOptions::new("/data");
    options.replica.machine.member_id = MEMBER;
    options.replica.machine.initial_members = Vec::new();
    options.replica.machine.engine.log.segment_bytes = 64 << 10;
    options.replica.machine.engine.batch_bytes_max = 32 << 10;
    options.replica.machine.engine.log.reserve_bytes = 0;
    options.replica.machine.engine.log.worker = Worker::Caller;
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let disk = Arc::new(disk.clone());
    Replica::open(disk, Path::new("/data"), options.replica(1), clock).unwrap()
}

fn message(kind: MessageType, term: u64) -> Message {
    let mut message = Message {
        from: 1,
        to: MEMBER,
        term,
        ..Message::default()
    };
    message.set_msg_type(kind);
    message
}

/// The replica's answers to a message of member 1, once they are on stable storage.
fn answers(replica: &mut Replica, message: Message) -> Vec<Message> {
    replica.receive(1, PeerMessage::Raft(message));
    for _ in 0..3 {
        replica.run();
        let engine = replica.reader().engine().clone();
        engine.work();
        replica.persisted(Ok(engine.durable()));
    }
    let messages = replica.take_output().messages.into_iter();
    let raft = messages.filter_map(|(to, message)| match message {
        PeerMessage::Raft(message) if to == 1 => Some(message),
        _ => None,
    });
    raft.collect()
}

#[test]
fn a_waiting_member_asks_for_a_snapshot_instead_of_entries() {
    let mut replica = waiting(&SimulatedDisk::new(1), &SimulatedClock::stepped());
    let mut append = message(MessageType::MsgAppend, 5);
    append.index = 70;
    let [answer] = &answers(&mut replica, append)[..] else {
        panic!("one answer");
    };
    assert_eq!(answer.get_msg_type(), MessageType::MsgAppendResponse);
    assert!(answer.reject && answer.request_snapshot != 0, "{answer:?}");
    assert_eq!((answer.index, answer.term), (70, 5));
    assert_eq!((replica.leader(), replica.term()), (1, 5));
}

#[test]
fn a_waiting_member_does_not_stand_for_election() {
    let clock = SimulatedClock::stepped();
    let mut replica = waiting(&SimulatedDisk::new(1), &clock);
    let ask = message(MessageType::MsgTimeoutNow, 0);
    assert_eq!(answers(&mut replica, ask), []);
    for _ in 0..100 {
        clock.advance(Duration::from_millis(100));
        replica.tick();
        replica.run();
    }
    let output = replica.take_output();
    assert!(output.messages.is_empty(), "{:?}", output.messages);
    assert_eq!((replica.leader(), replica.term()), (0, 0));
}

#[test]
fn a_waiting_member_votes_once_in_a_term() {
    let (disk, clock) = (SimulatedDisk::new(1), SimulatedClock::stepped());
    let mut replica = waiting(&disk, &clock);
    let request = |from| {
        let mut request = message(MessageType::MsgRequestVote, 9);
        (request.from, request.index, request.log_term) = (from, 1000, 8);
        request
    };
    let granted = answers(&mut replica, request(1));
    assert!(granted.len() == 1 && !granted[0].reject, "{granted:?}");
    replica.fail(Error::Stopped);
    replica.machine_mut().close().unwrap();
    let mut replica = waiting(&disk, &clock);
    // The election timeout must pass, for which a promise of the former incarnation may hold.
    clock.advance(Duration::from_secs(2));
    replica.receive(2, PeerMessage::Raft(request(2)));
    replica.run();
    let messages = replica.take_output().messages;
    let [(2, PeerMessage::Raft(answer))] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert!(answer.reject, "{answer:?}");
}

#[test]
fn a_waiting_member_still_waits_after_a_restart() {
    let (disk, clock) = (SimulatedDisk::new(1), SimulatedClock::stepped());
    let mut replica = waiting(&disk, &clock);
    let append = || message(MessageType::MsgAppend, 5);
    assert_eq!(answers(&mut replica, append()).len(), 1);
    replica.fail(Error::Stopped);
    replica.machine_mut().close().unwrap();
    let mut replica = waiting(&disk, &clock);
    assert_eq!(replica.term(), 5, "the term is kept");
    let again = answers(&mut replica, append());
    assert!(again[0].request_snapshot != 0, "{again:?}");
}

#[test]
fn a_waiting_member_ends_when_a_leader_counts_on_entries_that_it_lacks() {
    let mut replica = waiting(&SimulatedDisk::new(1), &SimulatedClock::stepped());
    let mut heartbeat = message(MessageType::MsgHeartbeat, 5);
    heartbeat.commit = 80;
    assert_eq!(answers(&mut replica, heartbeat), []);
    let failure = replica.failure().unwrap().to_string();
    assert!(
        failure.starts_with("member 4 has lost entries that it had confirmed"),
        "{failure}"
    );
}

#[test]
fn a_snapshot_message_without_contents_is_dropped() {
    let mut replica = waiting(&SimulatedDisk::new(1), &SimulatedClock::stepped());
    let mut bare = message(MessageType::MsgSnapshot, 5);
    let metadata = bare.mut_snapshot().mut_metadata();
    (metadata.index, metadata.term) = (100, 4);
    metadata.mut_conf_state().voters = vec![1, MEMBER];
    assert_eq!(answers(&mut replica, bare), []);
    assert_eq!((replica.index(), replica.applied_index()), (0, 0));
}
