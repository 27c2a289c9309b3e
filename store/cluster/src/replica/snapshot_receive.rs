//! Imports and installs a snapshot that the leader sends to this member.
//!
//! ```text
//!   offer ──judged──► importing ──whole, judged again──► installed ──► Raft restarts from there
//!                        │  ▲
//!                        └──┘ pieces, in their order
//! ```
//!
//! Invariants: one import is under way at most, of the newest offer. Until the moment of the
//! installation this member keeps its former state: it answers heartbeats, votes and serves
//! reads. A snapshot is never installed over a newer state.

use std::sync::Arc;

use raft::eraftpb::Message;
use revisions::Import;

use super::membership;
use super::replica_core::Core;
use crate::Error;
use crate::peer_message::PeerMessage;
use crate::raft::restore::Judgement;
use crate::snapshot::ImportReport;

/// The snapshot that is being imported.
#[derive(Debug)]
pub(super) struct Incoming {
    from: u64,
    id: u64,
    /// The message that Raft gets when the snapshot is installed.
    message: Message,
    import: Import,
    /// The number of written pieces that was last reported to the leader.
    written_reported: u64,
}

/// Entry and revision of a snapshot that was installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    pub index: u64,
    pub revision: i64,
}

/// Called from the import's thread when the import has progressed.
pub(crate) type Waker = Arc<dyn Fn() + Send + Sync>;

/// The import under way, if any, and what came of earlier ones.
#[derive(Default)]
pub(super) struct SnapshotReceiving {
    pub incoming: Option<Incoming>,
    /// The last snapshot that was installed since the start.
    pub installed: Option<Installed>,
    /// Called when an import has progressed.
    pub waker: Option<Waker>,
}

impl SnapshotReceiving {
    /// Handles a leader's offer of a snapshot: begins to import it, or answers why not.
    pub fn offered(&mut self, core: &mut Core, from: u64, id: u64, message: Message) {
        if let Err(what) = check(&message, from, core.member_id) {
            tracing::warn!(
                from = format!("{from:x}"),
                what,
                "an offer of a snapshot is refused"
            );
            return;
        }
        match core.consensus.judge(&message) {
            Judgement::Restores => {}
            Judgement::HasIt => {
                // Raft tells the leader how far this member is.
                core.consensus.step(message);
                return self.end_import(core, from, id, Ok(()));
            }
            Judgement::Ignores => {
                let reason = "the snapshot is for another member, or of a former leader";
                return self.end_import(core, from, id, Err(reason.into()));
            }
        }
        let same = |it: &Incoming| (it.from, it.id) == (from, id);
        if self.incoming.as_ref().is_some_and(same) {
            return self.report(core, false);
        }
        self.incoming = None;
        let waker = self.waker.clone();
        let wake = move || waker.iter().for_each(|waker| waker());
        match core.machine.import(Box::new(wake)) {
            Ok(import) => {
                let index = message.get_snapshot().get_metadata().index;
                tracing::info!(
                    from = format!("{from:x}"),
                    index,
                    "the leader has begun to send a snapshot"
                );
                self.incoming = Some(Incoming {
                    from,
                    id,
                    message,
                    import,
                    written_reported: 0,
                });
                self.report(core, false);
            }
            Err(error) => {
                if let revisions::Error::Storage(error) = &error {
                    note_no_room(core, error);
                }
                self.end_import(core, from, id, Err(error.to_string()));
            }
        }
    }

    /// Handles a piece of the snapshot. Pieces of any other snapshot are ignored.
    pub fn piece(&mut self, core: &mut Core, from: u64, id: u64, bytes: bytes::Bytes) {
        let this = |it: &&mut Incoming| (it.from, it.id) == (from, id);
        let Some(incoming) = self.incoming.as_mut().filter(this) else {
            return;
        };
        let before = incoming.import.wanted();
        if let Err(error) = incoming.import.offer(bytes) {
            tracing::debug!(%error, "a piece of a snapshot was not accepted");
        }
        let out_of_order = incoming.import.wanted() == before;
        self.report(core, out_of_order);
    }

    /// Reports to the leader which pieces are written and which one is wanted next.
    fn report(&mut self, core: &mut Core, out_of_order: bool) {
        let Some(incoming) = &mut self.incoming else {
            return;
        };
        let Ok(progress) = incoming.import.progress() else {
            return;
        };
        incoming.written_reported = progress.written;
        let report = ImportReport {
            wanted: incoming.import.wanted(),
            written: progress.written,
            out_of_order,
        };
        let id = incoming.id;
        core.send(incoming.from, PeerMessage::SnapshotWanted { id, report });
    }

    /// Ends the import, and reports to the leader that this member has the snapshot, or why it
    /// does not take it.
    fn end_import(&mut self, core: &mut Core, to: u64, id: u64, outcome: Result<(), String>) {
        let this = |it: &mut Incoming| (it.from, it.id) == (to, id);
        drop(self.incoming.take_if(this));
        core.send(to, PeerMessage::SnapshotOver { id, outcome });
    }

    /// Checks the progress of the import. Returns whether it is complete; the results of
    /// earlier messages must precede its installation.
    pub fn is_complete(&mut self, core: &mut Core) -> bool {
        let Some(incoming) = &self.incoming else {
            return false;
        };
        let (from, id) = (incoming.from, incoming.id);
        match incoming.import.progress() {
            Err(error) => {
                tracing::warn!(%error, "a snapshot cannot be imported");
                note_no_room(core, &error);
                self.end_import(core, from, id, Err(error.to_string()));
                false
            }
            Ok(progress) if progress.complete => true,
            Ok(progress) => {
                if progress.written > incoming.written_reported {
                    self.report(core, false);
                }
                false
            }
        }
    }

