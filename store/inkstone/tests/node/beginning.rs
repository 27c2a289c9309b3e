//! First starts, later starts, and starts that are refused.

use harness::ports::free_address;
use inkstone::{Error, NodeOptions, Options, Remedy, Store};

use crate::three::{Three, get, listener, put};

#[test]
fn a_restarted_member_needs_no_founders_and_catches_up() {
    let mut three = Three::start();
    put(three.node(0), "k", "before");
    for lost in 0..3 {
        let ids = [0, 1, 2].map(|number| three.node(number).id());
        three.stop(lost);
        let value = format!("without {lost}");
        for number in 0..50 {
            put(three.node((lost + 1) % 3), &format!("{lost}/{number}"), "v");
        }
        put(three.node((lost + 2) % 3), "k", &value);
        three.restart(lost);
        assert_eq!(three.node(lost).id(), ids[lost]);
        assert_eq!(get(three.node(lost), "k"), Some(value));
        let there = three.node(lost).serializable();
        assert_eq!(there.prefix(format!("{lost}/")).count().unwrap(), 50);
    }
}

#[test]
fn no_write_is_lost_when_all_members_stop_and_start() {
    let mut three = Three::start();
    let revision = put(three.node(0), "k", "kept");
    for number in 0..3 {
        three.stop(number);
    }
    for number in 0..3 {
        three.restart(number);
    }
    assert_eq!(get(three.node(1), "k").as_deref(), Some("kept"));
    assert!(three.node(1).revision() >= revision);
}

fn refused(options: NodeOptions) -> Error {
    let error = options.start().map(|node| node.stop()).unwrap_err();
    assert_eq!(error.remedy(), Remedy::CorrectTheCall, "{error}");
    error
}

#[test]
fn invalid_founders_are_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let new = |name: &str| NodeOptions::new(name, place.path().join("data"));
    let assert_refused = |options: NodeOptions, words: &[&str]| {
        let text = refused(options).to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    assert_refused(new("a"), &["founder", "a", "data"]);
    assert_refused(new("a").founder("b", "127.0.0.1:1"), &["lack", "a"]);
    assert_refused(new("").founder("", "127.0.0.1:1"), &["name"]);
    for address in ["127.0.0.1", "http://127.0.0.1:1", "127.0.0.1:1/x", ":x", ""] {
        assert_refused(new("a").founder("a", address), &["founder a", "host:port"]);
    }
    let same_name = new("a").founder("a", "h:1").founder("a", "h:2");
    assert_refused(same_name, &["shares", "a"]);
    let same_place = new("a").founder("a", "h:1").founder("b", "h:1");
    assert_refused(same_place, &["shares", "h:1"]);
    let hasty = new("a").election_timeout(std::time::Duration::from_millis(150));
    assert_refused(hasty.founder("a", "127.0.0.1:1"), &["150ms", "100ms"]);
    assert!(!place.path().join("data").exists(), "nothing was begun");
    let taken = listener();
    let address = taken.local_addr().unwrap().to_string();
    assert_refused(new("a").founder("a", &address), &["listen", &address]);
}

#[test]
fn the_directory_of_a_store_or_another_member_is_refused_and_unharmed() {
    let mut three = Three::start();
    put(three.node(0), "k", "v");
    let directory = three.directory(2);
    three.stop(2);
    let error = Store::open(&directory).unwrap_err();
    assert_eq!(error.remedy(), Remedy::CorrectTheCall, "{error}");
    assert!(error.to_string().contains("Node"), "{error}");
    three.restart(2);
    assert_eq!(get(three.node(2), "k").as_deref(), Some("v"));

    let place = tempfile::tempdir().unwrap();
    let alone = place.path().join("alone");
    let open = || Options::new(&alone).segment_bytes(1 << 20).open();
    open().unwrap().put("k", "v").unwrap();
    let address = free_address().unwrap();
    let options = NodeOptions::new("a", &alone).founder("a", address);
    let error = options.start().map(|node| node.stop()).unwrap_err();
    assert!(error.to_string().contains("alone"), "{error}");
    assert_eq!(open().unwrap().get("k").unwrap().unwrap().value, "v");
}
