//! Values that are damaged on this member and whole on others.
//!
//! ```text
//!   a read, an evaluation or an export meets one ──► noted by the engine
//!   tick: noted ──wanted──► another member, the next one at each tick
//!                ◄─given─── its record ──► written again where it was, durably
//! ```
//!
//! Members have the same bytes for a key and a revision, because the log's entries hold
//! effects. What is not known to be damaged here is never taken.

use super::Replica;
use crate::peer_message::{PeerMessage, RecordMessage};

/// Asked for at one tick: what comes is written by the replica thread.
const ASKED_AT_ONCE: usize = 8;

impl Replica {
    /// Asks the next of the other members for values that were found damaged here.
    pub(super) fn ask_for_damaged(&mut self) {
        let damaged = self.engine.damaged_versions();
        if damaged.is_empty() {
            return;
        }
        let members = self.reader.members();
        let others = members.iter().map(|member| member.id);
        let others: Vec<u64> = others.filter(|&id| id != self.member_id).collect();
        let Some(&to) = others.get(self.damage_asked % others.len().max(1)) else {
            return;
        };
        self.damage_asked = self.damage_asked.wrapping_add(1);
        for version in damaged.into_iter().take(ASKED_AT_ONCE) {
            let wanted = PeerMessage::Record(RecordMessage::Wanted(version));
            self.output.messages.push((to, wanted));
        }
    }

    /// Of a value that is damaged, here or at the sender.
    pub(super) fn record_heard(&mut self, from: u64, message: RecordMessage) {
        match message {
            RecordMessage::Wanted(version) => match self.engine.record_of(&version) {
                Ok(Some(record)) => {
                    let given = PeerMessage::Record(RecordMessage::Given(version, record));
                    self.output.messages.push((from, given));
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, from, "another member asked for a value"),
            },
            RecordMessage::Given(version, record) => {
                if !self.engine.damaged_versions().contains(&version) {
                    return;
                }
                if let Err(error) = self.engine.mend_version(&version, &record) {
                    tracing::warn!(%error, from, "a damaged value was not mended");
                }
            }
        }
    }
}
