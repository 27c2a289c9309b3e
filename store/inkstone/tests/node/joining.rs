//! Members that join a running cluster, and starts that are refused.

#![expect(clippy::disallowed_methods, reason = "a directory is lost")]

use std::time::Duration;

use harness::ports::free_address;
use inkstone::{Error, Member, Node, NodeOptions, Remedy};

use crate::three::{Three, door, get, in_time, put, until};

/// Whether the call may be repeated: the leader changes, or too few members are up.
fn is_temporary(error: &Error) -> bool {
    eprintln!("again: {error}");
    matches!(error.remedy(), Remedy::Retry | Remedy::LookFirst)
}

fn member(node: &Node, is_meant: impl Fn(&Member) -> bool) -> Option<Member> {
    node.members().into_iter().find(is_meant)
}

/// Adds a member and returns its id, also where the answer to the addition was lost.
fn add(node: &Node, address: &str, is_learner: bool) -> u64 {
    let url = format!("http://{address}");
    until("the addition", || {
        if let Some(added) = member(node, |it| it.peer_urls.contains(&url)) {
            return Some(added.id);
        }
        let added = match is_learner {
            true => in_time(node.add_learner(&[address])),
            false => in_time(node.add_member(&[address])),
        };
        match added {
            Ok(id) => Some(id),
            Err(error) => {
                assert!(is_temporary(&error), "{error}");
                None
            }
        }
    })
}

fn promote(node: &Node, id: u64) {
    until("the promotion", || {
        let found = member(node, |it| it.id == id).unwrap();
        if !found.is_learner {
            return Some(());
        }
        match in_time(node.promote_member(id)) {
            Ok(()) => Some(()),
            Err(error) => {
                assert!(is_temporary(&error), "{error}");
                None
            }
        }
    });
}

fn remove(node: &Node, id: u64) {
    until("the removal", || {
        if member(node, |it| it.id == id).is_none() {
            return Some(());
        }
        if let Err(error) = in_time(node.remove_member(id)) {
            assert!(is_temporary(&error), "{error}");
        }
        None
    });
}

/// Waits until all members know the name of the member with this id.
fn until_named(three: &Three, at: &[usize], id: u64) {
    for &number in at {
        let named = |it: &Member| it.id == id && it.is_started();
        until("a name", || member(three.node(number), named));
    }
}

fn refused(options: NodeOptions, remedy: Remedy, words: &[&str]) {
    let error = options.start().map(|node| node.stop()).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.remedy(), remedy, "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn a_learner_receives_data_is_promoted_and_serves_reads_and_writes() {
    let mut three = Three::start();
    for number in 0..200 {
        put(three.node(number % 3), &format!("k{number}"), "v");
    }
    let (listener, address) = door();
    let id = add(three.node(1), &address, true);
    // The member that it asks may not have applied the addition yet.
    let joining = || three.named("d").join(&address, [three.address(0)]);
    until("the addition at the asked member", || {
        member(three.node(0), |it| it.id == id)
    });
    let fourth = joining().listener(listener).start().unwrap();
    assert_eq!((fourth.id(), fourth.name()), (id, "d"));
    put(three.node(2), "k0", "newest");
    assert_eq!(get(&fourth, "k0").as_deref(), Some("newest"));
    let there = fourth.serializable();
    assert_eq!(there.prefix("k").count().unwrap(), 200);
    promote(three.node(2), id);
    put(&fourth, "own", "v");
    assert_eq!(get(three.node(0), "own").as_deref(), Some("v"));
    // It votes: without its vote, only two of four would be left.
    until_named(&three, &[0, 1, 2], id);
    three.stop(2);
    put(&fourth, "own", "w");
    fourth.stop();
    // The directory has all that the start needs.
    let fourth = three.named("d").start().unwrap();
    assert_eq!(fourth.id(), id);
    put(three.node(0), "k0", "after");
    assert_eq!(get(&fourth, "k0").as_deref(), Some("after"));
}

