//! Ownership of the bytes of a group buffer: one atomic word and a counter.
//!
//! ```text
//!   producers:  reserve (one compare-and-swap) ─► copy, checksum ─► commit (one add)
//!   committer:  seal (one or) ─► wait until committed == reserved ─► owns all bytes
//!               ─► write ─► open again
//!
//!   state   63      62       61 .. 38   37 .. 24        23 .. 0
//!          ┌───────┬────────┬──────────┬───────────────┬──────────────┐
//!          │sealed │bounded │ frames   │ phase in block│ room left    │
//!          └───────┴────────┴──────────┴───────────────┴──────────────┘
//! ```
//!
//! Counts are in units of 8 bytes. Room counts *down* and the phase (place
//! within the 4 KiB block of the file) rolls over, so that the word alone
//! decides a reservation: a producer that slept through a whole life of the
//! buffer and then succeeds has reserved correctly in its new life.
//!
//! **Block rule.** A frame must not touch more blocks than `ceil(len / 4096)`.
//! A frame of known length that would do so starts at the next block. A
//! shared frame's length is not known: it either starts at a block boundary
//! and grows freely, or is *bounded* by the block it started in; records that do not
//! fit there open the next frame at the boundary.
//!
//! Invariant: `committed` equals what was reserved only when no producer is
//! inside the buffer, and after `seal` none enters. `tests/loom_ledger.rs`
//! compiles this file against loom's atomics and tries every interleaving.

use crate::sync::{AtomicU64, Ordering};

/// Everything here is counted in this many bytes.
pub const UNIT_BYTES: usize = 8;
const BLOCK_UNITS: u64 = 512;
const HEADER_UNITS: u64 = 11;

const FIELD_MAX: u64 = (1 << 24) - 1;
const PHASE_SHIFT: u32 = 24;
const FRAMES_SHIFT: u32 = 38;
const BOUNDED: u64 = 1 << 62;
const SEALED: u64 = 1 << 63;

/// What a producer wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// A frame of its own of this many units, header included.
    Frame(u64),
    /// Records of this many units in the shared frame.
    Records(u64),
}

/// Why nothing was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The committer has closed this buffer; another opens.
    Sealed,
    /// It does not fit.
    Full,
}

/// A stretch that belongs to one producer until it commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Room left before: the stretch starts at `limit - room_before`.
    pub room_before: u64,
    /// Units of the stretch, gap and header included.
    pub units: u64,
    /// Unused units at its start, up to a block boundary.
    pub gap: u64,
    /// Whether a frame header follows the gap.
    pub opens_frame: bool,
    /// Which frame of the buffer it is in, from 0.
    pub frame: u64,
}

/// What the committer finds when it seals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Room left.
    pub room: u64,
    /// Frames opened.
    pub frames: u64,
}

/// Reservations of one buffer.
#[derive(Debug)]
pub struct Ledger {
    state: AtomicU64,
    /// Units that their producers have committed.
    committed: AtomicU64,
}

impl Ledger {
    /// Closed until [`Ledger::open`].
    pub fn new() -> Ledger {
        Ledger {
            state: AtomicU64::new(SEALED),
            committed: AtomicU64::new(0),
        }
    }

    /// Starts a new life: `room` units, the first of them `phase` units into a
    /// block of the file. Only for the committer, when it owns all bytes.
    pub fn open(&self, room: u64, phase: u64) {
        assert!(
            room <= FIELD_MAX && phase < BLOCK_UNITS,
            "room {room}, phase {phase}"
        );
        assert!(
            self.state.load(Ordering::Relaxed) & SEALED != 0,
            "opened twice"
        );
        self.committed.store(0, Ordering::Relaxed);
        self.state
            .store(room | phase << PHASE_SHIFT, Ordering::Release);
    }

