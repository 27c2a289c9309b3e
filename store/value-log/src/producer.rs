//! The appending side: reserve, copy and checksum in place, commit, ring.
//!
//! The fast way takes no lock. An append that does not fit (the buffer or the segment is
//! full, the frame is larger than a buffer) goes through `control` and waits
//! for the committer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::body::Body;
use crate::buffer::Slot;
use crate::format::{BLOCK_BYTES, FRAME_HEADER_BYTES, FRAMES_START};
use crate::frame::{encode_group, encode_records};
use crate::ledger::{Refusal, UNIT_BYTES, Want, would_fit};
use crate::log_state::{LargeFrame, LogState, NO_BUFFER, Placed, Rotation};
use crate::record::records_bytes;
use crate::{Appended, Error, Position, Record, Tag};

/// Times to look again while the committer swaps buffers, which takes it a
/// few dozen instructions, before waiting for it properly.
const SWAP_LOOKS: usize = 64;

impl LogState {
    /// Appends to the frame that all producers share.
    pub fn append_shared(&self, records: &[Record<'_>]) -> Result<Appended, Error> {
        let body = records_bytes(records);
        if self.is_large(FRAME_HEADER_BYTES + body)? {
            return self.append_bodies(Tag::default(), &[&Body::encode(records)]);
        }
        let slot = self.reserve(Want::Records((body / UNIT_BYTES) as u64))?;
        let header = if slot.opens_frame() {
            FRAME_HEADER_BYTES
        } else {
            0
        };
        let start = slot.gap_bytes() + header;
        slot.bytes[..start].fill(0);
        let first = slot.position.offset() + start as u64;
        let place = |at: usize| Position::new(slot.position.segment(), first + at as u64);
        let mut positions = Vec::with_capacity(records.len());
        encode_records(&mut slot.bytes[start..], records, |at| {
            positions.push(place(at))
        });
        let appended = Appended {
            sequence: slot.sequence,
            start: place(0),
            positions,
            end_offset: first + body as u64,
        };
        self.hand_over(slot);
        Ok(appended)
    }

    /// Appends a frame of its own.
    pub fn append_bodies(&self, tag: Tag, bodies: &[&Body]) -> Result<Appended, Error> {
        let bytes = FRAME_HEADER_BYTES + body_bytes(bodies);
        let (sequence, start) = if self.is_large(bytes)? {
            let mut frame = vec![0; bytes];
            encode_group(&mut frame, tag, bodies);
            self.place_large(frame)?
        } else {
            let slot = self.reserve(Want::Frame((bytes / UNIT_BYTES) as u64))?;
            let gap = slot.gap_bytes();
            slot.bytes[..gap].fill(0);
            encode_group(&mut slot.bytes[gap..], tag, bodies);
            let start = slot.position.offset() + gap as u64;
            let placed = (slot.sequence, Position::new(slot.position.segment(), start));
            self.hand_over(slot);
            placed
        };
        let mut first = start.offset() + FRAME_HEADER_BYTES as u64;
        let mut positions = Vec::new();
        for body in bodies {
            let place = |at: usize| Position::new(start.segment(), first + at as u64);
            positions.extend(body.offsets().map(place));
            first += body.bytes().len() as u64;
        }
        Ok(Appended {
            sequence,
            start,
            positions,
            end_offset: first,
        })
    }

    fn hand_over(&self, slot: Slot<'_>) {
        slot.commit();
        self.doorbell.ring();
    }

    /// Whether a frame goes through `control`; an error when no segment holds it.
    fn is_large(&self, frame_bytes: usize) -> Result<bool, Error> {
        let limit_bytes = self.pool.segment_bytes() - FRAMES_START;
        if frame_bytes as u64 > limit_bytes {
            return Err(Error::TooLarge {
                bytes: frame_bytes as u64,
                limit_bytes,
            });
        }
        Ok(frame_bytes + BLOCK_BYTES as usize > self.options.group_bytes_max)
    }

    fn reserve(&self, want: Want) -> Result<Slot<'_>, Error> {
        for _ in 0..SWAP_LOOKS {
            match self.try_reserve(want) {
                Ok(slot) => return Ok(slot),
                Err(Refusal::Full) => break,
                Err(Refusal::Sealed) => std::hint::spin_loop(),
            }
        }
        self.reserve_slowly(want)
    }

