//! Memory of a transfer of 50 MiB in each direction. This is the only test of its process,
//! because it measures the memory of the whole process.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use bytes::Bytes;
use peers::Stream;
use support::{block_on, member};

const FRAME_BYTES: usize = 1 << 20;
const FRAMES: u8 = 50;
/// Limit for the buffers of both ends: a few frames, whatever the length of the transfer.
const MEMORY_BYTES_MAX: usize = 24 << 20;

/// Peak resident memory of this process.
#[expect(clippy::disallowed_methods, reason = "the kernel's account, no file")]
fn peak_bytes() -> usize {
    let status = std::fs::read("/proc/self/status").unwrap();
    let status = String::from_utf8(status).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes: usize = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kilobytes << 10
}

#[test]
fn a_long_transfer_both_ways_takes_little_memory() {
    let (one, two) = (member(1), member(2));
    one.knows(2, &two);
    block_on(async {
        let header = Bytes::from("snapshot");
        let mut stream = one.peers.open_stream(2, 1, header).await.unwrap();
        stream.receive().await.unwrap().unwrap();
        let before = peak_bytes();
        let Stream {
            mut sender,
            mut receiver,
        } = stream;
        let sending = async {
            for number in 0..FRAMES {
                let frame = Bytes::from(vec![number; FRAME_BYTES]);
                sender.send(number, frame).await.unwrap();
            }
            sender.finish().await.unwrap();
        };
        let receiving = async {
            for number in 0..FRAMES {
                let frame = receiver.receive().await.unwrap().unwrap();
                assert_eq!((frame.kind, frame.payload.len()), (number, FRAME_BYTES));
                assert!(frame.payload.iter().all(|byte| *byte == number));
            }
            assert_eq!(receiver.receive().await, Ok(None));
        };
        tokio::join!(sending, receiving);
        let grown = peak_bytes() - before;
        assert!(
            grown < MEMORY_BYTES_MAX,
            "{grown} bytes for 50 MiB each way"
        );
        println!("{} KiB more than before", grown >> 10);
    });
}
