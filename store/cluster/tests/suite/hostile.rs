//! A member that sends messages which no correct member sends.

use crate::scene;

use cluster::{EntryId, PeerMessage, RejoinQuestion};
use environment::randomness::Random;
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::{PutRequest, RequestOp, TxnRequest};
use raft::eraftpb::{Message, MessageType};
use revisions::Command;
use scene::{Cluster, is_done};

/// The member that sends false messages; the other two are a majority of three.
const LIAR: u64 = 3;

fn message(kind: MessageType, to: u64, term: u64) -> Message {
    let mut message = Message {
        from: LIAR,
        to,
        term,
        ..Message::default()
    };
    message.set_msg_type(kind);
    message
}

/// Three members; of the third, the others receive only the messages of the test.
fn with_liar() -> Cluster {
    let mut cluster = Cluster::new(3);
    cluster.part(&[LIAR]);
    cluster
}

fn say(cluster: &mut Cluster, to: u64, message: Message) {
    cluster
        .replica(to)
        .receive(LIAR, PeerMessage::Raft(message));
    cluster.run_until_quiet();
}

#[test]
fn messages_of_absurd_terms_and_indexes_change_nothing() {
    let mut cluster = with_liar();
    let term = cluster.replica(1).term();
    let kinds = [
        MessageType::MsgAppend,
        MessageType::MsgAppendResponse,
        MessageType::MsgHeartbeat,
        MessageType::MsgHeartbeatResponse,
        MessageType::MsgRequestVote,
        MessageType::MsgRequestVoteResponse,
        MessageType::MsgRequestPreVote,
        MessageType::MsgRequestPreVoteResponse,
        MessageType::MsgTimeoutNow,
    ];
    for to in [1, 2] {
        for kind in kinds {
            for absurd in [0, 1 << 40, u64::MAX - 1, u64::MAX] {
                say(&mut cluster, to, message(kind, to, absurd));
            }
            let mut indexes = message(kind, to, term);
            (indexes.index, indexes.log_term) = (u64::MAX, term);
            say(&mut cluster, to, indexes.clone());
            indexes.index = 1 << 50;
            (indexes.reject, indexes.reject_hint) = (true, u64::MAX);
            say(&mut cluster, to, indexes);
        }
    }
    assert_eq!(cluster.leader(), 1);
    assert_eq!(cluster.replica(1).term(), term);
    let mut put = cluster.put(2, "k");
    assert!(is_done(&mut put), "{put:?}");
}

fn rejoin_question(incarnation: u64) -> PeerMessage {
    PeerMessage::Rejoin(RejoinQuestion {
        incarnation,
        round: 1,
        end: EntryId { term: 1, index: 1 },
        voters: vec![1, 2, LIAR],
    })
}

#[test]
fn messages_of_a_member_still_count_after_one_with_an_impossible_incarnation() {
    let mut cluster = with_liar();
    let question = rejoin_question(1 << 32);
    let mut answer = message(MessageType::MsgAppendResponse, 1, cluster.replica(1).term());
    answer.context = u64::MAX.to_le_bytes().to_vec().into();
    cluster.replica(1).receive(LIAR, question);
    say(&mut cluster, 1, answer);
    cluster.cut.clear();
    cluster.part(&[2]);
    let mut put = cluster.put(1, "k");
    cluster.long();
    assert!(is_done(&mut put), "{put:?}");
}

/// A process that claims the id of a member names an incarnation that never existed. The liar is cut
/// off, so that each put needs the member with the claimed incarnation.
#[test]
fn a_member_replaces_a_false_incarnation_that_was_claimed_in_its_name() {
    let mut cluster = with_liar();
    for incarnation in [1000, 7, u64::from(u32::MAX)] {
        for (to, named) in [(1, 2), (2, 1)] {
            let question = rejoin_question(incarnation);
            cluster.replica(to).receive(named, question);
        }
        let mut put = cluster.put(1, "k");
        cluster.long();
        assert!(
            is_done(&mut put),
            "after incarnation {incarnation}: {put:?}"
        );
        assert_eq!(cluster.leader(), 1);
    }
}

#[test]
fn an_unsolicited_answer_about_an_incarnation_changes_nothing() {
    let mut cluster = with_liar();
    for number in [0, 1, u64::MAX] {
        let answer = PeerMessage::ThisIncarnation {
            number,
            incarnation: 1000,
        };
        cluster.replica(1).receive(2, answer);
    }
    let mut put = cluster.put(1, "k");
    cluster.long();
    assert!(is_done(&mut put), "{put:?}");
}

