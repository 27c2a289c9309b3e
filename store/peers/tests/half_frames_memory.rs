//! Memory of half-sent frames. This is the only test of its process, because the frames of
//! another test would count.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod half_frame;
mod support;

use std::time::Duration;

use half_frame::{begin_frame, half_frame, member};
use support::enter;

const LANES: [u8; 2] = [1, 2];
const MIB: usize = 1 << 20;

/// Resident memory of this process.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
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
