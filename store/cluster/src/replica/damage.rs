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

use super::replica_core::Core;
use crate::peer_message::{PeerMessage, RecordMessage};

/// Limit on the values that are requested at one tick. The replica thread writes the
/// records that arrive, so the limit bounds how long it is busy with them.
const ASKED_AT_ONCE: usize = 8;

/// The requests for damaged values.
#[derive(Debug, Default)]
pub(super) struct DamageRepair {
    /// How often other members were asked; chooses the next one.
    asked: usize,
}

impl DamageRepair {
    /// Asks another member for the values that were found damaged here; at each call the next
    /// member in order.
    pub fn ask(&mut self, core: &mut Core) {
        let damaged = core.engine().damaged_versions();
        if damaged.is_empty() {
            return;
        }
        let members = core.reader.members();
        let others = members.iter().map(|member| member.id);
        let others: Vec<u64> = others.filter(|&id| id != core.member_id).collect();
        let Some(&to) = others.get(self.asked % others.len().max(1)) else {
            return;
        };
        self.asked = self.asked.wrapping_add(1);
        for version in damaged.into_iter().take(ASKED_AT_ONCE) {
            core.send(to, PeerMessage::Record(RecordMessage::Wanted(version)));
        }
    }
}

/// Handles a request for a record, or a record that was requested here.
pub(super) fn record_received(core: &mut Core, from: u64, message: RecordMessage) {
    match message {
        RecordMessage::Wanted(version) => match core.engine().record_of(&version) {
            Ok(Some(record)) => {
                let given = PeerMessage::Record(RecordMessage::Given(version, record));
                core.send(from, given);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(
                %error,
                from,
                "a value that another member asked for cannot be read"
            ),
        },
        RecordMessage::Given(version, record) => {
            if !core.engine().damaged_versions().contains(&version) {
                return;
            }
            if let Err(error) = core.engine().mend_version(&version, &record) {
                tracing::warn!(%error, from, "a damaged value could not be repaired");
            }
        }
    }
}
