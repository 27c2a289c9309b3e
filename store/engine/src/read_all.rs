//! Many versions at once: records that lie together in the log come with one read, and short ones
//! that are read one after the other share memory.
//!
//! ```text
//!   asked      k1  k2  k3  k4 ... │ k301 ...      in any order; a portion after the other
//!   the log    ... │k2│k3│ gap │k1│ ....... │k4│   one read for k2, k3 and k1, one for k4
//!   a buffer   │k2│k3│ gap │k1│k4│                 up to 64 KiB
//! ```
//!
//! The reads of a portion are announced before they begin: so the device, and the processor, wait
//! for several places together. `runs.rs` says what a run is.

use crate::read::Records;
use crate::runs::{RUN_BYTES_MAX, run_length};
use crate::{Error, KeyChange, Version};
use std::mem;
use value_log::{Position, Reads};

/// Records that are read together, unless they are long: enough to keep a device busy. Buffers are
/// not shared between portions: a caller that uses up the versions in their order frees those of a
/// portion before it comes to the next.
const PORTION_RECORDS: usize = 256;
/// A portion has more bytes than this only if it is one record.
const PORTION_BYTES: u64 = 1 << 20;
/// A run of more bytes than this has a buffer of its own: a caller that keeps a long value keeps
/// little besides.
const SHARING_RUN_BYTES_MAX: usize = 4 << 10;
/// Records that the processor fetches together.
pub(crate) const PREFETCHED_RECORDS: usize = 32;

/// Versions of a portion that were found, and those that are read.
struct Gathered<'v> {
    records: &'v Records,
    versions: &'v [&'v Version],
    found: Vec<Option<KeyChange>>,
    reads: Reads<'v>,
    /// Numbers of the versions in the buffer of `reads`, in its order.
    numbers: Vec<u32>,
    /// Bytes of the records that were not read yet.
    bytes_left: usize,
}

impl Records {
    /// The bytes of `versions`, in their order.
    pub(crate) fn read_all(&self, versions: &[&Version]) -> Result<Vec<KeyChange>, Error> {
        let mut found = Vec::with_capacity(versions.len());
        let mut rest = versions;
        while !rest.is_empty() {
            let (portion, behind) =
                rest.split_at(portion_length(rest.iter().map(|it| it.log_bytes())));
            self.read_portion(portion, &mut found)?;
            rest = behind;
        }
        Ok(found)
    }

    fn read_portion(&self, versions: &[&Version], all: &mut Vec<KeyChange>) -> Result<(), Error> {
        let mut order: Vec<(Position, u32)> = (0..)
            .zip(versions)
            .map(|(number, version)| (version.pointer.position(), number))
            .collect();
        order.sort_unstable();
        let pointer = |&(_, number): &(Position, u32)| versions[number as usize].pointer;
        let places: Vec<_> = order.iter().map(|it| pointer(it).place()).collect();
        let mut gathered = Gathered {
            records: self,
            versions,
            found: vec![None; versions.len()],
            reads: self.log_view.log.reads(),
            numbers: Vec::new(),
            bytes_left: places.iter().map(|(_, bytes)| bytes).sum(),
        };
        gathered.reads.announce(&places);
        let (mut at, mut prefetched) = (0, 0);
        while at < places.len() {
            if at >= prefetched {
                prefetched = places.len().min(at + PREFETCHED_RECORDS);
                gathered.reads.prefetch(&places[at..prefetched]);
            }
            let end = at + run_length(order[at..].iter().map(pointer));
            gathered.take(&places[at..end], &order[at..end])?;
            at = end;
        }
        gathered.decode()?;
        let found = gathered.found.into_iter();
        all.extend(found.map(|stored| stored.expect("every version is in one run")));
        Ok(())
    }
}

/// How many versions are read together, given the bytes of their records.
pub(crate) fn portion_length(records: impl Iterator<Item = u64>) -> usize {
    let mut all_bytes = 0;
    let fits = |bytes: &u64| {
        all_bytes += bytes;
        all_bytes <= PORTION_BYTES
    };
    let some = records.take(PORTION_RECORDS);
    some.take_while(fits).count().max(1)
}

impl Gathered<'_> {
    /// Reads a run.
    fn take(&mut self, run: &[(Position, usize)], order: &[(Position, u32)]) -> Result<(), Error> {
        let (first, last) = (run[0].0, run[run.len() - 1]);
        let with_gaps = (last.0.offset() - first.offset()) as usize + last.1;
        let shares = with_gaps <= SHARING_RUN_BYTES_MAX;
        if !shares || self.reads.buffered_bytes() + with_gaps > RUN_BYTES_MAX {
            self.decode()?;
        }
        if shares && self.reads.buffered_bytes() == 0 {
            self.reads.reserve(self.bytes_left.min(RUN_BYTES_MAX));
        }
        self.bytes_left -= run.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let mut numbers = order.iter().map(|&(_, number)| number);
        match self.reads.run(run) {
            Ok(()) => self.numbers.extend(numbers),
            Err(_) => numbers.try_for_each(|number| self.read_alone(number))?,
        }
        match shares {
            true => Ok(()),
            false => self.decode(),
        }
    }

    fn read_alone(&mut self, number: u32) -> Result<(), Error> {
        let stored = self.records.read(self.versions[number as usize])?;
        self.found[number as usize] = Some(stored);
        Ok(())
    }

    /// Decodes what is in the buffer, and begins another one.
    fn decode(&mut self) -> Result<(), Error> {
        self.records.lifecycle.check_open()?;
        let (numbers, mut others) = (mem::take(&mut self.numbers), Vec::new());
        let (bytes, read) = self.reads.take();
        for (number, record) in numbers.into_iter().zip(read) {
            let main = self.versions[number as usize].main;
            let stored = KeyChange::decode_in(record.kind, &bytes, record.payload);
            match stored.ok().filter(|stored| stored.revision.main == main) {
                Some(stored) => self.found[number as usize] = Some(stored),
                None => others.push(number),
            }
        }
        others
            .into_iter()
            .try_for_each(|number| self.read_alone(number))
    }
}
