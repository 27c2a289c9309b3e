//! Many versions at once: what lies together in the log comes with one read, and what is read
//! after each other shares memory.
//!
//! ```text
//!   asked      k1  k2  k3  k4                     in any order
//!   the log    ... │k2│k3│ gap │k1│ ....... │k4│   one read for k2, k3 and k1, one for k4
//!   a buffer   │k2│k3│ gap │k1│k4│                 up to 64 KiB, and longer for a longer record
//! ```
//!
//! Reads of different places wait for the device, and for memory, at the same time: they are
//! announced before the first one begins. `runs.rs` says what a run is.

use crate::read::Records;
use crate::runs::{RUN_BYTES_MAX, run_length, try_run};
use crate::{Error, KeyChange, Version};
use bytes::Bytes;
use std::mem;
use value_log::{Position, ReadBuffer};

/// Records for which the processor waits together.
const PREFETCHED: usize = 32;

/// A place in the log, and the record's bytes.
type Place = (Position, usize);

struct Gathered<'v> {
    records: &'v Records,
    versions: &'v [&'v Version],
    found: Vec<Option<KeyChange>>,
    /// Numbers of the versions in the buffer, in its order.
    numbers: Vec<u32>,
    buffer: ReadBuffer,
    /// Bytes of the records that were not read yet.
    bytes_left: usize,
}

impl Records {
    /// The bytes of `versions`, in their order.
    pub(crate) fn read_all(&self, versions: &[&Version]) -> Result<Vec<KeyChange>, Error> {
        let mut order: Vec<(Position, u32)> = (0..)
            .zip(versions)
            .map(|(number, version)| (version.pointer.position(), number))
            .collect();
        order.sort_unstable();
        let pointer = |number: u32| versions[number as usize].pointer;
        let places = order.iter().map(|&(position, number)| {
            let bytes = pointer(number).record_bytes() as usize;
            (position, bytes)
        });
        let places: Vec<Place> = places.collect();
        let mut gathered = Gathered {
            records: self,
            versions,
            found: vec![None; versions.len()],
            numbers: Vec::new(),
            buffer: ReadBuffer::default(),
            bytes_left: places.iter().map(|(_, bytes)| bytes).sum(),
        };
        self.log_view.log.read_ahead(&places);
        let (mut at, mut prefetched) = (0, 0);
        while at < places.len() {
            if at >= prefetched {
                prefetched = places.len().min(at + PREFETCHED);
                self.log_view.log.prefetch(&places[at..prefetched]);
            }
            let end = at + run_length(order[at..].iter().map(|&(_, number)| pointer(number)));
            gathered.take(&places[at..end], &order[at..end])?;
            at = end;
        }
        gathered.finish()
    }
}

impl Gathered<'_> {
    fn take(&mut self, run: &[Place], order: &[(Position, u32)]) -> Result<(), Error> {
        let (first, last) = (run[0].0, run[run.len() - 1]);
        let with_gaps = (last.0.offset() - first.offset()) as usize + last.1;
        if self.buffer.bytes.len() + with_gaps > RUN_BYTES_MAX {
            self.empty()?;
        }
        if self.buffer.bytes.is_empty() {
            self.buffer
                .bytes
                .reserve(self.bytes_left.min(RUN_BYTES_MAX));
        }
        self.bytes_left -= run.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let mut numbers = order.iter().map(|&(_, number)| number);
        match try_run(self.records, run, &mut self.buffer) {
            Some(()) => self.numbers.extend(numbers),
            None => numbers.try_for_each(|number| self.read_alone(number))?,
        }
        Ok(())
    }

    fn read_alone(&mut self, number: u32) -> Result<(), Error> {
        let stored = self.records.read(self.versions[number as usize])?;
        self.found[number as usize] = Some(stored);
        Ok(())
    }

    /// Decodes what is in the buffer, and begins another one.
    fn empty(&mut self) -> Result<(), Error> {
        let buffer = mem::take(&mut self.buffer);
        let bytes = Bytes::from(buffer.bytes);
        let numbers = mem::take(&mut self.numbers);
        for (number, record) in numbers.into_iter().zip(buffer.records) {
            let main = self.versions[number as usize].main;
            let stored = KeyChange::decode_in(record.kind, &bytes, record.payload);
            match stored.ok().filter(|stored| stored.revision.main == main) {
                Some(stored) => self.found[number as usize] = Some(stored),
                None => self.read_alone(number)?,
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<KeyChange>, Error> {
        self.empty()?;
        let all = self.found.into_iter();
        Ok(all
            .map(|stored| stored.expect("every version is in one run"))
            .collect())
    }
}
