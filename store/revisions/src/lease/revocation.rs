//! Expiry: chooses the leases to revoke, at a limited rate.

use std::time::Duration;

use environment::Instant;

/// A token bucket that fills with `per_second` tokens and holds those of half a second.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: u32,
    tokens: f64,
    filled: Instant,
}

impl Pace {
    pub fn new(per_second: u32, now: Instant) -> Pace {
        let per_second = per_second.max(2);
        Pace {
            per_second,
            tokens: f64::from(per_second) / 2.0,
            filled: now,
        }
    }

    /// Refills the bucket and returns the number of leases that may be revoked now.
    pub fn allowance(&mut self, now: Instant) -> usize {
        let elapsed: Duration = now.saturating_since(self.filled);
        self.filled = self.filled.max(now);
        let per_second = f64::from(self.per_second);
        self.tokens = (self.tokens + elapsed.as_secs_f64() * per_second).min(per_second / 2.0);
        self.tokens as usize
    }

    pub fn take(&mut self, tokens: usize) {
        self.tokens -= tokens as f64;
        assert!(self.tokens >= 0.0, "no more is taken than was allowed");
    }
}
