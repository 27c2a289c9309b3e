//! When followers learn the commit index.

use crate::scene;

use scene::{Cluster, TICK, is_done};

/// A cluster with two entries, one right behind the other.
fn under_load() -> Cluster {
    let mut cluster = Cluster::new(3);
    drop(cluster.put(1, "k"));
    assert!(is_done(&mut cluster.put(1, "k")), "a majority has it");
    cluster
}

#[test]
fn followers_learn_the_commit_index_after_a_delay_when_no_entry_follows() {
    let mut cluster = under_load();
    let due = cluster.replica(1).due().expect("a notice is due");
    assert!(!cluster.agrees(), "no request waits at the followers");
    let wait = due.saturating_since(environment::Clock::now(&cluster.clock));
    assert!(wait < TICK, "before any heartbeat");
    cluster.clock.advance(wait);
    cluster.run_until_quiet();
    assert!(cluster.agrees());
    assert_eq!(cluster.replica(1).due(), None);
}

#[test]
fn followers_learn_the_commit_index_at_once_when_entries_are_rare() {
    let mut cluster = under_load();
    for _ in 0..3 {
        cluster.tick();
        assert!(is_done(&mut cluster.put(1, "k")));
        assert!(cluster.agrees(), "without any time passing");
    }
}

#[test]
fn followers_learn_the_commit_index_with_the_next_entry() {
    let mut cluster = under_load();
    let first = cluster.replica(1).applied_index();
    drop(cluster.put(1, "k"));
    for id in 1..=3 {
        assert!(cluster.replica(id).applied_index() >= first, "member {id}");
    }
}

#[test]
fn followers_learn_the_commit_index_at_once_when_a_request_waits_there() {
    let mut cluster = Cluster::new(3);
    let mut answer = cluster.put(2, "k");
    assert!(is_done(&mut answer), "without any time passing");
    assert!(cluster.agrees());
}
