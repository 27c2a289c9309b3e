//! Repairs values that are damaged on this member with copies from other members.
//!
//! ```text
//!   a read, an evaluation or an export finds one ──► noted by the engine
//!   tick: noted ──wanted──► another member, the next one at each tick
//!                ◄─given─── its record ──► written again where it was, durably
//! ```
//!
//! All members have the same bytes for a key and a revision, because the log's entries hold
//! effects. A member never takes a record for a value that it does not know to be damaged.

use super::Replica;
use crate::peer_message::{PeerMessage, RecordMessage};

/// Limit on the values that are requested at one tick. The replica thread writes the
/// records that arrive, so the limit bounds how long it is busy with them.
const ASKED_AT_ONCE: usize = 8;

impl Replica {
    /// Asks another member for the values that were found damaged here; at each call the next
    /// member in order.
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

    /// Handles a request for a record, or a record that was requested here.
    pub(super) fn record_received(&mut self, from: u64, message: RecordMessage) {
        match message {
            RecordMessage::Wanted(version) => match self.engine.record_of(&version) {
                Ok(Some(record)) => {
                    let given = PeerMessage::Record(RecordMessage::Given(version, record));
                    self.output.messages.push((from, given));
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(
                    %error,
                    from,
                    "a value that another member asked for cannot be read"
                ),
            },
            RecordMessage::Given(version, record) => {
                if !self.engine.damaged_versions().contains(&version) {
                    return;
                }
                if let Err(error) = self.engine.mend_version(&version, &record) {
                    tracing::warn!(%error, from, "a damaged value could not be repaired");
                }
            }
        }
    }
}