#[test]
fn a_confirmation_of_entries_that_the_leader_does_not_have_commits_nothing() {
    let mut cluster = with_liar();
    let term = cluster.replica(1).term();
    cluster.part(&[2]);
    let mut put = cluster.put(1, "k");
    let beyond = cluster.replica(1).index() + 1;
    for index in [beyond, beyond + 1000] {
        let mut confirmed = message(MessageType::MsgAppendResponse, 1, term);
        confirmed.index = index;
        say(&mut cluster, 1, confirmed);
    }
    assert!(!is_done(&mut put) && !cluster.has(1, "k"));
}

#[test]
fn a_second_leader_of_a_term_and_a_false_transfer_of_leadership_are_ignored() {
    let mut cluster = with_liar();
    let term = cluster.replica(1).term();
    for kind in [MessageType::MsgHeartbeat, MessageType::MsgTimeoutNow] {
        say(&mut cluster, 2, message(kind, 2, term));
        assert_eq!(cluster.replica(2).leader(), 1, "{kind:?}");
        assert_eq!(cluster.replica(2).term(), term, "{kind:?}");
    }
}

/// A leader's answer to a command that the liar forwards.
fn answer_to(cluster: &mut Cluster, command: Command) -> Result<(), String> {
    let replica = cluster.replica(1);
    let message = PeerMessage::Command { number: 7, command };
    replica.receive(LIAR, message);
    for _ in 0..3 {
        let engine = replica.reader().engine().clone();
        replica.run();
        engine.work();
        replica.persisted(Ok(engine.durable()));
        for (_, message) in replica.take_output().messages {
            if let PeerMessage::Answer {
                number: 7, outcome, ..
            } = message
            {
                return outcome.map(drop).map_err(|error| error.to_string());
            }
        }
        replica.tick();
    }
    Err("no answer".into())
}

fn put(key: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        ..PutRequest::default()
    }
}

#[test]
fn a_leader_applies_the_limits_of_clients_to_forwarded_commands() {
    let mut cluster = Cluster::new(1);
    let operation = |key| RequestOp {
        request: Some(Request::RequestPut(put(key))),
    };
    let twice = TxnRequest {
        success: vec![operation("k"), operation("k")],
        ..TxnRequest::default()
    };
    let long = TxnRequest {
        success: vec![RequestOp::default(); scene::OPERATIONS_MAX + 1],
        ..TxnRequest::default()
    };
    let large = PutRequest {
        value: vec![0; scene::REQUEST_BYTES_MAX].into(),
        ..put("k")
    };
    for (command, expected) in [
        (Command::Put(put("")), "key is not provided"),
        (Command::Txn(twice), "duplicate key given in txn request"),
        (Command::Txn(long), "too many operations in txn request"),
        (Command::Put(large), "request is too large"),
    ] {
        let refused = answer_to(&mut cluster, command).unwrap_err();
        assert_eq!(refused, format!("etcdserver: {expected}"));
    }
    assert_eq!(answer_to(&mut cluster, Command::Put(put("k"))), Ok(()));
    assert_eq!(cluster.leader(), 1);
}

/// Messages with random fields, mostly near the true values, so that many pass the first
/// checks.
fn random_message(random: &mut Random, to: u64, (term, index): (u64, u64)) -> Message {
    let mut near = |center: u64| match random.below(6) {
        0 => random.next_u64(),
        1 => 0,
        _ => (center + random.below(5)).saturating_sub(2),
    };
    let mut message = Message {
        from: LIAR,
        to,
        term: near(term),
        log_term: near(term),
        index: near(index),
        commit: near(index),
        commit_term: near(term),
        reject_hint: near(index),
        ..Message::default()
    };
    message.reject = random.chance(1, 3);
    let kinds = [
        MessageType::MsgAppendResponse,
        MessageType::MsgHeartbeatResponse,
        MessageType::MsgRequestVoteResponse,
        MessageType::MsgRequestPreVote,
        MessageType::MsgRequestPreVoteResponse,
        MessageType::MsgTimeoutNow,
    ];
    message.set_msg_type(*random.pick(&kinds));
    message
}

#[test]
fn random_messages_of_a_member_never_end_another() {
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let mut cluster = with_liar();
        for round in 0..300 {
            let to = 1 + random.below(2);
            let replica = cluster.replica(to);
            let place = (replica.term(), replica.index());
            let message = random_message(&mut random, to, place);
            say(&mut cluster, to, message);
            if round % 20 == 0 {
                cluster.tick();
            }
        }
        for id in [1, 2] {
            let failure = cluster.replica(id).failure().cloned();
            assert!(failure.is_none(), "seed {seed}, member {id}: {failure:?}");
        }
        cluster.cut.clear();
        cluster.until(|cluster| cluster.leader() != 0 && cluster.agrees());
        cluster.move_lead(1);
        let mut put = cluster.put(1, "k");
        assert!(is_done(&mut put), "seed {seed}: {put:?}");
    }
}
