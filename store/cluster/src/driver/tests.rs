//! Tests of a driver that is driven step by step, without its thread.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use environment::simulated::{SimulatedClock, SimulatedDisk};
use etcd_api::etcdserverpb::PutRequest;
use revisions::Command;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;

pub(super) fn a_driver() -> Driver {
    let mut options = NodeOptions::new("/node");
    options.disk = Arc::new(SimulatedDisk::new(1));
    options.clock = Arc::new(SimulatedClock::stepped());
    options.replica.machine.engine.log.reserve_bytes = 0;
    options.replica.machine.engine.log.worker = engine::Worker::Caller;
    let replica = Replica::open(
        Arc::clone(&options.disk),
        &options.directory,
        options.replica(1),
        Arc::clone(&options.clock),
    );
    let replica = replica.unwrap();
    let inbox = Arc::new(Inbox::new(options.queue_bytes_max));
    let notices = Arc::clone(&inbox);
    let engine = replica.reader().engine().clone();
    engine.on_durable(Box::new(move |outcome| {
        notices.persisted(outcome.map_err(|error| error.to_string()));
    }));
    let mut driver = Driver::new(&options, replica, inbox, None, Arc::default());
    while !driver.replica.leads() {
        step(&mut driver);
    }
    driver
}

/// Processes the inbox and does the work of the log's threads.
fn step(driver: &mut Driver) {
    let arrived = driver.inbox.take(Duration::ZERO, CanWait::default());
    driver.step(arrived);
    driver.replica.reader().engine().work();
}

/// Proposes a put and runs steps until it is answered.
fn put(driver: &mut Driver, value: usize) {
    let request = PutRequest {
        key: "key".into(),
        value: vec![0; value].into(),
        ..PutRequest::default()
    };
    let mut pending = driver.inbox.propose(Command::Put(request)).unwrap();
    for _ in 0..1000 {
        step(driver);
        if let Poll::Ready(answer) =
            Pin::new(&mut pending).poll(&mut Context::from_waker(Waker::noop()))
        {
            return drop(answer.unwrap());
        }
    }
    panic!("a put was not answered");
}

#[test]
fn writes_are_answered_during_a_defragmentation() {
    let mut driver = a_driver();
    (0..50).for_each(|_| put(&mut driver, 10_000));
    let (answer, mut received) = oneshot::channel();
    let (answer_later, mut received_later) = oneshot::channel();
    driver.step(Arrived {
        defragment: vec![answer],
        ..Arrived::default()
    });
    driver.step(Arrived {
        defragment: vec![answer_later],
        ..Arrived::default()
    });
    let mut puts = 0;
    while matches!(received.try_recv(), Err(TryRecvError::Empty)) {
        put(&mut driver, 1);
        puts += 1;
    }
    assert!(
        puts > 0,
        "the defragmentation ended before any put could run"
    );
    let later = received_later.try_recv();
    assert!(
        matches!(later, Err(TryRecvError::Empty)),
        "it came during another one"
    );
    while matches!(received_later.try_recv(), Err(TryRecvError::Empty)) {
        put(&mut driver, 1);
    }
}

#[test]
fn a_defragmentation_fails_with_the_log() {
    let mut driver = a_driver();
    let (answer, mut receiver) = oneshot::channel();
    driver.step(Arrived {
        persisted: Some(Err("the device is gone".into())),
        defragment: vec![answer],
        ..Arrived::default()
    });
    let received = receiver.try_recv().unwrap().unwrap_err();
    assert!(matches!(received, Error::LogFailed { .. }), "{received}");
}

/// Its last answers may be of revisions that it never applies, so its reads must not count any
/// more once one of these answers is seen.
#[test]
fn a_removed_member_is_known_as_removed_when_its_last_answers_leave() {
    let mut driver = a_driver();
    let (answer, mut received) = oneshot::channel();
    assert!(!driver.published.is_removed());
    driver.step(Arrived {
        reads: vec![answer],
        removal_reported: true,
        ..Arrived::default()
    });
    let refused = received.try_recv().unwrap().unwrap_err();
    assert!(matches!(refused, Error::Removed { .. }), "{refused}");
    assert!(driver.published.is_removed());
}
