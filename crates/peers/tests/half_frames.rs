//! Frames that begin and do not end.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use peers::{Limits, Refusal};
use support::{Member, enter, frame, options, read_all, start};

const LANES: [u8; 2] = [1, 2];
const MIB: usize = 1 << 20;

/// A member with room for two large frames.
fn member(silence_max: Duration) -> Member {
    let mut options = options(9);
    options.0.limits = Limits {
        payload_bytes_max: 8 * MIB,
        receiving_bytes_max: 16 * MIB,
        silence_max,
        ..Limits::default()
    };
    start(options)
}

/// Sends half of a frame, as far as the other side takes it within a moment.
fn begin_frame(socket: &mut TcpStream, half: &[u8]) {
    socket
        .set_write_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let _ = socket.write_all(half);
}

fn half_frame() -> Vec<u8> {
    let mut whole = frame(7, 0, &vec![1; 8 * MIB]);
    whole.truncate(4 * MIB);
    whole
}

/// The memory that this process has.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
#[cfg(target_os = "linux")]
fn many_half_frames_take_no_more_memory_than_the_bound() {
    let nine = member(Duration::from_secs(60));
    let mut sockets = Vec::new();
    for sender in 11..41 {
        for lane in LANES {
            sockets.push(enter(&nine.address, sender, 9, lane));
        }
    }
    let half = half_frame();
    let before = resident_bytes();
    // 60 halves of 4 MiB are 240 MiB.
    for socket in &mut sockets {
        begin_frame(socket, &half);
    }
    let more = resident_bytes().saturating_sub(before);
    assert!(more < 64 * MIB, "{} MiB", more / MIB);
}

#[test]
fn a_half_sent_frame_ends_and_another_that_waited_for_its_room_comes_through() {
    let nine = member(Duration::from_secs(3));
    let mut half = enter(&nine.address, 1, 9, 1);
    begin_frame(&mut half, &half_frame());
    let mut whole = enter(&nine.address, 1, 9, 2);
    let large = frame(9, 0, &vec![1; 8 * MIB]);
    // It is not read until the half has been given up.
    let writer = environment::threads::spawn("writer", move || whole.write_all(&large));
    assert!(read_all(&mut half).is_empty(), "it was given up");
    assert_eq!(nine.events.message().2, 9);
    writer.unwrap().join().unwrap().unwrap();
}

#[test]
fn strangers_that_say_nothing_keep_no_member_out() {
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
    let told = one.events.disconnected(peers::Lane::Bulk);
    let is_heard = matches!(
        told,
        peers::LinkError::Refused {
            refusal: Refusal::Stranger,
            ..
        }
    );
    assert!(is_heard, "{told}");
    nine.recorder.strangers.lock().unwrap().clear();
    one.events.connected(peers::Lane::Bulk);
    drop(silent);
}
