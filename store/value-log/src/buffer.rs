//! A group buffer: memory that several producers fill at once.
//!
//! The only unsafe code of the crate, but for the committer's promise to be the only one
//! that drains and opens a buffer. The [`Ledger`] hands out stretches that
//! do not overlap; this module turns a stretch into the `&mut [u8]` that its
//! owner may fill, and the whole into the `&mut [u8]` that the committer may
//! read once everyone is done.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ledger::{Ledger, Refusal, Reserved, Sealed, UNIT_BYTES, Want};
use crate::{Position, Sequence};

/// Memory, its reservations and where it lies in the log.
///
/// The committer writes the numbers before it opens the buffer, and they are constant until
/// the buffer is sealed and drained; so they may be read between a reservation and its commit.
pub(crate) struct Buffer {
    memory: Box<[UnsafeCell<u8>]>,
    ledger: Ledger,
    /// Units of room at opening.
    limit: AtomicU64,
    /// Position of the buffer's first byte.
    base: AtomicU64,
    /// Sequence of the buffer's first frame.
    first_sequence: AtomicU64,
    /// Where the shared frame before the block boundary ended, in units; 0
    /// when there was none. Written by the producer that opened the second.
    split: AtomicU64,
}

// SAFETY: `memory` is reached only through `Slot`s, with stretches that the ledger
// keeps apart, and through `Drained`, of which the committer holds one at most
// and only after every slot was committed.
unsafe impl Sync for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Buffer")
            .field("ledger", &self.ledger)
            .field("limit", &self.limit)
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

/// A stretch of the buffer that one producer fills.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    buffer: &'a Buffer,
    reserved: Reserved,
    /// The stretch: gap, then a frame header when it opens a frame, records.
    pub bytes: &'a mut [u8],
    /// Where the stretch starts.
    pub position: Position,
    /// The frame it is in.
    pub sequence: Sequence,
}

impl Slot<'_> {
    /// Bytes to leave zero at the start.
    pub fn gap_bytes(&self) -> usize {
        self.reserved.gap as usize * UNIT_BYTES
    }

    /// Whether a frame header's place follows the gap.
    pub fn opens_frame(&self) -> bool {
        self.reserved.opens_frame
    }

    /// Hands the filled stretch over.
    pub fn commit(self) {
        self.buffer.ledger.commit(&self.reserved);
    }
}

/// A sealed buffer after all its producers are done.
#[derive(Debug)]
pub(crate) struct Drained<'a> {
    /// All that was reserved.
    pub bytes: &'a mut [u8],
    /// Position of the first byte.
    pub base: Position,
    /// Sequence of the first frame.
    pub first_sequence: Sequence,
    /// Bytes of the shared frame before the split; 0 when there was none.
    pub split_bytes: usize,
}

impl Buffer {
    /// A closed buffer.
    pub fn new(bytes: usize) -> Buffer {
        assert!(bytes.is_multiple_of(UNIT_BYTES), "whole units");
        let memory = (0..bytes).map(|_| UnsafeCell::new(0)).collect();
        Buffer {
            memory,
            ledger: Ledger::new(),
            limit: AtomicU64::default(),
            base: AtomicU64::default(),
            first_sequence: AtomicU64::default(),
            split: AtomicU64::default(),
        }
    }

    /// Starts at `base` with room for `room_bytes` in the segment.
    ///
    /// # Safety
    /// Nothing that [`Buffer::drained`] has returned is alive: producers get the same
    /// bytes from now on.
    pub unsafe fn open(&self, base: Position, room_bytes: u64, first_sequence: Sequence) {
        let limit = (room_bytes as usize).min(self.memory.len()) / UNIT_BYTES;
        self.limit.store(limit as u64, Ordering::Relaxed);
        self.base.store(base.to_bits(), Ordering::Relaxed);
        self.first_sequence
            .store(first_sequence.0, Ordering::Relaxed);
        self.split.store(0, Ordering::Relaxed);
        let phase = base.offset() / UNIT_BYTES as u64 % 512;
        self.ledger.open(limit as u64, phase);
    }

