//! Compaction: history below a revision may be forgotten.
//!
//! What survives is the engine's business (`Applier::compact`), and it goes by
//! and by; who asks for a physical compaction waits for that
//! (`Machine::swept`). Here: which
//! revisions may be asked for, and that the answer holds from now on for
//! everything evaluated later, though history goes only at apply.

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
