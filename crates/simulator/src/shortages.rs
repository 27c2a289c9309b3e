//! Members that run out of room, of their quota or of descriptors for a while.
//!
//! None of it ends a member: one that fails meanwhile is caught by `look_at_failure`. One
//! that finds too little to start with tries again when it has enough.

use std::path::Path;
use std::time::Duration;

use environment::Disk;
use environment::randomness::Random;

use crate::World;
use crate::member::{DIRECTORY, Member};

/// EMFILE, ENFILE and ENOMEM of Linux.
const NUMBERS: [i32; 3] = [24, 23, 12];
/// More than any member writes.
const ENOUGH_BYTES: u64 = 1 << 40;
/// What another program may leave of the disk.
const LEFT_BYTES_MAX: u64 = 256 << 10;
const SHORTAGE_MILLISECONDS_MAX: u64 = 2_000;

impl World {
    /// A member, or all of them, run out of something.
    pub(crate) fn strike_shortage(&mut self, at: usize) {
        let permille = self.faults.shortage_permille;
        // Drawn only where it may strike: else all other stories would change.
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
        self.shortages += 1;
    }

    /// Those whose time has come have enough again.
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
        if self.short_until.is_some() || self.has_gone || self.disk().has_crashed() {
            return;
        }
        let Some(used) = self.used_bytes() else {
            return;
        };
        let limit = used + random.below(LEFT_BYTES_MAX);
        match random.below(3) {
            0 => self.disk().fail_opens(Some(*random.pick(&NUMBERS))),
            1 => self.disk().set_capacity(limit),
            _ => self.disk().set_quota(Some(limit)),
        }
        self.short_until = Some(until);
    }

    /// What its files take; `None` before its first start.
    fn used_bytes(&self) -> Option<u64> {
        let space = self.disk().space(Path::new(DIRECTORY)).ok()?;
        Some(space.total_bytes - space.available_bytes)
    }

    /// The shortage is over.
    pub fn have_enough(&mut self) {
        self.short_until = None;
        self.disk().fail_opens(None);
        self.disk().set_capacity(ENOUGH_BYTES);
        self.disk().set_quota(None);
    }
}
