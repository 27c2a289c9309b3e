//! Target `null`: does nothing, so that only the cost of the generator is measured.

use super::embedded::{Embedded, Failure, Offer, Seen, Session};
use crate::workload::DurabilityLevel;

pub const OFFER: Offer = Offer {
    name: "null",
    version: "",
    about: "does nothing: the generator's own ceiling",
    promises: &[
        DurabilityLevel::Durable,
        DurabilityLevel::Os,
        DurabilityLevel::None,
    ],
    has_ranges: true,
    grows: true,
    keeps_data: false,
    gathers: true,
    open: |_, _| Ok(Box::new(Null)),
};

#[derive(Debug)]
struct Null;

impl Embedded for Null {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(Null))
    }
}

impl Session for Null {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        std::hint::black_box((key, value));
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        std::hint::black_box((key, value));
        Ok(true)
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        std::hint::black_box(from);
        Ok(Seen {
            keys: limit,
            bytes: 0,
        })
    }

    fn load(&mut self, _: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        Ok(())
    }
}
