//! Does an acknowledgement mean that the device has the data?
//!
//! A device with a volatile cache keeps nothing that it was not told to flush.
//! Flushes are counted by the kernel, so this needs neither a clock nor luck:
//! a target that promises durability and flushed nothing does not keep it.

use std::fmt;

/// What the device says about a target's promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Durability {
    /// Writes were acknowledged and nothing was flushed.
    NotDurable,
    /// Device flushes for each acknowledged write; below 1 where writers share
    /// them.
    Flushed {
        /// Flushes for each write.
        per_write: f64,
    },
    /// The device has others who flush it, or cannot count: nothing is proved.
    Unknown,
}

/// Judges a run's writes by the flushes of its device. `flushes` is `None` where
/// the device cannot count them; `private` says that nobody else uses it.
pub fn durability(acknowledged_writes: u64, flushes: Option<u64>, private: bool) -> Durability {
    match flushes {
        _ if acknowledged_writes == 0 => Durability::Unknown,
        // Nobody's flush is nobody's, on a shared device too.
        Some(0) => Durability::NotDurable,
        Some(flushes) if private => Durability::Flushed {
            per_write: flushes as f64 / acknowledged_writes as f64,
        },
        _ => Durability::Unknown,
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::NotDurable => f.write_str("not durable: 0 flushes"),
            Durability::Flushed { per_write } => write!(f, "{per_write:.3} flushes per write"),
            Durability::Unknown => f.write_str("not known: the device is shared"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flush_no_durability_whoever_else_uses_the_device() {
        assert_eq!(durability(100, Some(0), true), Durability::NotDurable);
        assert_eq!(durability(100, Some(0), false), Durability::NotDurable);
    }

    #[test]
    fn flushes_of_a_shared_device_prove_nothing() {
        assert_eq!(durability(100, Some(100), false), Durability::Unknown);
        assert_eq!(durability(100, None, true), Durability::Unknown);
        assert_eq!(durability(0, Some(0), true), Durability::Unknown);
    }

    #[test]
    fn shared_flushes_of_many_writers_are_below_one() {
        let found = durability(100, Some(4), true);
        assert_eq!(found.to_string(), "0.040 flushes per write");
    }
}
