//! Reads and watches while members come and go.

use inkstone::{Remedy, Watch};

use crate::three::{Three, get, put};

/// The next changes' revisions.
fn revisions(watch: &mut Watch, count: usize) -> Vec<i64> {
    (0..count)
        .map(|_| watch.next().unwrap().revision())
        .collect()
}

#[test]
fn a_watch_goes_on_when_the_leader_stops_and_elsewhere_when_its_member_does() {
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
    // What was written twice after an answer was lost is told twice.
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
    // Where the stopped one's watch had come to, another goes on.
    let resumed = *seen.last().unwrap() + 1;
    let mut elsewhere = three.node(other).watch_prefix("w/", resumed);
    assert_eq!(elsewhere.next().unwrap().revision(), resumed);
}

#[test]
fn without_a_majority_reads_of_this_member_go_on_and_others_say_what_helps() {
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
fn a_view_stays_at_its_revision_and_says_which_that_is() {
    let three = Three::start();
    put(three.node(0), "v/a", "1");
    let node = three.node(1);
    let view = node.linearizable().wait().unwrap();
    let (before, revision) = (view.prefix("v/").count().unwrap(), view.revision());
    let next = put(node, "v/b", "2");
    assert_eq!(view.prefix("v/").count().unwrap(), before);
    assert_eq!(view.revision(), revision);
    // List, then watch from there on: nothing is missed, nothing told twice.
    let mut watch = node.watch_prefix("v/", revision + 1);
    assert!(watch.next().unwrap().revision() <= next);
    let error = node.at(next + 1000).get("v/a").unwrap_err();
    assert_eq!(error.remedy(), Remedy::CorrectTheCall, "{error}");
}
