//! The state machine and its owner's handle.

use std::path::Path;
use std::sync::Arc;

use engine::{Appended, Batch};
use environment::{Clock, Disk, Instant};

use crate::{Command, Error, Options, Reader, Response};

/// The state machine: owned by the replica thread.
#[derive(Debug)]
pub struct Machine {}

impl Machine {
    /// Opens the directory, recovers everything in it and takes its lock.
    /// Leases start with their full time to live, as after an election.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<(Machine, Reader), Error> {
        panic!("not built yet")
    }

    /// Decides one command against everything evaluated so far. On `Ok` its
    /// effects, if any, are in the open batch; on `Err` there are none.
    pub fn evaluate(&mut self, command: &Command) -> Result<Response, Error> {
        panic!("not built yet")
    }

    /// Closes the open batch. `None` when nothing was written.
    pub fn seal(&mut self, term: u64, index: u64) -> Option<Batch> {
        panic!("not built yet")
    }

    /// Makes a durable batch visible. In the order of sealing.
    pub fn apply(&mut self, batch: Batch, appended: Appended) {
        panic!("not built yet")
    }

    /// Forgets everything evaluated and not applied.
    pub fn abandon(&mut self) {
        panic!("not built yet")
    }

    /// Leases that have run out, as commands to propose; at most
    /// `lease_revocations_per_second`.
    pub fn expired(&mut self, now: Instant) -> Vec<Command> {
        panic!("not built yet")
    }

    /// This node leads from now on: leases start over with their full time to
    /// live and `extend` on top.
    pub fn promote(&mut self, extend: std::time::Duration) {
        panic!("not built yet")
    }

    /// This node no longer leads: leases do not expire here, and everything
    /// unapplied is forgotten.
    pub fn demote(&mut self) {
        panic!("not built yet")
    }
}