#[test]
fn a_voter_can_join_a_cluster_of_one() {
    let place = tempfile::tempdir().unwrap();
    let options = |name: &str| {
        NodeOptions::new(name, place.path().join(name))
            .segment_bytes(1 << 20)
            .heartbeat_interval(Duration::from_millis(20))
            .election_timeout(Duration::from_millis(200))
    };
    let [(first_door, first), (second_door, second)] = [door(), door()];
    let a = options("a").founder("a", &first).listener(first_door);
    let a = a.start().unwrap();
    put(&a, "k", "alone");
    let id = add(&a, &second, false);
    let joining = options("b").join(&second, [&first]).listener(second_door);
    let b = joining.start().unwrap();
    assert_eq!(b.id(), id);
    assert_eq!(get(&b, "k").as_deref(), Some("alone"));
    put(&b, "k", "two");
    assert_eq!(get(&a, "k").as_deref(), Some("two"));
}

#[test]
fn a_member_that_stops_before_it_has_its_data_receives_them_after_a_restart() {
    let mut three = Three::start();
    put(three.node(0), "k", "v");
    let (first_door, address) = door();
    let id = add(three.node(0), &address, true);
    // Without a leader, no member sends it anything.
    three.stop(1);
    three.stop(2);
    let leads = |node: &Node| node.leadership().leader;
    until("no leader", || leads(three.node(0)).is_none().then_some(()));
    let joining = || three.named("d").join(&address, [three.address(0)]);
    let fourth = joining().listener(first_door).start().unwrap();
    assert_eq!(fourth.id(), id);
    assert_eq!(fourth.members(), []);
    assert_eq!(fourth.serializable().prefix("").count().unwrap(), 0);
    drop(fourth);

    refused(
        three.named("d"),
        Remedy::CorrectTheCall,
        &["set `join`", "no data"],
    );
    let fourth = joining().start().unwrap();
    assert_eq!((fourth.id(), fourth.members()), (id, vec![]));
    drop(fourth);
    let fourth = joining().start().unwrap();
    three.restart(1);
    three.restart(2);
    put(three.node(1), "k", "w");
    assert_eq!(get(&fourth, "k").as_deref(), Some("w"));
    until_named(&three, &[0, 1, 2], id);
    drop(fourth);
    // It has its data now, and asks no other member.
    let fourth = three.named("d").start().unwrap();
    assert_eq!(fourth.serializable().get("k").unwrap().unwrap().value, "w");
}

#[test]
fn a_member_that_lost_its_directory_is_refused() {
    let mut three = Three::start();
    put(three.node(0), "k", "v");
    let (founder, (door, address)) = (three.node(2).id(), door());
    until_named(&three, &[0, 1], founder);
    let id = add(three.node(0), &address, true);
    until("the addition at the asked member", || {
        member(three.node(0), |it| it.id == id)
    });
    let joining = three.named("d").join(&address, [three.address(0)]);
    let fourth = joining.clone().listener(door).start().unwrap();
    until_named(&three, &[0, 1], id);
    fourth.stop();
    three.stop(2);
    let lost = |name: &str| {
        let directory = three.directory(0).with_file_name(name);
        std::fs::rename(&directory, directory.with_extension("lost")).unwrap();
    };
    lost("c");
    lost("d");
    let words = ["was up", "holds nothing", "remove_member"];
    refused(three.founding(2), Remedy::Repair, &words);
    refused(joining.clone(), Remedy::Repair, &words);
    assert!(!three.directory(2).exists(), "nothing was begun");
    // The file MEMBER alone does not help.
    let only_member = |name: &str| {
        let directory = three.directory(0).with_file_name(name);
        let lost = directory.with_extension("lost").join("MEMBER");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::copy(lost, directory.join("MEMBER")).unwrap();
    };
    let words = ["belongs to member", "holds nothing", "remove_member"];
    only_member("c");
    refused(three.options(2), Remedy::Repair, &words);
    only_member("d");
    refused(joining.clone(), Remedy::Repair, &words);
    for name in ["c", "d"] {
        let directory = three.directory(0).with_file_name(name);
        std::fs::remove_dir_all(directory).unwrap();
    }

    remove(three.node(0), founder);
    remove(three.node(0), id);
    refused(
        three.founding(2),
        Remedy::Repair,
        &["was removed", "add_learner"],
    );
    refused(
        joining,
        Remedy::CorrectTheCall,
        &["no member at", "add_learner"],
    );

    // A new member at the old address.
    let place = three.address(2).to_owned();
    let again = add(three.node(1), &place, true);
    assert_ne!(again, founder);
    let members = [three.address(0), three.address(1)];
    let joining = three.named("c").join(&place, members);
    let third = until("word of it at both", || joining.clone().start().ok());
    assert_eq!(get(&third, "k").as_deref(), Some("v"));
    promote(three.node(0), again);
}

