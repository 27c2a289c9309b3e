//! Senders that must not be let in, the texts of their refusals, and bytes that are not frames.

use crate::support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use environment::randomness::Random;
use peers::{Lane, LinkError, PeersOptions, Refusal};
use support::{
    CLUSTER, Event, Member, UNACCEPTABLE, enter, frame, let_in, listener, member, read_all, start,
};

const BULK: u8 = 2;

/// Member 1, with `address` for member 2 in its table.
fn misled(address: &str) -> Member {
    let one = member(1);
    one.peers.set_member(2, vec![address.to_owned()]).unwrap();
    one
}

/// The refusal that member 1 gets on its Bulk lane.
fn refusal(one: &Member) -> (Refusal, String) {
    match one.events.disconnected(Lane::Bulk) {
        LinkError::Refused { refusal, text, .. } => (refusal, text),
        other => panic!("{other}"),
    }
}

#[test]
fn a_member_of_another_cluster_is_refused_with_both_cluster_ids() {
    let listener = listener();
    let address = listener.local_addr().unwrap().to_string();
    let _other = start((PeersOptions::new(0xc2, 2, vec![listener]), address.clone()));
    let one = misled(&address);
    let (refusal, text) = refusal(&one);
    assert_eq!(refusal, Refusal::Cluster);
    assert_eq!(
        text,
        "member 0000000000000001 belongs to cluster 00000000000000c1, this member to cluster \
         00000000000000c2; check the peer addresses and the initial cluster of both"
    );
    let error = one.peers.status(2).unwrap().lanes[1].last_error.clone();
    assert!(error.unwrap().to_string().starts_with(&address));
}

#[test]
fn a_wrong_address_is_refused_with_the_id_of_the_member_there() {
    let three = member(3);
    let (refusal, text) = refusal(&misled(&three.address));
    assert_eq!(refusal, Refusal::Member);
    assert_eq!(
        text,
        "this is member 0000000000000003, not 0000000000000002; \
         check the peer addresses of both"
    );
}

#[test]
fn a_member_with_another_agreement_is_refused_with_both_agreements() {
    let agreed = |id, agreement: &str| {
        let mut options = support::options(id);
        options.0.agreement = agreement.to_owned();
        start(options)
    };
    let (one, two) = (agreed(1, "--size=5"), agreed(2, "--size=6"));
    one.knows(2, &two);
    let (refusal, text) = refusal(&one);
    assert_eq!(refusal, Refusal::Agreement);
    assert_eq!(
        text,
        "member 0000000000000001 was created with --size=5, this member 0000000000000002 with \
         --size=6, and all members need the same; start the new member with the flag of the \
         others, in an empty directory"
    );
    // An empty agreement matches every other one, and equal ones match.
    for (dialer, listener) in [("", "--size=5"), ("--size=5", ""), ("--size=5", "--size=5")] {
        let (one, two) = (agreed(1, dialer), agreed(2, listener));
        one.knows(2, &two);
        one.events.connected(Lane::Bulk);
    }
}

#[test]
fn a_sender_with_the_id_of_the_listener_is_refused() {
    let two = member(2);
    let mut socket = TcpStream::connect(&two.address).unwrap();
    socket
        .write_all(&support::hello(CLUSTER, 2, 2, BULK))
        .unwrap();
    let answer = String::from_utf8_lossy(&read_all(&mut socket)).into_owned();
    assert!(
        answer.contains("two members must not share an id"),
        "{answer}"
    );
}

#[test]
fn an_unknown_lane_and_a_damaged_hello_are_refused() {
    let two = member(2);
    let ask = |hello: &[u8]| {
        let mut socket = TcpStream::connect(&two.address).unwrap();
        socket.write_all(hello).unwrap();
        read_all(&mut socket)
    };
    assert_eq!(ask(&support::hello(CLUSTER, 1, 2, 77))[10], 4);
    // Earlier releases dial this lane without sending anything on it.
    let retired = ask(&support::hello(CLUSTER, 1, 2, 3));
    assert_eq!(retired[10], 4);
    assert!(String::from_utf8_lossy(&retired).contains("members of both releases work together"));
    let mut damaged = support::hello(CLUSTER, 1, 2, BULK);
    damaged[20] ^= 1;
    assert_eq!(ask(&damaged)[10], 5);
}

#[test]
fn an_http_client_gets_a_page_that_explains_the_port() {
    let two = member(2);
    for request in [
        "GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut socket = TcpStream::connect(&two.address).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
            "{answer}"
        );
        let (_, page) = answer.split_once("\r\n\r\n").unwrap();
        assert!(page.contains("members of an Inkstone cluster"), "{page}");
        assert!(answer.contains(&format!("Content-Length: {}\r\n", page.len())));
    }
}

#[test]
fn connections_of_other_protocols_are_closed() {
    let two = member(2);
    let mut random = Random::from_seed(1);
    for _ in 0..50 {
        let mut socket = TcpStream::connect(&two.address).unwrap();
        let mut bytes = [0; 64];
        random.fill(&mut bytes);
        // The member may close the connection before it has read everything.
        let _ = socket.write_all(&bytes);
        assert!(read_all(&mut socket).is_empty());
    }
}

