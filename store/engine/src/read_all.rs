//! Many versions at once: what lies together in the log comes with one read.
//!
//! ```text
//!   asked      k1  k2  k3  k4                     in any order
//!   the log    ... │k2│k3│ gap │k1│ ....... │k4│   one read for k2, k3 and k1, one for k4
//! ```
//!
//! Such a run is a shortcut only. If anything is wrong with it (its segment
//! was released, a record is damaged or of another version), its versions
//! are read one by one, by the rules of `read.rs`.

use crate::read::Records;
use crate::{Error, KeyChange, Version};
use value_log::Position;

/// Longest run. A longer one saves little beside the system call, and a caller that keeps
/// one value of a run keeps the memory of the whole run.
const RUN_BYTES_MAX: u64 = 64 << 10;
/// Longest gap between two records of a run: reading it costs less than another read.
const GAP_BYTES_MAX: u64 = 1 << 10;

impl Records {
    /// The bytes of `versions`, in their order.
    pub(crate) fn read_all(&self, versions: &[&Version]) -> Result<Vec<KeyChange>, Error> {
        let mut order: Vec<usize> = (0..versions.len()).collect();
        order.sort_by_key(|&number| versions[number].pointer.position());
        let mut found: Vec<Option<KeyChange>> = vec![None; versions.len()];
        let mut rest = &order[..];
        while !rest.is_empty() {
            let (run, behind) = rest.split_at(run_length(versions, rest));
            let run_of: Vec<&Version> = run.iter().map(|&number| versions[number]).collect();
            for (&number, stored) in run.iter().zip(self.read_run(&run_of)?) {
                found[number] = Some(stored);
            }
            rest = behind;
        }
        let all = found.into_iter();
        Ok(all
            .map(|stored| stored.expect("every version is in one run"))
            .collect())
    }

    fn read_run(&self, run: &[&Version]) -> Result<Vec<KeyChange>, Error> {
        if let [one] = run {
            return Ok(vec![self.read(one)?]);
        }
        match self.try_run(run) {
            Some(stored) => Ok(stored),
            None => run.iter().map(|version| self.read(version)).collect(),
        }
    }

    /// `None` when not every record is what the index said.
    fn try_run(&self, run: &[&Version]) -> Option<Vec<KeyChange>> {
        let pointers: Vec<(Position, usize)> = run
            .iter()
            .map(|it| (it.pointer.position(), it.pointer.record_bytes() as usize))
            .collect();
        let records = self.log_view.log.read_run(&pointers).ok()?;
        self.lifecycle.check_open().ok()?;
        let stored = run.iter().zip(records).map(|(version, record)| {
            let stored = KeyChange::decode(record.kind, &record.payload).ok()?;
            (stored.revision.main == version.main).then_some(stored)
        });
        stored.collect()
    }
}

/// How many of `order`, which ascends in the log, go into its first run.
fn run_length(versions: &[&Version], order: &[usize]) -> usize {
    let bounds = |number: usize| {
        let pointer = versions[number].pointer;
        let start = pointer.position().offset();
        (pointer.segment(), start, start + pointer.record_bytes())
    };
    let (segment, start, mut end) = bounds(order[0]);
    let joins = |&&number: &&usize| {
        let (its_segment, its_start, its_end) = bounds(number);
        let together = its_segment == segment
            && its_start.saturating_sub(end) <= GAP_BYTES_MAX
            && its_end - start <= RUN_BYTES_MAX;
        end = end.max(its_end);
        together
    };
    1 + order[1..].iter().take_while(joins).count()
}