#[test]
fn an_impossible_join_is_refused_with_the_reason() {
    let three = Three::start();
    put(three.node(0), "k", "v");
    let own = "127.0.0.1:1";
    let new = || three.named("d");
    let wrong = Remedy::CorrectTheCall;
    let members = [three.address(0)];
    refused(
        new().join(own, members),
        wrong,
        &["no member at", own, "add_member"],
    );
    refused(new().join("own", members), wrong, &["\"own\"", "host:port"]);
    refused(new().join(own, ["x"]), wrong, &["\"x\"", "host:port"]);
    refused(new().join(own, [own]), wrong, &["names no other member"]);
    let both = new().founder("d", own).join(own, members);
    refused(both, wrong, &["founders", "`join`"]);
    let silent = free_address().unwrap();
    let unanswered = new().join(own, [&silent]);
    refused(unanswered, Remedy::Retry, &["no member answers", &silent]);

    let added = "127.0.0.1:2";
    let id = add(three.node(0), added, true);
    let id = format!("{id:x}");
    let elsewhere = new().join(own, members);
    refused(elsewhere, wrong, &["never up", &id, added]);
    assert!(!three.directory(0).with_file_name("d").exists());

    let alone = tempfile::tempdir().unwrap();
    let (door, other) = door();
    let other_cluster = NodeOptions::new("x", alone.path()).segment_bytes(1 << 20);
    let other_cluster = other_cluster.founder("x", &other).listener(door).start();
    let other_cluster = other_cluster.unwrap();
    let two = new().join(own, [three.address(0), &other]);
    refused(two, wrong, &["two clusters"]);
    other_cluster.stop();
}

#[test]
fn a_cluster_is_not_founded_with_members_that_run_in_another() {
    let three = Three::start();
    put(three.node(0), "k", "v");
    let (door, own) = door();
    let beside = three.named("d").founder("d", own).listener(door);
    let beside = beside.founder("a", three.address(0));
    let words = ["run already", three.address(0), "`join`", "`cluster_token`"];
    refused(beside, Remedy::CorrectTheCall, &words);
    assert!(!three.directory(0).with_file_name("d").exists());
}

#[test]
fn joining_with_another_segment_size_is_refused_with_the_right_one() {
    let three = Three::start();
    put(three.node(0), "k", "v");
    let (door, address) = door();
    let id = add(three.node(0), &address, true);
    until("the addition at the asked member", || {
        member(three.node(0), |it| it.id == id)
    });
    let joining = three.named("d").join(&address, [three.address(0)]);
    let words = ["segments of 1048576 bytes", "`segment_bytes` is 2097152"];
    let other = joining.clone().segment_bytes(2 << 20);
    refused(other, Remedy::CorrectTheCall, &words);
    assert!(!three.directory(0).with_file_name("d").exists());
    let fourth = joining.listener(door).start().unwrap();
    assert_eq!(get(&fourth, "k").as_deref(), Some("v"));
}

#[test]
fn invalid_membership_changes_are_refused() {
    let three = Three::start();
    put(three.node(0), "k", "v");
    let node = three.node(0);
    let id = add(node, "127.0.0.1:2", true);
    let taken = [three.address(1)];
    for (what, outcome) in [
        ("no address", in_time(node.add_learner(&["nowhere"]))),
        ("an address twice", in_time(node.add_member(&taken))),
        (
            "a second learner",
            in_time(node.add_learner(&["127.0.0.1:3"])),
        ),
        ("a stranger", in_time(node.promote_member(7)).map(|()| 7)),
        (
            "a voter",
            in_time(node.promote_member(node.id())).map(|()| 7),
        ),
    ] {
        let error = outcome.expect_err(what);
        assert_eq!(error.remedy(), Remedy::CorrectTheCall, "{what}: {error}");
    }
    let error = in_time(node.promote_member(id)).unwrap_err();
    assert_eq!(error.remedy(), Remedy::Retry, "it has nothing yet: {error}");
}