#[test]
fn dialling_another_server_fails_with_not_peers() {
    let listener = listener();
    let one = misled(&listener.local_addr().unwrap().to_string());
    let server = environment::threads::spawn("other-server", move || {
        for _ in Lane::KEPT {
            let (mut socket, _) = listener.accept().unwrap();
            socket
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .unwrap();
        }
    });
    let error = one.events.disconnected(Lane::Bulk);
    assert!(matches!(error, LinkError::NotPeers { .. }), "{error}");
    server.unwrap().join().unwrap();
}

#[test]
fn a_damaged_frame_ends_the_connection_after_the_frames_before_it_are_delivered() {
    let two = member(2);
    let mut socket = enter(&two.address, 1, 2, BULK);
    socket.write_all(&frame(1, 0, b"good")).unwrap();
    let mut damaged = frame(2, 0, b"damaged");
    damaged[14] ^= 0x20;
    socket.write_all(&damaged).unwrap();
    let _ = socket.write_all(&frame(3, 0, b"never read"));
    assert!(read_all(&mut socket).is_empty());
    let mut socket = enter(&two.address, 1, 2, BULK);
    socket.write_all(&frame(4, 0, b"a new connection")).unwrap();
    assert_eq!(two.events.message().2, 1);
    assert_eq!(two.events.message().2, 4);
}

#[test]
fn a_frame_over_the_limit_ends_the_connection_at_its_header() {
    let two = member(2);
    let mut socket = enter(&two.address, 1, 2, BULK);
    let mut header = frame(1, 0, b"");
    header[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    socket.write_all(&header).unwrap();
    assert!(read_all(&mut socket).is_empty());
}

#[test]
fn a_new_connection_of_a_lane_replaces_the_older_one() {
    let two = member(2);
    let mut older = enter(&two.address, 1, 2, BULK);
    let mut newer = enter(&two.address, 1, 2, BULK);
    assert!(read_all(&mut older).is_empty());
    newer.write_all(&frame(1, 0, b"here")).unwrap();
    assert_eq!(two.events.message().3, "here");
}

#[test]
fn a_removed_member_is_disconnected_and_refused_with_the_reason() {
    let (one, two) = (member(1), member(2));
    one.knows(2, &two);
    one.events.connected(Lane::Bulk);
    two.recorder.removed.lock().unwrap().insert(1);
    two.peers.disconnect(1);
    let (refusal, text) = one.events.wait(|event| match event {
        Event::Link(2, Lane::Bulk, Err(LinkError::Refused { refusal, text, .. })) => {
            Some((refusal, text))
        }
        _ => None,
    });
    assert_eq!(refusal, Refusal::Removed);
    assert_eq!(
        text,
        "member 0000000000000001 was removed from this cluster; \
         to use this machine again, start it as a new member in an empty directory"
    );
}

#[test]
fn a_member_that_is_removed_during_its_greetings_is_refused_on_every_lane() {
    let (one, two) = (member(1), member(2));
    *two.recorder.removed_next.lock().unwrap() = Some(1);
    one.knows(2, &two);
    let mut lanes = Lane::KEPT.to_vec();
    one.events.wait(|event| {
        if let Event::Link(2, lane, Err(LinkError::Refused { refusal, .. })) = event {
            assert_eq!(refusal, Refusal::Removed);
            lanes.retain(|waiting| *waiting != lane);
        }
        lanes.is_empty().then_some(())
    });
}

#[test]
fn an_unknown_sender_is_refused_until_the_listener_knows_it() {
    let (one, two) = (member(1), member(2));
    two.recorder.strangers.lock().unwrap().insert(1);
    one.knows(2, &two);
    let (refusal, text) = refusal(&one);
    assert_eq!(refusal, Refusal::Stranger);
    assert_eq!(
        text,
        "member 0000000000000001 is not among the members that member 0000000000000002 knows; \
         a new member is let in as soon as this one has learnt of it from a member that it \
         knows, or from one that its --initial-cluster lists"
    );
    two.recorder.strangers.lock().unwrap().clear();
    one.events.connected(Lane::Bulk);
}

#[test]
fn a_message_that_no_honest_member_sends_ends_its_connection() {
    let two = member(2);
    let mut socket = enter(&two.address, 1, 2, BULK);
    socket.write_all(&frame(7, 0, b"honest")).unwrap();
    socket.write_all(&frame(UNACCEPTABLE, 0, b"not")).unwrap();
    let _ = socket.write_all(&frame(8, 0, b"never read"));
    assert!(read_all(&mut socket).is_empty());
    assert_eq!(two.events.message().2, 7);
    let mut socket = enter(&two.address, 1, 2, BULK);
    socket.write_all(&frame(9, 0, b"a new connection")).unwrap();
    assert_eq!(two.events.message().2, 9);
}

#[test]
fn messages_of_members_outside_the_table_are_delivered() {
    let two = member(2);
    let mut socket = enter(&two.address, 99, 2, BULK);
    socket
        .write_all(&frame(1, 0, b"which members exist?"))
        .unwrap();
    assert_eq!(two.events.message().0, 99);
}

#[test]
fn bytes_from_the_listener_end_a_one_way_lane() {
    let listener = listener();
    let one = misled(&listener.local_addr().unwrap().to_string());
    let (mut socket, _) = let_in(&listener, 2, BULK);
    one.events.connected(Lane::Bulk);
    socket.write_all(b"!").unwrap();
    let error = one.events.disconnected(Lane::Bulk).to_string();
    assert!(
        error.ends_with("bytes came back on a one-way lane"),
        "{error}"
    );
}