    /// Installs a complete snapshot, if it is still newer than this member's state and of the
    /// current leader. Returns it, if it was installed. A failure ends the replica.
    pub fn finish(&mut self, core: &mut Core) -> Result<Option<Installed>, Error> {
        let Some(incoming) = self.incoming.take() else {
            return Ok(None);
        };
        let (from, id) = (incoming.from, incoming.id);
        let mut installed = None;
        let outcome = match core.consensus.judge(&incoming.message) {
            Judgement::Restores => install(core, incoming)?.map(|it| installed = Some(it)),
            Judgement::HasIt => {
                core.consensus.step(incoming.message);
                Ok(())
            }
            Judgement::Ignores => Err("the snapshot is of a former leader".into()),
        };
        if let Err(reason) = &outcome {
            tracing::warn!(reason, "a snapshot is not installed");
        }
        self.installed = installed.or(self.installed);
        self.end_import(core, from, id, outcome);
        Ok(installed)
    }
}

/// Replaces the whole state by the snapshot. An inner `Err` is the reason why the snapshot
/// was refused; then nothing has changed. An outer `Err` ends the replica.
fn install(core: &mut Core, incoming: Incoming) -> Result<Result<Installed, String>, Error> {
    let mut message = incoming.message;
    let metadata = message.get_snapshot().get_metadata();
    let (index, term) = (metadata.index, metadata.term);
    let info = incoming.import.info();
    if info.is_none_or(|info| (info.index, info.term) != (index, term)) {
        return Ok(Err(format!(
            "the snapshot was offered as one of entry {index}, and is {info:?}"
        )));
    }
    assert!(
        index > core.engine().applied_index(),
        "a snapshot of entry {index} would replace the newer entry {}",
        core.engine().applied_index()
    );
    let installed = match core.machine.install(incoming.import) {
        Ok(installed) => installed,
        Err(error) if is_uncertain(&error) => return Err(Error::of_machine(error)),
        Err(error) => {
            if let revisions::Error::Storage(error) = &error {
                note_no_room(core, error);
            }
            return Ok(Err(error.to_string()));
        }
    };
    assert_eq!((installed.index, installed.term), (index, term));
    let members = membership::configuration(&core.reader.members());
    let metadata = message.mut_snapshot().mut_metadata();
    metadata.set_conf_state(members);
    core.consensus.restore(message, installed.hard_state);
    tracing::info!(
        index,
        revision = installed.revision,
        "a snapshot is installed"
    );
    assert_eq!(
        core.engine().applied_index(),
        index,
        "the installed snapshot is applied"
    );
    Ok(Ok(Installed {
        index,
        revision: installed.revision,
    }))
}

/// Notes that the disk or the memory is full, if `error` says so.
fn note_no_room(core: &mut Core, error: &engine::Error) {
    use engine::Error::SnapshotMemoryLimit;
    if error.shortage().is_some()
        || error.is_shortage()
        || matches!(error, SnapshotMemoryLimit { .. })
    {
        core.consensus.note_no_room_for_snapshot();
    }
}

/// Whether only a restart can find out which of both states is in force.
fn is_uncertain(error: &revisions::Error) -> bool {
    matches!(error, revisions::Error::Storage(error)
        if matches!(**error, engine::Error::InstallUncertain { .. }))
}

/// Checks what the Raft library takes for granted in an offer.
fn check(message: &Message, from: u64, to: u64) -> Result<(), &'static str> {
    let metadata = message.get_snapshot().get_metadata();
    let members = metadata.get_conf_state();
    let mut ids: Vec<u64> = members.voters.clone();
    ids.extend(&members.learners);
    ids.sort_unstable();
    let twice = ids.windows(2).any(|pair| pair[0] == pair[1]);
    if (message.from, message.to) != (from, to) {
        Err("the offer is in another member's name, or for another member")
    } else if metadata.index == 0 || metadata.term == 0 || metadata.term > message.term {
        Err("the snapshot names an entry that cannot exist")
    } else if members.voters.is_empty() || ids.first() == Some(&0) || twice {
        Err("the snapshot names a configuration that cannot exist")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft::eraftpb::MessageType;

    /// From member 1 to member 2, of entry 100.
    fn offer() -> Message {
        let mut message = Message {
            from: 1,
            to: 2,
            term: 5,
            ..Message::default()
        };
        message.set_msg_type(MessageType::MsgSnapshot);
        let metadata = message.mut_snapshot().mut_metadata();
        (metadata.index, metadata.term) = (100, 4);
        metadata.mut_conf_state().voters = vec![1, 3];
        metadata.mut_conf_state().learners = vec![2];
        message
    }

    #[test]
    fn a_valid_offer_is_accepted() {
        assert_eq!(check(&offer(), 1, 2), Ok(()));
        assert!(check(&offer(), 3, 2).is_err(), "another's name");
        assert!(check(&offer(), 1, 3).is_err(), "another's offer");
    }

    #[test]
    fn offers_that_would_crash_the_raft_library_are_refused() {
        let broken: [fn(&mut Message); 6] = [
            |it| it.mut_snapshot().mut_metadata().index = 0,
            |it| it.mut_snapshot().mut_metadata().term = 0,
            |it| it.mut_snapshot().mut_metadata().term = 6,
            |it| it.mut_snapshot().mut_metadata().mut_conf_state().voters = vec![],
            |it| it.mut_snapshot().mut_metadata().mut_conf_state().voters = vec![0, 1],
            |it| it.mut_snapshot().mut_metadata().mut_conf_state().voters = vec![1, 2],
        ];
        for (number, change) in broken.iter().enumerate() {
            let mut message = offer();
            change(&mut message);
            assert!(check(&message, 1, 2).is_err(), "{number}");
        }
    }
}