    fn try_reserve(&self, want: Want) -> Result<Slot<'_>, Refusal> {
        match self.open_buffer.load(Ordering::Acquire) {
            NO_BUFFER => Err(Refusal::Sealed),
            index => self.buffers[index].reserve(want),
        }
    }

    /// Asks the committer for room and waits until it has opened a buffer.
    fn reserve_slowly(&self, want: Want) -> Result<Slot<'_>, Error> {
        // Refusals before this want was registered.
        let mut asked = None;
        let mut control = self.control.lock();
        loop {
            if let Some(failure) = self.progress.failure() {
                return Err(failure);
            }
            match self.try_reserve(want) {
                Ok(slot) => return Ok(slot),
                Err(Refusal::Full) => {
                    let refusal = asked.and_then(|before| control.refusal_since(before, want));
                    if let Some(refusal) = refusal {
                        return Err(refusal);
                    }
                    asked = Some(control.refusals());
                    control.want(want);
                    self.order();
                }
                Err(Refusal::Sealed) => {}
            }
            let generation = control.generation;
            while control.generation == generation && self.progress.failure().is_none() {
                control = self.wait_served(control);
            }
        }
    }

    /// Lets the committer write a frame and waits for its place.
    fn place_large(&self, bytes: Vec<u8>) -> Result<(crate::Sequence, Position), Error> {
        let placed = Placed::default();
        let mut control = self.control.lock();
        if let Some(failure) = self.progress.failure() {
            return Err(failure);
        }
        control.large.push_back(LargeFrame {
            bytes,
            placed: Arc::clone(&placed),
        });
        self.order();
        loop {
            if let Some(result) = placed.get() {
                return result.clone();
            }
            if let Some(failure) = self.progress.failure() {
                return Err(failure);
            }
            control = self.wait_served(control);
        }
    }

    /// Makes sure that a frame with `body_bytes` of records can be appended
    /// next: in what is left of the segment, or in the one behind it. While that one cannot be
    /// made, or the log is small, `kept_bytes` of the segment are left free.
    pub fn make_room(&self, body_bytes: usize, kept_bytes: usize) -> Result<(), Error> {
        let bytes = FRAME_HEADER_BYTES + body_bytes;
        self.is_large(bytes)?;
        if self.pool.has_whole_next() {
            return Ok(());
        }
        let kept_bytes = if self.pool.lacks_next() {
            kept_bytes
        } else {
            0
        };
        // A group that fills a segment leaves nothing of it free.
        let frame_bytes_max = (self.pool.segment_bytes() - FRAMES_START) as usize;
        let wanted_bytes = (bytes + kept_bytes).min(frame_bytes_max);
        let want = Want::Frame((wanted_bytes / UNIT_BYTES) as u64);
        if self.fits_behind_all(want) {
            return Ok(());
        }
        self.rotate(Rotation::for_room(want))
    }

    /// Whether `want` fits behind everything that was appended, as far as that is known at once.
    fn fits_behind_all(&self, want: Want) -> bool {
        let index = self.open_buffer.load(Ordering::Acquire);
        if index == NO_BUFFER {
            return false;
        }
        let Some((segment, end)) = self.buffers[index].end() else {
            return false;
        };
        let is_open = self.open_buffer.load(Ordering::Acquire) == index;
        let active = self.segments.get(segment).filter(|_| is_open);
        active.is_some_and(|active| {
            let room = active.ready_bytes().saturating_sub(end) / UNIT_BYTES as u64;
            would_fit(room, end / UNIT_BYTES as u64 % 512, want)
        })
    }

    /// Lets the committer enter the next segment or make room, and waits for it.
    pub fn rotate(&self, rotation: Rotation) -> Result<(), Error> {
        let mut control = self.control.lock();
        let turn = control.want_rotation(rotation);
        self.order();
        while control.rotations_done < turn {
            if let Some(failure) = self.progress.failure() {
                return Err(failure);
            }
            control = self.wait_served(control);
        }
        match &control.refusal {
            Some(refusal) if control.rotations_refused >= turn => Err(refusal.clone()),
            _ => Ok(()),
        }
    }
}

fn body_bytes(bodies: &[&Body]) -> usize {
    bodies.iter().map(|body| body.bytes().len()).sum()
}
