//! What the ledger hands out, one thread at a time.

use crate::ledger::*;

const BLOCK_UNITS: u64 = 512;

fn opened(room: u64, phase: u64) -> Ledger {
    let ledger = Ledger::new();
    ledger.open(room, phase);
    ledger
}

/// First and last unit of each frame reserved, in file units.
fn frames_of(reserved: &[Reserved], phase: u64, limit: u64) -> Vec<(u64, u64)> {
    let mut frames: Vec<(u64, u64)> = Vec::new();
    for one in reserved {
        let start = phase + limit - one.room_before + one.gap;
        let end = phase + limit - one.room_before + one.units;
        match frames.last_mut() {
            Some(last) if !one.opens_frame => last.1 = end,
            _ => frames.push((start, end)),
        }
    }
    frames
}

#[test]
fn no_frame_touches_a_block_too_many() {
    for phase in 0..BLOCK_UNITS {
        for units in [11, 20, 100, 501, 512, 513, 700, 1024, 1500] {
            for shared in [false, true] {
                let ledger = opened(100_000, phase);
                let want = if shared {
                    Want::Records(units)
                } else {
                    Want::Frame(units)
                };
                let all: Vec<Reserved> = (0..8).map(|_| ledger.reserve(want).unwrap()).collect();
                for (start, end) in frames_of(&all, phase, 100_000) {
                    let touched = end.div_ceil(BLOCK_UNITS) - start / BLOCK_UNITS;
                    let least = (end - start).div_ceil(BLOCK_UNITS);
                    assert_eq!(touched, least, "phase {phase}, units {units}, {shared}");
                }
            }
        }
    }
}

#[test]
fn a_shared_buffer_opens_at_most_two_frames() {
    let ledger = opened(10_000, 400);
    let frames: Vec<u64> = (0..30)
        .map(|_| ledger.reserve(Want::Records(20)).unwrap().frame)
        .collect();
    assert_eq!((frames[0], frames[29]), (0, 1));
    assert_eq!(ledger.frames(), 2);
}

#[test]
fn full_refuses_and_a_smaller_wish_still_fits() {
    let ledger = opened(100, 0);
    assert_eq!(ledger.reserve(Want::Frame(101)), Err(Refusal::Full));
    assert!(ledger.reserve(Want::Frame(60)).is_ok());
    assert_eq!(ledger.reserve(Want::Frame(41)), Err(Refusal::Full));
    assert!(ledger.reserve(Want::Frame(40)).is_ok());
    assert_eq!(ledger.seal(), Sealed { room: 0, frames: 2 });
    assert_eq!(ledger.reserve(Want::Frame(11)), Err(Refusal::Sealed));
}
