//! Tests of a sender against a scripted member.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::Worker;
use environment::simulated::{SimulatedClock, SimulatedDisk};
use environment::{Clock, Instant};
use etcd_api::etcdserverpb::PutRequest;
use raft::eraftpb::Message;
use revisions::Command;
use tokio::sync::oneshot;

use super::{Exchange, Pace, Parcel, Sender, Step};
use crate::{ImportReport, NodeOptions, PeerMessage, Replica};

const PIECE_BYTES: usize = 256;
const PACE: Pace = Pace {
    window_bytes: 4 * PIECE_BYTES,
    resend_after: Duration::from_secs(2),
    give_up_after: Duration::from_secs(30),
};

struct Scene {
    sender: Sender,
    exchange: Arc<Exchange>,
    clock: SimulatedClock,
    /// The replica from which the snapshot is exported.
    _replica: Replica,
}

/// A leader with a snapshot of many pieces for member 2.
fn scene() -> Scene {
    let clock = SimulatedClock::stepped();
    let mut options = NodeOptions::new("/data");
    options.replica.machine.engine.log.segment_bytes = 64 << 10;
    options.replica.machine.engine.batch_bytes_max = 32 << 10;
    options.replica.machine.engine.log.reserve_bytes = 0;
    options.replica.machine.engine.log.worker = Worker::Caller;
    let disk = Arc::new(SimulatedDisk::new(1));
    let (directory, shared) = (Path::new("/data"), Arc::new(clock.clone()));
    let mut replica = Replica::open(disk, directory, options.replica(1), shared).unwrap();
    commit(&mut replica);
    for number in 0..30 {
        let put = Command::Put(PutRequest {
            key: format!("k{number}").into(),
            value: vec![b'v'; 100].into(),
            ..PutRequest::default()
        });
        replica.propose(&put, oneshot::channel().0);
        commit(&mut replica);
    }
    let parcel = Parcel {
        id: 7,
        to: 2,
        export: replica.machine_mut().export(PIECE_BYTES),
        message: Message::default(),
    };
    let exchange = Arc::new(Exchange::default());
    let sender = Sender::new(parcel, PACE, Arc::clone(&exchange), clock.now());
    Scene {
        sender,
        exchange,
        clock,
        _replica: replica,
    }
}

fn commit(replica: &mut Replica) {
    for _ in 0..3 {
        replica.run();
        let engine = replica.reader().engine().clone();
        engine.work();
        replica.persisted(Ok(engine.durable()));
    }
    replica.run();
}

impl Scene {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn poll(&mut self) -> Step {
        let now = self.now();
        self.sender.poll(now)
    }

    fn is_offered(&mut self) -> bool {
        matches!(
            self.poll(),
            Step::Send(PeerMessage::SnapshotOffer { id: 7, .. })
        )
    }

    /// The pieces that the sender sends now, until it waits.
    fn pieces(&mut self) -> Vec<bytes::Bytes> {
        let mut pieces = Vec::new();
        loop {
            match self.poll() {
                Step::Send(PeerMessage::SnapshotPiece { id: 7, bytes }) => pieces.push(bytes),
                Step::Wait(_) => return pieces,
                other => panic!("{other:?}"),
            }
        }
    }
}

fn report(wanted: u64, written: u64, out_of_order: bool) -> ImportReport {
    ImportReport {
        wanted,
        written,
        out_of_order,
    }
}

#[test]
fn no_piece_is_sent_before_the_member_wants_one() {
    let mut scene = scene();
    assert!(scene.is_offered());
    assert!(scene.pieces().is_empty());
    scene.clock.advance(PACE.resend_after);
    assert!(scene.is_offered(), "again");
    scene.exchange.report(report(0, 0, false));
    assert!(!scene.pieces().is_empty());
}

#[test]
fn bytes_in_flight_are_limited_by_the_window() {
    let mut scene = scene();
    assert!(scene.is_offered());
    scene.exchange.report(report(0, 0, false));
    let first = scene.pieces();
    let bytes: usize = first.iter().map(bytes::Bytes::len).sum();
    assert!(bytes >= PACE.window_bytes, "{bytes}");
    assert!(
        bytes - first.last().unwrap().len() < PACE.window_bytes,
        "{bytes}"
    );
    let sent = first.len() as u64;
    // The pieces have arrived and are not written.
    scene.exchange.report(report(sent, 0, false));
    assert!(scene.pieces().is_empty());
    scene.exchange.report(report(sent, sent - 1, false));
    assert!(!scene.pieces().is_empty());
}

#[test]
fn the_sender_continues_with_the_wanted_piece_after_a_broken_connection() {
    let mut scene = scene();
    assert!(scene.is_offered());
    scene.exchange.report(report(0, 0, false));
    let first = scene.pieces();
    let now = scene.now();
    scene.sender.interrupted(now);
    assert!(scene.pieces().is_empty(), "a pause");
    scene.clock.advance(PACE.resend_after);
    assert!(scene.is_offered());
    scene.exchange.report(report(1, 1, false));
    let again = scene.pieces();
    assert_eq!(again[0], first[1], "the same bytes each time");
    // The member was restarted.
    let now = scene.now();
    scene.sender.interrupted(now);
    scene.clock.advance(PACE.resend_after);
    assert!(scene.is_offered());
    scene.exchange.report(report(0, 0, false));
    assert_eq!(scene.pieces()[0], first[0]);
}

#[test]
fn a_missed_piece_is_sent_again_once() {
    let mut scene = scene();
    assert!(scene.is_offered());
    scene.exchange.report(report(0, 0, false));
    let first = scene.pieces();
    scene.exchange.report(report(1, 1, true));
    assert_eq!(scene.pieces()[0], first[1]);
    // Every piece behind the missed one is out of order too.
    scene.exchange.report(report(1, 1, true));
    assert!(scene.pieces().is_empty());
    scene.exchange.report(report(99, 99, true));
    assert!(scene.pieces().len() <= first.len(), "these were never sent");
}

#[test]
fn a_transfer_to_a_silent_member_is_given_up() {
    let mut scene = scene();
    assert!(scene.is_offered());
    scene.clock.advance(PACE.give_up_after);
    assert!(matches!(scene.poll(), Step::Over));
    let outcome = scene.exchange.ended().unwrap();
    assert_eq!(
        outcome,
        Err("the member makes no progress with the snapshot".into())
    );
}

#[test]
fn a_transfer_ends_with_the_outcome_that_the_member_reports() {
    for outcome in [Ok(()), Err("its disk is full".to_owned())] {
        let mut scene = scene();
        assert!(scene.is_offered());
        scene.exchange.stop(outcome.clone());
        assert!(matches!(scene.poll(), Step::Over));
        drop(scene.sender);
        assert_eq!(scene.exchange.ended(), Some(outcome));
    }
}

#[test]
fn a_transfer_fails_when_its_sender_is_dropped() {
    let scene = scene();
    drop(scene.sender);
    assert!(scene.exchange.ended().unwrap().is_err());
}
