//! Reads and watches while members start and stop.

use inkstone::{Remedy, Watch};

use crate::three::{Three, get, put};

/// Revisions of the next `count` events.
fn revisions(watch: &mut Watch, count: usize) -> Vec<i64> {
    (0..count)
        .map(|_| watch.next().unwrap().revision())
        .collect()
}

#[test]
fn a_watch_survives_a_stop_of_the_leader_and_resumes_at_another_member() {
    let mut three = Three::start();
    let first = put(three.node(0), "w/first", "1");
    let leader = three.leader(0);
    let (one, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let mut at_leader = three.node(leader).watch_prefix("w/", first);
    let mut at_follower = three.node(one).watch_prefix("w/", first);
    let mut written = vec![first];
    for number in 0..10 {
        written.push(put(three.node(number % 3), "w/k", &number.to_string()));
    }
    // A put that was repeated after a lost answer has two events.
    let seen = revisions(&mut at_leader, written.len());
    assert_eq!(seen[0], first);
    three.stop(leader);
    let error = loop {
        match at_leader.next() {
            Ok(event) => assert!(event.revision() > first),
            Err(error) => break error,
        }
    };
    assert_eq!(error.remedy(), Remedy::Reopen, "{error}");
    for number in 10..20 {
        let writer = [one, other][number % 2];
        written.push(put(three.node(writer), "w/k", &number.to_string()));
    }
    let last = *written.last().unwrap();
    let mut told = Vec::new();
    while told.last() != Some(&last) {
        told.push(at_follower.next().unwrap().revision());
    }
    assert!(told.is_sorted_by(|one, next| one + 1 == *next), "{told:?}");
    assert!(written.iter().all(|revision| told.contains(revision)));
    // Another watch resumes behind the last event of the stopped member's.
    let resumed = *seen.last().unwrap() + 1;
    let mut elsewhere = three.node(other).watch_prefix("w/", resumed);
    assert_eq!(elsewhere.next().unwrap().revision(), resumed);
}

#[test]
fn without_a_majority_serializable_reads_work_and_other_calls_name_a_remedy() {
    let mut three = Three::start();
    put(three.node(0), "k", "kept");
    assert_eq!(get(three.node(2), "k").as_deref(), Some("kept"));
    three.stop(0);
    three.stop(1);
    let alone = three.node(2);
    let (write, read) = (alone.put("k", "lost"), alone.linearizable());
    let error = read.wait().unwrap_err();
    assert_eq!(error.remedy(), Remedy::Retry, "{error}");
    let error = write.wait().unwrap_err();
    assert_eq!(error.remedy(), Remedy::LookFirst, "{error}");
    let found = alone.serializable().get("k").unwrap().unwrap();
    assert_eq!(found.value, "kept");
    three.restart(0);
    put(three.node(0), "k", "after");
    assert_eq!(get(three.node(2), "k").as_deref(), Some("after"));
}

#[test]
fn a_view_stays_at_its_revision_and_reports_it() {
    let three = Three::start();
    put(three.node(0), "v/a", "1");
    let node = three.node(1);
    let view = node.linearizable().wait().unwrap();
    let (before, revision) = (view.prefix("v/").count().unwrap(), view.revision());
    let next = put(node, "v/b", "2");
    assert_eq!(view.prefix("v/").count().unwrap(), before);
    assert_eq!(view.revision(), revision);
    // List, then watch from the next revision on: no event is missed or repeated.
    let mut watch = node.watch_prefix("v/", revision + 1);
    assert!(watch.next().unwrap().revision() <= next);
    let error = node.at(next + 1000).get("v/a").unwrap_err();
    assert_eq!(error.remedy(), Remedy::CorrectTheCall, "{error}");
}
