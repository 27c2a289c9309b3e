//! Many versions at once: what lies together in the log comes with one read.
//!
//! ```text
//!   asked      k1  k2  k3  k4                     in any order
//!   the log    ... │k2│k3│ gap │k1│ ....... │k4│   one read for k2, k3 and k1, one for k4
//! ```
//!
//! `runs.rs` says what a run is.

use crate::read::Records;
use crate::runs::{run_length, try_run};
use crate::{Error, KeyChange, Version};

impl Records {
    /// The bytes of `versions`, in their order.
    pub(crate) fn read_all(&self, versions: &[&Version]) -> Result<Vec<KeyChange>, Error> {
        let mut order: Vec<usize> = (0..versions.len()).collect();
        order.sort_by_key(|&number| versions[number].pointer.position());
        let mut found: Vec<Option<KeyChange>> = vec![None; versions.len()];
        let mut rest = &order[..];
        while !rest.is_empty() {
            let pointers = rest.iter().map(|&number| versions[number].pointer);
            let (run, behind) = rest.split_at(run_length(pointers));
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
        match self.try_versions(run) {
            Some(stored) => Ok(stored),
            None => run.iter().map(|version| self.read(version)).collect(),
        }
    }

    /// `None` when not every record is what the index said.
    fn try_versions(&self, run: &[&Version]) -> Option<Vec<KeyChange>> {
        let records = try_run(self, run.iter().map(|version| version.pointer))?;
        let stored = run.iter().zip(records).map(|(version, record)| {
            let stored = KeyChange::decode(record.kind, &record.payload).ok()?;
            (stored.revision.main == version.main).then_some(stored)
        });
        stored.collect()
    }
}
