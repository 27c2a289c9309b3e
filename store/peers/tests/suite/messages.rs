//! Messages on the one-way lanes: order, limits, drops and reconnection.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use environment::randomness::Random;
use environment::simulated::SimulatedClock;
use peers::{Dropped, Lane, LinkError, MemberError};
use support::{Event, Member, frame, let_all_in, let_in, listener, member, options, read, start};

const URGENT: u8 = 1;
const BULK: u8 = 2;

/// Members 1 and 2; 1 has 2 in its table.
fn pair() -> (Member, Member) {
    let (one, two) = (member(1), member(2));
    one.knows(2, &two);
    (one, two)
}

fn send(from: &Member, lane: Lane, kind: u8, payload: &[u8]) -> Result<(), Dropped> {
    let payload = Bytes::copy_from_slice(payload);
    from.peers.send(2, lane, kind, &[payload])
}

#[test]
fn each_lane_keeps_its_order() {
    let (one, two) = pair();
    for number in 0..20_000_u32 {
        let lane = if number % 3 == 0 {
            Lane::Urgent
        } else {
            Lane::Bulk
        };
        send(&one, lane, 1, &number.to_le_bytes()).unwrap();
    }
    let mut last = [None, None];
    for _ in 0..20_000 {
        let (from, lane, _, payload) = two.events.message();
        assert_eq!(from, 1);
        let number = u32::from_le_bytes(payload[..].try_into().unwrap());
        let last = &mut last[usize::from(lane == Lane::Bulk)];
        assert!(last.is_none_or(|last| last < number), "{last:?} {number}");
        *last = Some(number);
    }
    let status = one.peers.status(2).unwrap();
    let sent: u64 = status.lanes.iter().map(|lane| lane.counts.sent).sum();
    assert_eq!(sent, 20_000);
    assert_eq!(two.peers.status(1).map(|status| status.received), None);
}

