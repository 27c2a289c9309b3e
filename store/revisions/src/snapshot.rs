//! Snapshots: exporting the whole state to another member, and installing one.
//!
//! ```text
//!   leader                                 member that is behind
//!   Machine::export ─► Export ─ pieces ─► Import ─► Machine::install
//!   (the engine's trees and this                    the trees, then leases, members,
//!    machine's blob, at one moment)                 alarms; watches read history
//! ```

use std::sync::Arc;

use engine::{Export, Import, ImportNotice, Installed};

use crate::apply::Applied;
use crate::machine::Machine;
use crate::{Error, checkpoint};

impl Machine {
    /// Begins an export of the applied state, in pieces of about `piece_bytes` bytes. This call
    /// costs as much as the beginning of a checkpoint; another thread reads the pieces. The
    /// snapshot has the members of this moment.
    pub fn export(&self, piece_bytes: usize) -> Export {
        let state = self.shared.checkpoint_state();
        self.applier.export(state, piece_bytes)
    }

    /// Begins to receive a snapshot. The machine continues to work until it is installed.
    pub fn import(&self, notice: ImportNotice) -> Result<Import, Error> {
        Ok(self.shared.engine.import(notice)?)
    }

    /// Replaces the whole state by a complete import, atomically and durably. Readers and watches
    /// stay valid and see the new state; the entries of the log do not count any more. Must not
    /// be called while this machine leads.
    ///
    /// After [`engine::Error::InstallUnsettled`] the machine is closed; after any other error it
    /// continues with its old state.
    pub fn install(&mut self, import: Import) -> Result<Installed, Error> {
        assert!(!self.leading, "what was decided here would be lost");
        let compacted = import.info().map(|info| info.compacted);
        let mut applied = Applied::new(Arc::clone(&self.clock));
        let installed = self.applier.install(import, &mut |blob| {
            let decoded = checkpoint::decode(blob, &mut applied);
            decoded.map_err(|error| engine::Error::Replay(error.to_string()))?;
            if Some(applied.compacted) == compacted {
                return Ok(());
            }
            let what = "its state and its versions are of different compactions";
            Err(engine::Error::Replay(what.into()))
        })?;
        {
            let mut now = self.shared.applied();
            applied.lessor.succeed(&now.lessor);
            *now = applied;
        }
        self.shared.hub.skip_to(installed.revision);
        self.abandon();
        self.shared.update_used_bytes();
        Ok(installed)
    }
}
