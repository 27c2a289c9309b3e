//! Compaction: discards the history below a revision.
//!
//! The engine decides which versions survive and removes the others step by step
//! (`Applier::compact`); a client that asks for a physical compaction waits until they are
//! removed (`Machine::swept`). This module checks the requested revision and makes the compaction
//! count for all commands that are evaluated later, although the history is removed only after
//! the batch is applied.

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{CompactionRequest, CompactionResponse};

use crate::Error;
use crate::machine::Machine;
use crate::range::header;
use crate::state::StateRecord;

impl Machine {
    pub(crate) fn compact(
        &mut self,
        request: &CompactionRequest,
    ) -> Result<CompactionResponse, Error> {
        if request.revision <= self.decided.compacted {
            return Err(Refusal::Compacted.into());
        }
        if request.revision > self.decided.revision {
            return Err(Refusal::FutureRevision.into());
        }
        self.decided.compacted = request.revision;
        self.open.push_state(&StateRecord::Compacted {
            revision: request.revision,
            physical: request.physical,
        });
        Ok(CompactionResponse {
            header: header(self.decided.revision),
        })
    }
}
