//! Halves of large frames, and a member with room for two complete ones.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use peers::Limits;

use crate::support::{Member, frame, options, start};

const MIB: usize = 1 << 20;

/// A member with room for two large frames.
pub fn member(silence_max: Duration) -> Member {
    let mut options = options(9);
    options.0.limits = Limits {
        payload_bytes_max: 8 * MIB,
        receiving_bytes_max: 16 * MIB,
        silence_max,
        ..Limits::default()
    };
    start(options)
}

/// Sends half of a frame, as far as the other side reads it within 50 ms.
pub fn begin_frame(socket: &mut TcpStream, half: &[u8]) {
    socket
        .set_write_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let _ = socket.write_all(half);
}

pub fn half_frame() -> Vec<u8> {
    let mut whole = frame(7, 0, &vec![1; 8 * MIB]);
    whole.truncate(4 * MIB);
    whole
}
