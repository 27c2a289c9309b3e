//! The limit of the bytes that the evaluation of one command may read.
//!
//! The replica thread evaluates one command after the other, so every other command waits while
//! one reads. For this reason a command that writes may read about as much as it may write. Reads
//! without writes have no such limit, because request tasks answer them.

use std::cell::Cell;

use crate::Error;

/// Bytes of records that the evaluation of one command that writes may read.
pub const READ_BYTES_MAX: u64 = 16 << 20;
/// Cost of finding a key in the index, without the cost of its record.
const KEY_COST_BYTES: u64 = 64;

/// The rest of the limit for one command.
#[derive(Debug)]
pub(crate) struct ReadBudget {
    left_bytes: Cell<u64>,
}

impl ReadBudget {
    pub fn new() -> ReadBudget {
        ReadBudget {
            left_bytes: Cell::new(READ_BYTES_MAX),
        }
    }

    /// Number of keys that may still be looked up.
    pub fn keys_left(&self) -> usize {
        (self.left_bytes.get() / KEY_COST_BYTES) as usize
    }

    /// Takes the cost of keys that were found in the index.
    pub fn take_keys(&self, keys: usize) -> Result<(), Error> {
        self.take_bytes(KEY_COST_BYTES * keys as u64)
    }

    /// Takes the cost of records that are about to be read.
    pub fn take_bytes(&self, bytes: u64) -> Result<(), Error> {
        match self.left_bytes.get().checked_sub(bytes) {
            Some(left) => {
                self.left_bytes.set(left);
                Ok(())
            }
            None => Err(Error::ReadsTooMuch {
                bytes_max: READ_BYTES_MAX,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_refused_once_it_is_used_up_and_a_refusal_takes_nothing() {
        let budget = ReadBudget::new();
        budget
            .take_bytes(READ_BYTES_MAX - 2 * KEY_COST_BYTES)
            .unwrap();
        assert_eq!(budget.keys_left(), 2);
        assert!(budget.take_keys(3).is_err());
        budget.take_keys(2).unwrap();
        assert_eq!(budget.keys_left(), 0);
        assert!(budget.take_bytes(1).is_err());
    }
}