#[test]
fn status_shows_connections_in_both_directions() {
    let (one, two) = pair();
    two.knows(1, &one);
    for lane in Lane::KEPT {
        one.events.connected(lane);
    }
    two.events.connected(Lane::Bulk);
    two.peers.send(1, Lane::Bulk, 9, &[]).unwrap();
    one.events.message();
    let status = one.peers.status(2).unwrap();
    assert_eq!((status.received, status.received_bytes), (1, 12));
    assert_eq!(status.release.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert!(status.active_since.is_some() && status.round_trip.is_some());
    assert!(status.incoming.contains(&Lane::Bulk));
    let links = status.lanes.iter();
    assert!(links.clone().all(|lane| lane.connected_since.is_some()));
    assert!(links.clone().all(|lane| lane.last_error.is_none()));
}

#[test]
fn parts_of_all_sizes_arrive_as_one_payload() {
    let (one, two) = pair();
    let mut random = Random::from_seed(3);
    for kind in 0..100 {
        let parts: Vec<Bytes> = (0..random.below(6))
            .map(|_| {
                let mut part = vec![0; random.below(30_000) as usize];
                random.fill(&mut part);
                Bytes::from(part)
            })
            .collect();
        one.peers.send(2, Lane::Bulk, kind, &parts).unwrap();
        let (_, _, came, payload) = two.events.message();
        assert_eq!(came, kind);
        assert!(payload == parts.concat(), "message {kind}");
    }
}

#[test]
fn the_longest_message_arrives_and_a_longer_one_is_refused() {
    let (one, two) = pair();
    let longest = vec![7; 65 << 20];
    send(&one, Lane::Bulk, 1, &longest).unwrap();
    let too_long = [Bytes::from(longest.clone()), Bytes::from("!")];
    assert_eq!(
        one.peers.send(2, Lane::Bulk, 1, &too_long),
        Err(Dropped::TooLong {
            bytes: (65 << 20) + 1,
            bytes_max: 65 << 20,
        })
    );
    let (_, _, _, payload) = two.events.message();
    assert!(payload == longest);
}

#[test]
fn a_full_queue_counts_dropped_messages_and_delivers_the_queued_ones() {
    let (mut options, address) = options(1);
    options.limits.bulk_bytes_max = 1 << 20;
    let one = start((options, address));
    let listener = listener();
    let address = listener.local_addr().unwrap().to_string();
    one.peers.set_member(2, vec![address]).unwrap();
    let (mut socket, _) = let_in(&listener, 2, BULK);
    one.events.connected(Lane::Bulk);

    let message = |number: u32| {
        let mut payload = vec![1; 64 << 10];
        payload[..4].copy_from_slice(&number.to_le_bytes());
        payload
    };
    // The buffers of the system and the queue together do not hold as much.
    let (mut queued, mut dropped) = (Vec::new(), 0);
    for number in 0..2_000 {
        match send(&one, Lane::Bulk, 1, &message(number)) {
            Ok(()) => queued.push(number),
            Err(error) => {
                assert_eq!(error, Dropped::Full);
                dropped += 1;
            }
        }
        assert!(one.peers.status(2).unwrap().lanes[1].queued_bytes <= 1 << 20);
    }
    let bulk = one.peers.status(2).unwrap().lanes[1].clone();
    assert_eq!(bulk.lane, Lane::Bulk);
    assert_eq!(bulk.counts.dropped_full, dropped);
    assert!(dropped > 0, "the queue was never full");

    for number in queued {
        let expected = frame(1, 0, &message(number));
        assert!(read(&mut socket, expected.len()) == expected, "{number}");
    }
    send(&one, Lane::Bulk, 1, b"there is room again").unwrap();
    assert_eq!(read(&mut socket, 12 + 19)[12..], *b"there is room again");
}

#[test]
fn urgent_messages_arrive_while_the_bulk_lane_is_blocked() {
    let one = member(1);
    let listener = listener();
    let address = listener.local_addr().unwrap().to_string();
    one.peers.set_member(2, vec![address]).unwrap();
    let (_unread, _) = let_in(&listener, 2, BULK);
    one.events.connected(Lane::Bulk);
    let large = vec![0; 1 << 20];
    let (mut socket, _) = let_in(&listener, 2, URGENT);
    one.events.connected(Lane::Urgent);
    for number in 0..100 {
        while send(&one, Lane::Bulk, 1, &large).is_ok() {}
        send(&one, Lane::Urgent, number, b"alive").unwrap();
        assert_eq!(read(&mut socket, 12 + 5), frame(number, 0, b"alive"));
    }
}

#[test]
fn urgent_messages_above_the_age_limit_are_dropped() {
    let clock = SimulatedClock::stepped();
    let (mut options, address) = options(1);
    options.clock = Arc::new(clock.clone());
    let one = start((options, address));
    let listener = listener();
    let address = listener.local_addr().unwrap().to_string();
    one.peers.set_member(2, vec![address]).unwrap();
    // The first attempt waits for its welcome, and messages stay queued until then.
    send(&one, Lane::Urgent, 1, b"old").unwrap();
    send(&one, Lane::Bulk, 1, b"old").unwrap();
    clock.advance(Duration::from_secs(2));
    send(&one, Lane::Urgent, 2, b"new").unwrap();
    send(&one, Lane::Bulk, 2, b"new").unwrap();
    let mut sockets = let_all_in(&listener, 2);
    assert_eq!(read(&mut sockets[0], 12 + 3), frame(2, 0, b"new"));
    assert_eq!(read(&mut sockets[1], 12 + 3), frame(1, 0, b"old"));
    assert_eq!(read(&mut sockets[1], 12 + 3), frame(2, 0, b"new"));
    assert_eq!(one.peers.status(2).unwrap().lanes[0].counts.dropped_old, 1);
}

#[test]
fn messages_arrive_again_after_a_restart_of_the_member() {
    let one = member(1);
    let (options, address) = options(2);
    let again = options.listen[0].try_clone().unwrap();
    let two = start((options, address.clone()));
    one.knows(2, &two);
    send(&one, Lane::Urgent, 1, b"before").unwrap();
    assert_eq!(two.events.message().3, "before");
    two.peers.stop();
    let error = one.events.disconnected(Lane::Urgent);
    assert!(matches!(error, LinkError::Broken { .. }), "{error}");

    let options = peers::PeersOptions::new(support::CLUSTER, 2, vec![again.socket]);
    let two = start((options, address));
    one.events.connected(Lane::Urgent);
    send(&one, Lane::Urgent, 1, b"after").unwrap();
    let (_, _, _, payload) = two.events.message();
    assert_eq!(payload, "after");
}

#[test]
fn messages_to_an_unreachable_member_are_dropped_until_its_address_changes() {
    // The pause is so great that only a change of the addresses can end it.
    let patient = |id| {
        let (mut options, address) = options(id);
        options.limits.retry_min = support::PATIENCE * 10;
        options.limits.retry_max = support::PATIENCE * 10;
        (options, address)
    };
    let one = start(patient(1));
    one.peers
        .set_member(2, vec![harness::ports::free_address().unwrap()])
        .unwrap();
    let error = one.events.disconnected(Lane::Bulk);
    assert!(matches!(error, LinkError::Connect { .. }), "{error}");
    assert_eq!(
        send(&one, Lane::Bulk, 1, b"lost"),
        Err(Dropped::Unreachable)
    );
    let bulk = one.peers.status(2).unwrap().lanes[1].clone();
    assert_eq!((bulk.counts.dropped_unreachable, bulk.queued_bytes), (1, 0));
    assert_eq!(bulk.last_error, Some(error));

    // The right address starts the next attempt at once.
    let two = start(patient(2));
    one.knows(2, &two);
    one.events.connected(Lane::Bulk);
    send(&one, Lane::Bulk, 1, b"arrives").unwrap();
    assert_eq!(two.events.message().3, "arrives");
}

#[test]
fn a_member_that_dials_this_one_is_dialled_at_once() {
    let (mut options, address) = options(1);
    options.limits.retry_min = support::PATIENCE * 10;
    options.limits.retry_max = support::PATIENCE * 10;
    let one = start((options, address));
    let (options, address) = support::options(2);
    let closed = options.listen[0].try_clone().unwrap();
    // The listener closes the first connections.
    one.peers.set_member(2, vec![address.clone()]).unwrap();
    for _ in Lane::KEPT {
        drop(closed.socket.accept().unwrap());
    }
    for _ in Lane::KEPT {
        one.events.wait(|event| match event {
            Event::Link(2, _, Err(_)) => Some(()),
            _ => None,
        });
    }
    let two = start((options, address));
    two.knows(1, &one);
    one.events.connected(Lane::Urgent);
    send(&one, Lane::Urgent, 1, b"welcome back").unwrap();
    assert_eq!(two.events.message().3, "welcome back");
}

#[test]
fn addresses_are_tried_in_turn() {
    let (one, two) = (member(1), member(2));
    let addresses = vec![harness::ports::free_address().unwrap(), two.address.clone()];
    one.peers.set_member(2, addresses).unwrap();
    send(&one, Lane::Urgent, 1, b"found").unwrap();
    assert_eq!(two.events.message().3, "found");
    let status = one.peers.status(2).unwrap();
    assert_eq!(status.lanes[0].address.as_deref(), Some(&two.address[..]));
}

#[test]
fn host_names_are_resolved() {
    let (one, two) = (member(1), member(2));
    let port = two.address.rsplit_once(':').unwrap().1;
    let address = format!("localhost:{port}");
    one.peers.set_member(2, vec![address]).unwrap();
    send(&one, Lane::Urgent, 1, b"by name").unwrap();
    assert_eq!(two.events.message().3, "by name");
}

#[test]
fn messages_to_a_removed_member_are_refused() {
    let (one, two) = pair();
    one.events.connected(Lane::Urgent);
    one.peers.remove_member(2);
    assert_eq!(
        send(&one, Lane::Urgent, 1, b""),
        Err(Dropped::UnknownMember(2))
    );
    assert!(one.peers.status(2).is_none());
    one.knows(2, &two);
    send(&one, Lane::Urgent, 1, b"back").unwrap();
    assert_eq!(two.events.message().3, "back");
}

#[test]
fn invalid_members_are_not_added_to_the_table() {
    let one = member(1);
    let set = |id, address: &str| one.peers.set_member(id, vec![address.to_owned()]);
    assert_eq!(set(1, "a:1"), Err(MemberError::Own(1)));
    assert!(matches!(
        set(2, "http://a:1"),
        Err(MemberError::Address { .. })
    ));
    assert_eq!(
        one.peers.set_member(2, vec![]),
        Err(MemberError::NoAddress(2))
    );
    one.peers.stop();
    assert_eq!(set(2, "a:1"), Err(MemberError::Stopped));
    assert_eq!(send(&one, Lane::Urgent, 1, b""), Err(Dropped::Unreachable));
}