    /// Takes a stretch.
    pub fn reserve(&self, want: Want) -> Result<Slot<'_>, Refusal> {
        let reserved = self.ledger.reserve(want)?;
        let start = self.limit.load(Ordering::Relaxed) - reserved.room_before;
        if reserved.frame > 0 && matches!(want, Want::Records(_)) && reserved.opens_frame {
            self.split.store(start, Ordering::Relaxed);
        }
        let base = Position::from_bits(self.base.load(Ordering::Relaxed));
        let first_sequence = self.first_sequence.load(Ordering::Relaxed);
        let start = start as usize * UNIT_BYTES;
        let length = reserved.units as usize * UNIT_BYTES;
        Ok(Slot {
            buffer: self,
            reserved,
            // SAFETY: the ledger gave this stretch to no other producer since it was
            // opened, and the committer waits for its commit.
            bytes: unsafe { self.stretch(start, length) },
            position: Position::new(base.segment(), base.offset() + start as u64),
            sequence: Sequence(first_sequence + reserved.frame),
        })
    }

    /// Whether there is anything to write.
    pub fn is_used(&self) -> bool {
        self.ledger.is_used()
    }

    /// Sequence of the newest frame in it.
    pub fn last_sequence(&self) -> Sequence {
        let first = self.first_sequence.load(Ordering::Relaxed);
        Sequence((first + self.ledger.frames()).saturating_sub(1))
    }

    /// Segment and offset behind all that was reserved so far; `None` when the buffer is closed or has
    /// no room, or changes just now. For the only producer of a log.
    pub fn end(&self) -> Option<(u32, u64)> {
        let room = self.ledger.room()?;
        let base = Position::from_bits(self.base.load(Ordering::Relaxed));
        let used = self.limit.load(Ordering::Relaxed).checked_sub(room)?;
        let is_the_same = self.ledger.room() == Some(room);
        let end = base.offset() + used * UNIT_BYTES as u64;
        (is_the_same && base.offset() > 0).then_some((base.segment(), end))
    }

    /// Ends reservations; returns the bytes reserved and the frames opened.
    pub fn seal(&self) -> (usize, u64) {
        let Sealed { room, frames } = self.ledger.seal();
        let used = self.limit.load(Ordering::Relaxed) - room;
        (used as usize * UNIT_BYTES, frames)
    }

    /// Whether all producers of the sealed buffer are done.
    pub fn is_committed(&self, used_bytes: usize) -> bool {
        self.ledger.is_committed((used_bytes / UNIT_BYTES) as u64)
    }

    /// The contents of the sealed buffer, all of it committed.
    ///
    /// # Safety
    /// No other [`Drained`] of this buffer is alive, and the buffer is not opened before
    /// this one is dropped.
    pub unsafe fn drained(&self, used_bytes: usize) -> Drained<'_> {
        assert!(
            self.ledger.is_sealed() && self.is_committed(used_bytes),
            "{self:?} is in use"
        );
        Drained {
            // SAFETY: sealed and fully committed: no producer holds a slot or
            // can get one before the buffer is opened again, which the caller
            // rules out, as it does a second `Drained`.
            bytes: unsafe { self.stretch(0, used_bytes) },
            base: Position::from_bits(self.base.load(Ordering::Relaxed)),
            first_sequence: Sequence(self.first_sequence.load(Ordering::Relaxed)),
            split_bytes: self.split.load(Ordering::Relaxed) as usize * UNIT_BYTES,
        }
    }

    /// # Safety
    /// No other reference to any byte of the stretch is alive.
    #[expect(clippy::mut_from_ref, reason = "the ledger keeps the stretches apart")]
    unsafe fn stretch(&self, start: usize, length: usize) -> &mut [u8] {
        let cells = &self.memory[start..start + length];
        // SAFETY: the cells are initialised and contiguous, `UnsafeCell<u8>`
        // has the layout of `u8`, and the caller vouches for exclusiveness.
        unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(cells.as_ptr()), length) }
    }
}
