//! Frames of which a sender sends only the first part.

use crate::half_frame;
use crate::support;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use half_frame::{begin_frame, half_frame, member};
use peers::Refusal;
use support::{enter, frame, options, read_all, start};

const MIB: usize = 1 << 20;

#[test]
fn a_half_sent_frame_times_out_and_frees_its_room_for_another() {
    let nine = member(Duration::from_secs(3));
    let mut half = enter(&nine.address, 1, 9, 1);
    begin_frame(&mut half, &half_frame());
    let mut whole = enter(&nine.address, 1, 9, 2);
    let large = frame(9, 0, &vec![1; 8 * MIB]);
    // This frame is not read until the half frame's connection has been closed.
    let writer = environment::threads::spawn("writer", move || whole.write_all(&large));
    assert!(read_all(&mut half).is_empty(), "the connection was closed");
    assert_eq!(nine.events.message().2, 9);
    writer.unwrap().join().unwrap().unwrap();
}

#[test]
fn silent_connections_do_not_keep_members_out() {
    let mut options = options(9);
    options.0.limits.greetings_max = 8;
    options.0.limits.greeting_timeout = Duration::from_secs(600);
    let nine = start(options);
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(&nine.address).unwrap())
        .collect();
    nine.recorder.strangers.lock().unwrap().insert(1);
    let one = support::member(1);
    one.knows(9, &nine);
    let error = one.events.disconnected(peers::Lane::Bulk);
    let is_answered = matches!(
        error,
        peers::LinkError::Refused {
            refusal: Refusal::Stranger,
            ..
        }
    );
    assert!(is_answered, "{error}");
    nine.recorder.strangers.lock().unwrap().clear();
    one.events.connected(peers::Lane::Bulk);
    drop(silent);
}
