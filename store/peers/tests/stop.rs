//! A stop ends the threads and closes the sockets. This is the only test of its process,
//! because it counts the threads and sockets of the process.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use bytes::Bytes;
use environment::Clock;
use environment::real::RealClock;
use peers::Lane;
use support::{block_on, member};

/// Number of network threads in this process.
fn threads() -> usize {
    let entries = std::fs::read_dir("/proc/self/task").unwrap();
    let ours = entries.filter(|entry| {
        let name = std::fs::read_to_string(entry.as_ref().unwrap().path().join("comm"));
        // A thread that has just ended has no name any more.
        name.is_ok_and(|name| name.trim_end() == "peers")
    });
    ours.count()
}

/// Waits until the kernel lists no network thread: it wakes the thread that joins a moment
/// before it removes the ended one from its list.
fn no_threads() {
    let began = RealClock.now();
    while threads() > 0 {
        assert!(RealClock.now().saturating_since(began) < support::PATIENCE);
        std::thread::yield_now();
    }
}

fn sockets() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let sockets = entries.filter(|entry| {
        let target = std::fs::read_link(entry.as_ref().unwrap().path());
        target.is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    });
    sockets.count()
}

#[test]
fn a_stop_ends_the_thread_and_closes_every_socket() {
    // The first runtime of a process makes a pair of sockets that stay.
    member(9).peers.stop();
    no_threads();
    let before = sockets();
    let (one, two) = (member(1), member(2));
    one.knows(2, &two);
    two.knows(1, &one);
    for lane in Lane::KEPT {
        one.events.connected(lane);
        two.events.connected(lane);
    }
    let stream = block_on(one.peers.open_stream(2, 1, Bytes::new())).unwrap();
    assert_eq!(threads(), 2);
    let made = sockets() - before;
    assert!(made >= 10, "two listeners, four lanes of two ends: {made}");

    let again = one.peers.clone();
    one.peers.stop();
    again.stop();
    two.peers.stop();
    drop(stream);
    assert_eq!(sockets(), before);
    no_threads();

    // The last handle to be dropped stops as well.
    let three = member(3);
    let again = three.peers.clone();
    drop(three);
    let address = vec!["127.0.0.1:1".to_owned()];
    assert_eq!(again.set_member(1, address), Ok(()), "not stopped");
    drop(again);
    assert_eq!(sockets(), before);
    no_threads();
}
