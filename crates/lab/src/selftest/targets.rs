//! Targets with a fault that the lab must find.

use std::collections::BTreeMap;

/// A store that acknowledges every write and forgets one in so many.
pub struct Forgetful {
    kept: BTreeMap<u64, u64>,
    forget_every: u64,
    writes: u64,
}

impl Forgetful {
    /// A store that forgets one write in `forget_every`.
    pub fn new(forget_every: u64) -> Forgetful {
        assert!(forget_every > 0, "one write in none is not a share");
        Forgetful {
            kept: BTreeMap::new(),
            forget_every,
            writes: 0,
        }
    }

    /// Acknowledges.
    pub fn put(&mut self, key: u64, value: u64) {
        self.writes += 1;
        if !self.writes.is_multiple_of(self.forget_every) {
            self.kept.insert(key, value);
        }
    }

    /// What is there.
    pub fn get(&self, key: u64) -> Option<u64> {
        self.kept.get(&key).copied()
    }
}

/// A device that counts what it is told, and a store on it that may or may not
/// flush.
pub struct CountingDevice {
    /// Flushes so far.
    pub flushes: u64,
    /// Writes acknowledged so far.
    pub acknowledged: u64,
    flushing: bool,
}

impl CountingDevice {
    /// A store that flushes before it acknowledges, or does not.
    pub fn new(flushing: bool) -> CountingDevice {
        CountingDevice {
            flushes: 0,
            acknowledged: 0,
            flushing,
        }
    }

    /// One write.
    pub fn put(&mut self) {
        self.flushes += u64::from(self.flushing);
        self.acknowledged += 1;
    }
}
