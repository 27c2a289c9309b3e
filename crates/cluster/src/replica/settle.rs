//! What the consensus has brought about is sent, applied and told.

use super::Replica;
use crate::Error;
use crate::raft::consensus::Progress;

impl Replica {
    /// Lets the consensus go on until nothing comes of it.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        loop {
            self.settle_what_is_written()?;
            if !self.consensus.write_own() {
                self.publish_read_lease();
                return Ok(());
            }
        }
    }

    fn settle_what_is_written(&mut self) -> Result<(), Error> {
        loop {
            let mut progress = Progress::default();
            self.consensus.advance(&mut progress)?;
            let more = !progress.committed.is_empty();
            for message in progress.messages {
                self.send_raft(message);
            }
            for pending in progress.committed {
                self.consensus.remember_before_it_shows(&pending)?;
                self.apply(pending)?;
            }
            for (round, index) in progress.reads {
                self.reads.confirm(round, index);
            }
            self.observe_lead();
            self.release_reads();
            self.look_at_run_out_leases();
            if !more {
                return Ok(());
            }
        }
    }
}
