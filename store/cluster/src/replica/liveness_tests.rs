//! Tests of which followers a leader takes for healthy. The leader is a replica; the
//! followers exist only as messages.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::Worker;
use environment::Clock;
use environment::simulated::{SimulatedClock, SimulatedDisk};
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::MemberRemoveRequest;
use raft::eraftpb::Message;

use super::reads::ROUND_PATIENCE;
use super::*;
use crate::NodeOptions;
use raft::eraftpb::MessageType;
use tokio::sync::oneshot;

const HEARTBEAT: Duration = Duration::from_millis(100);

#[test]
fn heartbeats_that_come_too_late_are_counted() {
    let mut leader = Leader::elected();
    let before = leader.replica.status().late_heartbeats;
    leader.wait();
    assert_eq!(leader.replica.status().late_heartbeats, before, "in time");
    leader.clock.advance(2 * HEARTBEAT);
    leader.wait();
    assert_eq!(leader.replica.status().late_heartbeats, before + 1);
}

struct Leader {
    replica: Replica,
    clock: SimulatedClock,
}

impl Leader {
    /// Member 1, elected by the other two.
    fn elected() -> Leader {
        Leader::elected_by(&[2, 3])
    }

    fn elected_by(others: &[u64]) -> Leader {
        let clock = SimulatedClock::stepped();
        let mut options = NodeOptions::new("/data");
        let member = |id| revisions::Member {
            id,
            ..revisions::Member::default()
        };
        options.replica.machine.member_id = 1;
        let ids = [1].into_iter().chain(others.iter().copied());
        options.replica.machine.initial_members = ids.map(member).collect();
        options.replica.machine.engine.log.segment_bytes = 64 << 10;
        options.replica.machine.engine.batch_bytes_max = 32 << 10;
        options.replica.machine.engine.log.reserve_bytes = 0;
        options.replica.machine.engine.log.worker = Worker::Caller;
        let disk = Arc::new(SimulatedDisk::new(1));
        let time: Arc<dyn Clock> = Arc::new(clock.clone());
        let replica = Replica::open(disk, Path::new("/data"), options.replica(1), time).unwrap();
        let mut leader = Leader { replica, clock };
        for _ in 0..100 {
            leader.wait();
            for _ in 0..4 {
                leader.exchange(others);
            }
            if leader.replica.leads() {
                return leader;
            }
        }
        panic!("the replica was not elected: {:?}", leader.replica);
    }

    fn wait(&mut self) {
        self.clock.advance(HEARTBEAT);
        self.replica.tick();
    }

    /// Runs the leader and gives it the answers of the `answering` members to its messages.
    fn exchange(&mut self, answering: &[u64]) {
        self.exchange_knowing(answering, &[]);
    }

    /// Does the same as [`Leader::exchange`]; the answers of the `knowing` members carry the
    /// leader's commit index.
    fn exchange_knowing(&mut self, answering: &[u64], knowing: &[u64]) {
        for _ in 0..3 {
            self.replica.run();
            let engine = self.replica.reader().engine().clone();
            engine.work();
            self.replica.persisted(Ok(engine.durable()));
        }
        self.replica.run();
        for (to, message) in self.replica.take_output().messages {
            if let PeerMessage::Raft(message) = message
                && answering.contains(&to)
                && let Some(mut answer) = answer(&message)
            {
                if knowing.contains(&to) {
                    answer.commit = message.commit;
                }
                self.replica.receive(to, PeerMessage::Raft(answer));
            }
        }
        self.replica.run();
    }

    fn may_remove(&self, id: u64) -> Result<(), Refusal> {
        let command = Command::MemberRemove(MemberRemoveRequest { id });
        membership::check_change(&self.replica.core, &command)
    }
}

/// The answer of a follower that agrees to everything.
fn answer(message: &Message) -> Option<Message> {
    let mut answer = Message {
        from: message.to,
        to: message.from,
        term: message.term,
        context: message.context.clone(),
        ..Message::default()
    };
    let kind = match message.get_msg_type() {
        MessageType::MsgRequestPreVote => MessageType::MsgRequestPreVoteResponse,
        MessageType::MsgRequestVote => MessageType::MsgRequestVoteResponse,
        MessageType::MsgHeartbeat => MessageType::MsgHeartbeatResponse,
        MessageType::MsgAppend => {
            answer.index = message.index + message.entries.len() as u64;
            MessageType::MsgAppendResponse
        }
        _ => return None,
    };
    answer.set_msg_type(kind);
    Some(answer)
}

