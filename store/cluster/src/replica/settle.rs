//! Processes the results of the consensus: sends messages, applies entries, confirms reads.

use super::Replica;
use crate::Error;
use crate::raft::consensus::Progress;

impl Replica {
    /// Advances the consensus until it has no more results.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        loop {
            self.settle_written()?;
            if !self.consensus.write_own() {
                self.publish_read_lease();
                return Ok(());
            }
        }
    }

    fn settle_written(&mut self) -> Result<(), Error> {
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
            self.retry_run_out_leases();
            if !more {
                return Ok(());
            }
        }
    }
}
