//! Shortages: members run out of disk space, of their quota or of descriptors for a while.
//!
//! A shortage must not make a member fail: `look_at_failure` panics if it does. A member that
//! cannot start for lack of space or descriptors tries again at the end of the shortage.

use std::path::Path;
use std::time::Duration;

use environment::Disk;
use environment::randomness::Random;

use crate::World;
use crate::member::{DIRECTORY, Member};

/// EMFILE, ENFILE and ENOMEM of Linux.
const NUMBERS: [i32; 3] = [24, 23, 12];
/// Capacity without a shortage, more than any member writes.
const ENOUGH_BYTES: u64 = 1 << 40;
/// Greatest free space during a shortage.
const LEFT_BYTES_MAX: u64 = 256 << 10;
const SHORTAGE_MILLISECONDS_MAX: u64 = 2_000;

impl World {
    /// Begins a shortage at a member, or at all of them.
    pub(crate) fn strike_shortage(&mut self, at: usize) {
        let permille = self.faults.shortage_permille;
        // Nothing is drawn in runs without shortages, so that their seeds keep their runs.
        if permille == 0 || !self.random.chance(permille, 1000) {
            return;
        }
        let length = self.random.below(SHORTAGE_MILLISECONDS_MAX);
        let until = self.now + Duration::from_millis(length);
        let all = self.random.chance(1, 6);
        for (number, member) in self.members.iter_mut().enumerate() {
            if all || number == at {
                member.run_short(until, &mut self.random);
            }
        }
        self.counts.shortages += 1;
    }

    /// Ends the shortages that are over.
    pub(crate) fn end_shortages(&mut self) {
        for member in &mut self.members {
            if member.short_until.is_some_and(|until| until <= self.now) {
                member.have_enough();
            }
        }
    }
}

impl Member {
    fn run_short(&mut self, until: Duration, random: &mut Random) {
        if self.short_until.is_some() || self.has_gone || self.disk.has_crashed() {
            return;
        }
        let Some(used) = self.used_bytes() else {
            return;
        };
        let limit = used + random.below(LEFT_BYTES_MAX);
        match random.below(3) {
            0 => self.disk.fail_opens(Some(*random.pick(&NUMBERS))),
            1 => self.disk.set_capacity(limit),
            _ => self.disk.set_quota(Some(limit)),
        }
        self.short_until = Some(until);
    }

    /// Space that the member's files occupy; `None` before its first start.
    fn used_bytes(&self) -> Option<u64> {
        let space = self.disk.space(Path::new(DIRECTORY)).ok()?;
        Some(space.total_bytes - space.available_bytes)
    }

    /// Ends the member's shortage.
    pub fn have_enough(&mut self) {
        self.short_until = None;
        self.disk.fail_opens(None);
        self.disk.set_capacity(ENOUGH_BYTES);
        self.disk.set_quota(None);
    }
}