#[test]
fn a_follower_that_answers_is_healthy_at_every_moment() {
    let mut leader = Leader::elected();
    // Several checks of the quorum, each of which clears Raft's record of active members.
    for _ in 0..50 {
        leader.wait();
        assert_eq!(leader.may_remove(3), Ok(()));
        leader.exchange(&[2, 3]);
        assert_eq!(leader.may_remove(3), Ok(()));
    }
}

#[test]
fn a_follower_that_is_silent_for_an_election_timeout_is_not_healthy() {
    let mut leader = Leader::elected();
    for _ in 0..9 {
        leader.wait();
        leader.exchange(&[2]);
    }
    assert_eq!(
        leader.may_remove(2),
        Ok(()),
        "member 3 answered a moment ago"
    );
    leader.wait();
    leader.exchange(&[2]);
    assert_eq!(leader.may_remove(2), Err(Refusal::Unhealthy));
    assert_eq!(leader.may_remove(3), Ok(()), "the quorum does not need 3");
    leader.wait();
    leader.exchange(&[2, 3]);
    assert_eq!(leader.may_remove(2), Ok(()), "it is back");
}

#[test]
fn a_leader_that_was_removed_waits_for_all_healthy_followers() {
    let mut leader = Leader::elected_by(&[2, 3, 4]);
    let itself = Command::MemberRemove(MemberRemoveRequest { id: 1 });
    assert!(leader.replica.propose(&itself, oneshot::channel().0));
    // Longer than the time between two checks of the quorum, and shorter than the time for
    // which a removed leader waits.
    for _ in 0..15 {
        leader.wait();
        leader.exchange_knowing(&[2, 3, 4], &[2, 3]);
        assert!(leader.replica.failure().is_none(), "4 does not know yet");
    }
    assert!(leader.replica.role.is_leaving(), "it is removed");
    for _ in 0..3 {
        leader.wait();
        leader.exchange_knowing(&[2, 3, 4], &[2, 3, 4]);
    }
    let failure = leader.replica.failure();
    assert!(
        matches!(failure, Some(Error::Removed { member: 1 })),
        "{failure:?}"
    );
}

impl Leader {
    /// Begins a round for a read, and returns the receiver of its answer.
    fn read(&mut self) -> oneshot::Receiver<Result<(), Error>> {
        let (answer, answered) = oneshot::channel();
        self.replica.read(answer);
        self.replica.run();
        answered
    }
}

#[test]
fn reads_can_wait_from_the_beginning_of_a_round_until_it_ends() {
    let mut leader = Leader::elected();
    leader.exchange(&[2, 3]);
    assert!(!leader.replica.can_wait().reads, "no round is under way");
    let mut answered = leader.read();
    assert!(leader.replica.can_wait().reads);
    let lost = leader.replica.reads_due().unwrap();
    assert_eq!(lost, leader.replica.core.now() + ROUND_PATIENCE);
    leader.exchange(&[2]);
    assert!(!leader.replica.can_wait().reads, "it is confirmed");
    assert_eq!(leader.replica.reads_due(), None);
    leader.replica.take_output().replies.send();
    answered.try_recv().unwrap().unwrap();

    let mut answered = leader.read();
    leader.clock.advance(ROUND_PATIENCE);
    leader.replica.run();
    let later = leader.replica.reads_due().unwrap();
    assert_eq!(
        later,
        lost + ROUND_PATIENCE,
        "it is repeated, without a tick"
    );
    answered.try_recv().unwrap_err();

    leader.replica.fail(Error::Stopped);
    assert!(!leader.replica.can_wait().reads);
    leader.replica.take_output().replies.send();
    answered.try_recv().unwrap().unwrap_err();
}

#[test]
fn reads_can_wait_no_longer_when_the_leader_has_stepped_down() {
    let mut leader = Leader::elected();
    leader.exchange(&[2, 3]);
    let _answered = leader.read();
    assert!(leader.replica.can_wait().reads);
    let mut heartbeat = Message {
        from: 2,
        to: 1,
        term: leader.replica.term() + 1,
        ..Message::default()
    };
    heartbeat.set_msg_type(MessageType::MsgHeartbeat);
    leader.replica.receive(2, PeerMessage::Raft(heartbeat));
    leader.replica.run();
    assert_eq!(leader.replica.leader(), 2);
    let output = leader.replica.take_output().messages;
    let begun = output.iter().find_map(|(to, message)| match message {
        PeerMessage::ReadIndex { round } if *to == 2 => Some(*round),
        _ => None,
    });
    let round = begun.expect("a round at the new leader");
    let answer = PeerMessage::ReadAt { round, index: 0 };
    leader.replica.receive(2, answer);
    leader.replica.run();
    assert!(!leader.replica.can_wait().reads);
}
