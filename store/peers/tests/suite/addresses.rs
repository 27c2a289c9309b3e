//! Members that move to other addresses, and hellos that name the sender's addresses.

use crate::support;

use std::io::Write;

use bytes::Bytes;
use peers::{Lane, LinkError, PeersOptions, StartError};
use support::{
    CLUSTER, Event, Events, Member, enter, hello_with, let_in, listener, member, options, read,
    start, welcome,
};

const URGENT: u8 = 1;
const DAMAGED: u8 = 5;

/// A member that sends its own address in each hello.
fn with_address(id: u64) -> Member {
    let mut options = options(id);
    options.0.addresses = vec![options.1.clone()];
    start(options)
}

fn announced(events: &Events) -> (u64, Vec<String>) {
    events.wait(|event| match event {
        Event::Announced(sender, addresses) => Some((sender, addresses)),
        _ => None,
    })
}

fn say(from: &Member, to: u64, text: &'static str) {
    from.peers
        .send(to, Lane::Urgent, 1, &[Bytes::from(text)])
        .unwrap();
}

#[test]
fn a_hello_announces_the_addresses_of_the_dialer() {
    let (one, two) = (with_address(1), member(2));
    one.knows(2, &two);
    assert_eq!(announced(&two.events), (1, vec![one.address.clone()]));
}

#[test]
fn a_working_connection_survives_a_change_of_addresses() {
    let (one, two) = (member(1), member(2));
    one.knows(2, &two);
    one.events.connected(Lane::Urgent);
    let not_there_yet = listener().local_addr().unwrap().to_string();
    one.peers.set_member(2, vec![not_there_yet]).unwrap();
    say(&one, 2, "still here");
    assert_eq!(two.events.message().3, "still here");
    let status = one.peers.status(2).unwrap();
    assert_eq!(status.lanes[0].address.as_deref(), Some(&two.address[..]));
}

#[test]
fn a_broken_connection_is_made_again_at_the_new_address() {
    let one = member(1);
    let (old, new) = (member(2), member(2));
    one.knows(2, &old);
    one.events.connected(Lane::Urgent);
    one.knows(2, &new);
    old.peers.stop();
    one.events.disconnected(Lane::Urgent);
    one.events.connected(Lane::Urgent);
    say(&one, 2, "moved");
    assert_eq!(new.events.message().3, "moved");
}

#[test]
fn a_member_that_says_it_has_moved_is_dialled_there_at_once() {
    let one = member(1);
    let (old, new) = (member(2), member(2));
    one.knows(2, &old);
    one.events.connected(Lane::Urgent);
    one.knows(2, &new);
    one.peers.moved(2, std::slice::from_ref(&new.address));
    let LinkError::Broken { reason, .. } = one.events.disconnected(Lane::Urgent) else {
        panic!("another error");
    };
    assert_eq!(reason, "the member listens elsewhere now");
    one.events.connected(Lane::Urgent);
    say(&one, 2, "moved");
    assert_eq!(new.events.message().3, "moved");
}

#[test]
fn a_member_that_repeats_its_address_keeps_its_connection() {
    let (one, two) = (member(1), member(2));
    one.knows(2, &two);
    one.events.connected(Lane::Urgent);
    let since = one.peers.status(2).unwrap().active_since;
    one.peers.moved(2, std::slice::from_ref(&two.address));
    one.peers.moved(9, std::slice::from_ref(&two.address));
    for text in ["one", "two"] {
        say(&one, 2, text);
        assert_eq!(two.events.message().3, text);
    }
    assert!(since.is_some());
    assert_eq!(one.peers.status(2).unwrap().active_since, since);
}

#[test]
fn invalid_addresses_in_a_hello_are_ignored() {
    let two = member(2);
    for list in ["no-port", "a:1 b", "http://a:1"] {
        let mut socket = std::net::TcpStream::connect(&two.address).unwrap();
        let hello = hello_with(CLUSTER, (7, 2), URGENT, list);
        socket.write_all(&hello).unwrap();
        assert_eq!(read(&mut socket, 40)[10], 0, "{list} is let in");
    }
    let mut socket = std::net::TcpStream::connect(&two.address).unwrap();
    let hello = hello_with(CLUSTER, (8, 2), URGENT, "a:1 b:2");
    socket.write_all(&hello).unwrap();
    let expected = (8, vec!["a:1".to_owned(), "b:2".to_owned()]);
    assert_eq!(
        announced(&two.events),
        expected,
        "the first that is announced"
    );
}

#[test]
fn a_sender_of_a_release_without_addresses_is_let_in() {
    let two = member(2);
    let mut old = enter(&two.address, 3, 2, URGENT);
    old.write_all(&support::frame(1, 0, b"old")).unwrap();
    assert_eq!(two.events.message().3, "old");
}

#[test]
fn a_hello_above_the_length_limit_is_refused_unread() {
    let two = member(2);
    let mut socket = std::net::TcpStream::connect(&two.address).unwrap();
    let long = "a:1 ".repeat(2000);
    let hello = hello_with(CLUSTER, (7, 2), URGENT, &long);
    socket.write_all(&hello[..40]).unwrap();
    assert_eq!(read(&mut socket, 11)[10], DAMAGED);
}

/// A listener of an older release refuses a hello with addresses as damaged.
#[test]
fn a_listener_that_refuses_addresses_gets_a_hello_without_them() {
    let listener = listener();
    let address = listener.local_addr().unwrap().to_string();
    let one = with_address(1);
    let length = one.address.len();
    one.peers.set_member(4, vec![address]).unwrap();
    let mut refused = 0;
    loop {
        let (mut socket, _) = listener.accept().unwrap();
        let head = read(&mut socket, 40);
        let release = usize::from(head[11]);
        if head[14] == 0 {
            // A hello without addresses, as earlier releases send it.
            read(&mut socket, release + 4);
            socket.write_all(&welcome(CLUSTER, 4)).unwrap();
            break;
        }
        assert_eq!(usize::from(head[14]), length);
        let mut verdict = welcome(CLUSTER, 4);
        verdict[10] = DAMAGED;
        let end = verdict.len() - 4;
        let crc = crc_fast::crc32_iscsi(&verdict[..end]);
        verdict[end..].copy_from_slice(&crc.to_le_bytes());
        read(&mut socket, release + length + 4);
        socket.write_all(&verdict).unwrap();
        refused += 1;
    }
    assert!(refused > 0, "the first hello has addresses");
    one.events.wait(|event| match event {
        Event::Link(4, _, Ok(())) => Some(()),
        _ => None,
    });
}

#[test]
fn a_member_with_invalid_own_addresses_does_not_start() {
    for (addresses, part) in [
        (vec!["nowhere".to_owned()], "write host:port"),
        (vec!["a:1".to_owned(); 300], "1024 is the most"),
    ] {
        let mut options = PeersOptions::new(CLUSTER, 1, vec![]);
        options.addresses = addresses;
        let (recorder, _events) = support::Recorder::new();
        let error = peers::Peers::start(options, recorder).err();
        let error = error.expect("it is refused");
        assert!(matches!(error, StartError::Addresses(_)), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_hello_with_addresses_is_as_documented() {
    let mut options = options(3);
    options.0.release = "r1".to_owned();
    options.0.addresses = vec!["a:1".to_owned(), "b:2".to_owned()];
    let three = start(options);
    let listener = listener();
    let address = listener.local_addr().unwrap().to_string();
    three.peers.set_member(4, vec![address]).unwrap();
    let (_, hello) = let_in(&listener, 4, URGENT);
    assert_eq!(hello, hello_with(CLUSTER, (3, 4), URGENT, "a:1 b:2"));
}
