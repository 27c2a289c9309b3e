//! Questions and answers, and what a caller learns when there is no answer.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io::Write;

use bytes::Bytes;
use peers::{CallError, Lane};
use support::{
    Event, Member, block_on, enter, frame, let_in, listener, member, options, read, start,
};

const REQUEST: u8 = 3;

/// Members 1 and 2; 1 knows 2.
fn pair() -> (Member, Member) {
    let (one, two) = (member(1), member(2));
    one.knows(2, &two);
    (one, two)
}

/// Member 1 with a listener of the test in the place of member 2.
fn alone() -> (Member, std::net::TcpListener) {
    let one = member(1);
    let listener = listener();
    let address = listener.local_addr().unwrap().to_string();
    one.peers.set_member(2, vec![address]).unwrap();
    (one, listener)
}

#[test]
fn an_answer_comes_back() {
    let (one, two) = pair();
    let answer = block_on(one.peers.call(2, 5, Bytes::from("echo")));
    assert_eq!(answer, Ok(Bytes::from("echo")));
    assert_eq!(two.events.request(), (1, 5, Bytes::from("echo")));
}

#[test]
fn a_refusal_comes_back_with_its_reason() {
    let (one, two) = pair();
    let held = two.recorder.hold(5);
    held.send(Err(Bytes::from("not the leader"))).unwrap();
    let answer = block_on(one.ask(2, 5, b"lead"));
    assert_eq!(
        answer,
        Err(CallError::Refused(Bytes::from("not the leader")))
    );
}

#[test]
fn large_requests_and_answers_arrive() {
    let (one, _two) = pair();
    let body = Bytes::from(vec![3; 20 << 20]);
    let answer = block_on(one.peers.call(2, 5, body.clone()));
    assert!(answer.unwrap() == body);
}

#[test]
fn answers_come_in_any_order() {
    let (one, two) = pair();
    let slow = two.recorder.hold(1);
    let slow_call = one.ask(2, 1, b"slow");
    for number in 0..100_u8 {
        let answer = block_on(one.ask(2, 2, &[number]));
        assert_eq!(answer.unwrap()[..], [number]);
    }
    slow.send(Ok(Bytes::from("at last"))).unwrap();
    assert_eq!(block_on(slow_call), Ok(Bytes::from("at last")));
}

#[test]
fn many_calls_are_under_way_at_once() {
    let (one, _two) = pair();
    let calls: Vec<_> = (0..5_000_u32)
        .map(|number| one.ask(2, 1, &number.to_le_bytes()))
        .collect();
    for (number, call) in calls.into_iter().enumerate().rev() {
        assert_eq!(block_on(call).unwrap()[..], (number as u32).to_le_bytes());
    }
    let requests = &one.peers.status(2).unwrap().lanes[2];
    assert_eq!((requests.counts.sent, requests.queued_bytes), (5_000, 0));
}

#[test]
fn a_dropped_call_is_cancelled_at_the_other_end() {
    let (one, two) = pair();
    let _held = two.recorder.hold(1);
    let call = one.ask(2, 1, b"never mind");
    two.events.request();
    drop(call);
    two.events.wait(|event| match event {
        Event::Dropped(1) => Some(()),
        _ => None,
    });
    let answer = block_on(one.ask(2, 2, b"still there?"));
    assert_eq!(answer, Ok(Bytes::from("still there?")));
}

#[test]
fn a_call_that_was_dropped_before_it_went_out_is_never_sent() {
    let (one, listener) = alone();
    drop(one.ask(2, 1, b"dropped"));
    let _kept = one.ask(2, 1, b"kept");
    let (mut socket, _) = let_in(&listener, 2, REQUEST);
    assert_eq!(read(&mut socket, 12 + 8 + 4)[20..], *b"kept");
}

#[test]
fn a_connection_that_breaks_leaves_open_what_happened() {
    let (one, listener) = alone();
    let call = one.ask(2, 1, b"did you?");
    let (mut socket, _) = let_in(&listener, 2, REQUEST);
    read(&mut socket, 12 + 8 + 8);
    drop(socket);
    let answer = block_on(call);
    let reason = "the member closed it".to_owned();
    assert_eq!(answer, Err(CallError::Broken { member: 2, reason }));
}

#[test]
fn a_member_that_cannot_be_reached_has_certainly_done_nothing() {
    let (one, listener) = alone();
    let waiting = one.ask(2, 1, b"waits for the first attempt");
    drop(listener);
    assert!(matches!(
        block_on(waiting),
        Err(CallError::Unreachable { member: 2, .. })
    ));
    let answer = block_on(one.peers.call(2, 1, Bytes::from("at once")));
    assert!(
        matches!(answer, Err(CallError::Unreachable { member: 2, .. })),
        "{answer:?}"
    );
    let answer = block_on(one.peers.call(3, 1, Bytes::new()));
    assert_eq!(answer, Err(CallError::UnknownMember(3)));
}

