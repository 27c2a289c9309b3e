//! Giving a whole state to another member, and taking one.
//!
//! ```text
//!   leader                                 member that is behind
//!   Machine::export ─► Export ─ pieces ─► Import ─► Machine::install
//!   (the engine's trees and this                    the trees, then leases, members,
//!    machine's blob, at one moment)                 alarms; watches go and read
//! ```

use std::sync::Arc;

use engine::{Export, Import, ImportNotice, Installed};

use crate::apply::Applied;
use crate::machine::Machine;
use crate::{Error, checkpoint};

impl Machine {
    /// Begins an export of everything applied so far, in pieces of about so many
    /// bytes. Costs what beginning a checkpoint costs; reading the pieces is up
    /// to another thread. The members at this moment are those of the snapshot.
    pub fn export(&self, piece_bytes: usize) -> Export {
        let state = self.shared.checkpoint_state();
        self.applier.export(state, piece_bytes)
    }

    /// Begins to receive a snapshot; this machine goes on meanwhile.
    pub fn import(&self, notice: ImportNotice) -> Result<Import, Error> {
        Ok(self.shared.engine.import(notice)?)
    }

    /// Replaces everything by a complete import, at once and for good. Readers
    /// and watches stay and see the new state; what was in the log counts no
    /// more. This machine does not lead.
    ///
    /// After [`engine::Error::InstallUnsettled`] the machine is closed; after any
    /// other error it goes on as it was.
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