    /// Takes what is wanted with one compare-and-swap.
    pub fn reserve(&self, want: Want) -> Result<Reserved, Refusal> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let (after, reserved) = decide(state, want)?;
            match self.state.compare_exchange_weak(
                state,
                after,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(reserved),
                Err(now) => state = now,
            }
        }
    }

    /// Gives a filled stretch to the committer.
    pub fn commit(&self, reserved: &Reserved) {
        let before = self.committed.fetch_add(reserved.units, Ordering::AcqRel);
        assert!(
            before + reserved.units <= FIELD_MAX,
            "more committed than there is room"
        );
    }

    /// Ends reservations.
    pub fn seal(&self) -> Sealed {
        let state = self.state.fetch_or(SEALED, Ordering::AcqRel);
        assert!(state & SEALED == 0, "sealed twice");
        Sealed {
            room: state & FIELD_MAX,
            frames: frames(state),
        }
    }

    /// Whether `units` are all committed: the sealed buffer's bytes may then
    /// be read.
    pub fn is_committed(&self, units: u64) -> bool {
        let committed = self.committed.load(Ordering::Acquire);
        assert!(committed <= units, "{committed} units committed of {units}");
        committed == units
    }

    /// Whether reservations have ended.
    pub fn is_sealed(&self) -> bool {
        self.state.load(Ordering::Relaxed) & SEALED != 0
    }

    /// Whether anything was reserved since it was opened.
    pub fn is_used(&self) -> bool {
        frames(self.state.load(Ordering::Relaxed)) > 0
    }

    /// Room left; `None` when reservations have ended.
    pub fn room(&self) -> Option<u64> {
        let state = self.state.load(Ordering::Acquire);
        (state & SEALED == 0).then_some(state & FIELD_MAX)
    }

    /// Frames opened so far in this life.
    pub fn frames(&self) -> u64 {
        frames(self.state.load(Ordering::Relaxed))
    }
}

fn frames(state: u64) -> u64 {
    state >> FRAMES_SHIFT & FIELD_MAX
}

fn phase(state: u64) -> u64 {
    state >> PHASE_SHIFT & (BLOCK_UNITS - 1)
}

/// Whether `want` fits into `room` units that start `phase` units into a block.
pub fn would_fit(room: u64, phase: u64, want: Want) -> bool {
    decide(room.min(FIELD_MAX) | phase << PHASE_SHIFT, want).is_ok()
}

/// Units to skip so that a frame touches no block too many.
pub fn gap_before(phase: u64, frame_units: u64) -> u64 {
    let touched = (phase + frame_units).div_ceil(BLOCK_UNITS);
    if touched > frame_units.div_ceil(BLOCK_UNITS) {
        BLOCK_UNITS - phase
    } else {
        0
    }
}

/// The state after `want`, and what was taken.
fn decide(state: u64, want: Want) -> Result<(u64, Reserved), Refusal> {
    if state & SEALED != 0 {
        return Err(Refusal::Sealed);
    }
    let room = state & FIELD_MAX;
    let (gap, opens_frame, bounded, body) = place(state, want);
    let units = gap
        + if opens_frame {
            HEADER_UNITS + body
        } else {
            body
        };
    let frames = frames(state) + u64::from(opens_frame);
    if units > room || frames > FIELD_MAX {
        return Err(Refusal::Full);
    }
    let after = (room - units)
        | (((phase(state) + units) % BLOCK_UNITS) << PHASE_SHIFT)
        | frames << FRAMES_SHIFT
        | if bounded { BOUNDED } else { 0 };
    Ok((
        after,
        Reserved {
            room_before: room,
            units,
            gap,
            opens_frame,
            frame: frames - 1,
        },
    ))
}

/// Gap, whether a frame is opened, whether it is bounded, units of records.
fn place(state: u64, want: Want) -> (u64, bool, bool, u64) {
    let phase = phase(state);
    match want {
        Want::Frame(units) => {
            assert!(units >= HEADER_UNITS, "a frame has a header");
            (gap_before(phase, units), true, false, units - HEADER_UNITS)
        }
        Want::Records(units) => {
            let open = frames(state) > 0;
            let fits_block = phase != 0 && phase + units <= BLOCK_UNITS;
            if open && (state & BOUNDED == 0 || fits_block) {
                return (0, false, state & BOUNDED != 0, units);
            }
            let fits_with_header = phase + HEADER_UNITS + units <= BLOCK_UNITS;
            match (open, phase) {
                (_, 0) => (0, true, false, units),
                (false, _) if fits_with_header => (0, true, true, units),
                _ => (BLOCK_UNITS - phase, true, false, units),
            }
        }
    }
}