#[test]
fn a_removed_member_and_a_stop_end_calls() {
    let (one, two) = pair();
    let (_first, _second) = (two.recorder.hold(1), two.recorder.hold(2));
    let call = one.ask(2, 1, b"");
    two.events.request();
    one.peers.remove_member(2);
    assert!(matches!(block_on(call), Err(CallError::Broken { .. })));

    one.knows(2, &two);
    let call = one.ask(2, 2, b"");
    two.events.request();
    one.peers.stop();
    assert!(matches!(block_on(call), Err(CallError::Broken { .. })));
    let answer = block_on(one.peers.call(2, 1, Bytes::new()));
    assert!(
        matches!(answer, Err(CallError::Unreachable { .. })),
        "{answer:?}"
    );
}

#[test]
fn a_handler_that_panics_leaves_open_what_happened() {
    let (one, two) = pair();
    drop(two.recorder.hold(1));
    let reason = "the handler ended without one".to_owned();
    let answer = block_on(one.ask(2, 1, b"panic"));
    assert_eq!(answer, Err(CallError::Broken { member: 2, reason }));
    assert!(block_on(one.ask(2, 2, b"others go on")).is_ok());
}

#[test]
fn the_caller_has_a_limit() {
    let (mut options, address) = options(1);
    options.limits.requests_max = 2;
    options.limits.request_bytes_max = 100;
    let (one, two) = (start((options, address)), member(2));
    one.knows(2, &two);
    let _held = two.recorder.hold(1);
    let first = one.ask(2, 1, &[0; 90]);
    let full = Err(CallError::Overloaded(2));
    assert_eq!(
        block_on(one.peers.call(2, 1, Bytes::from(vec![0; 11]))),
        full
    );
    let second = one.ask(2, 2, &[0; 10]);
    assert_eq!(block_on(one.peers.call(2, 1, Bytes::new())), full);
    block_on(second).unwrap();
    drop(first);
    assert!(block_on(one.peers.call(2, 2, Bytes::from(vec![0; 100]))).is_ok());
}

#[test]
fn the_handler_s_end_has_a_limit_of_its_own() {
    let (mut options, address) = options(2);
    options.limits.requests_max = 1;
    let (one, two) = (member(1), start((options, address)));
    one.knows(2, &two);
    let held = two.recorder.hold(1);
    let first = one.ask(2, 1, b"first");
    two.events.request();
    let second = block_on(one.ask(2, 2, b"second"));
    assert_eq!(second, Err(CallError::Overloaded(2)));
    held.send(Ok(Bytes::from("done"))).unwrap();
    assert_eq!(block_on(first), Ok(Bytes::from("done")));
    assert!(block_on(one.ask(2, 2, b"third")).is_ok());
}

#[test]
fn too_long_a_body_is_refused_and_too_long_an_answer_is_none() {
    let (mut options, address) = options(1);
    options.limits.payload_bytes_max = 10;
    let (one, two) = (start((options, address)), member(2));
    one.knows(2, &two);
    two.knows(1, &one);
    let long = Bytes::from(vec![0; 11]);
    assert_eq!(
        block_on(one.peers.call(2, 1, long.clone())),
        Err(CallError::TooLong {
            bytes: 11,
            bytes_max: 10,
        })
    );
    let answer = one.recorder.hold(1);
    answer.send(Ok(long)).unwrap();
    let reason = "its answer has 11 bytes, at most 10 are allowed".to_owned();
    assert_eq!(
        block_on(two.ask(1, 1, b"short")),
        Err(CallError::Broken { member: 1, reason })
    );
}

#[test]
fn a_request_without_a_number_ends_the_connection() {
    let two = member(2);
    let mut socket = enter(&two.address, 1, 2, REQUEST);
    socket.write_all(&frame(1, 0, b"short")).unwrap();
    assert!(support::read_all(&mut socket).is_empty());
}

#[test]
fn an_answer_that_nobody_waits_for_is_passed_over() {
    let (one, listener) = alone();
    let call = one.ask(2, 1, b"x");
    let (mut socket, _) = let_in(&listener, 2, REQUEST);
    one.events.connected(Lane::Request);
    read(&mut socket, 12 + 8 + 1);
    let answer = |number: u64| frame(1, 1, &[&number.to_le_bytes()[..], b"!"].concat());
    socket.write_all(&answer(77)).unwrap();
    socket.write_all(&answer(1)).unwrap();
    assert_eq!(block_on(call), Ok(Bytes::from("!")));
}
