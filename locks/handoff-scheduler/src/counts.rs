//! Counts of holders of locks that lost their core, which the programs in the kernel keep.

use std::fmt;

use libbpf_rs::{MapCore, MapFlags};

use crate::load::Loaded;
use crate::refusal::Refusal;

const MAP: &str = "counted";

/// How often a thread that held a lock was preempted, went to sleep, or had its slice extended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    preempted: u64,
    blocked: u64,
    extended: u64,
}

impl Counts {
    /// Adds the counts of a program in the kernel.
    pub fn add(&mut self, program: &Loaded) -> Result<(), Refusal> {
        let map = program.object.maps().find(|map| map.name() == MAP);
        let map = map.expect("every program counts");
        let only = [0; 4];
        let value = map.lookup(&only, MapFlags::ANY);
        let value = value.map_err(|error| Refusal::by_kernel("reading the counts", &error))?;
        *self = self.plus(&value.unwrap_or_default());
        Ok(())
    }

    fn plus(self, value: &[u8]) -> Counts {
        let number = |place: usize| {
            let bytes = value.get(place * 8..).and_then(<[u8]>::first_chunk);
            #[expect(clippy::host_endian_bytes, reason = "the kernel's own memory")]
            bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        Counts {
            preempted: self.preempted + number(0),
            blocked: self.blocked + number(1),
            extended: self.extended + number(2),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "holders preempted {} blocked {} extended {}",
            self.preempted, self.blocked, self.extended
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_several_programs_add_up() {
        let value: Vec<u8> = [3_u64, 4, 5].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let twice = Counts::default().plus(&value).plus(&value);
        assert_eq!(
            twice.to_string(),
            "holders preempted 6 blocked 8 extended 10"
        );
    }
}
