//! Snapshots for members that are behind the log, at the leader.
//!
//! ```text
//!   wanted ──export──► Offered ──Raft takes it──► UnderWay ──whole──► CatchingUp ──► forgotten
//!                         │                          │ failed
//!                         └──not needed any more     └──► Failed ──pause──► reported to Raft,
//!                                                                           which wants it
//!                                                                           again
//! ```
//!
//! A member that cannot take a snapshot (its disk is full) will not take one a moment later
//! either, and every export costs both sides. So the pauses double from an election timeout
//! up to half a minute, until the member has taken a snapshot.
//!
//! Invariants: there is one transfer for each member, and any number of members. All end
//! with this member's leadership. During a transfer the log keeps the entries that the member
//! will need after the snapshot ([`SnapshotSending::needed_from`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use environment::Instant;
use raft::SnapshotStatus;
use raft::eraftpb::{Message, SnapshotMetadata};
use revisions::Export;

use super::membership;
use super::options::ReplicaOptions;
use super::replica_core::Core;
use crate::snapshot::{Exchange, ImportReport, Pace, Parcel, Sender};

/// Longest pause after a snapshot that the member did not take.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Pieces that may be in flight or unwritten at the member.
const WINDOW_PIECES: usize = 32;

#[derive(Debug)]
enum Stage {
    /// Raft may take the export; at `until` the offer is withdrawn.
    Offered { export: Box<Export>, until: Instant },
    /// A sender sends the export.
    UnderWay { id: u64, exchange: Arc<Exchange> },
    /// The transfer has failed; at `until`, after a pause, Raft gets a report of that.
    Failed { until: Instant },
    /// The member has the snapshot, and Raft sends the entries behind it. Until `until` the
    /// log keeps more entries for the member.
    CatchingUp { until: Instant },
}

#[derive(Debug)]
struct Transfer {
    /// Index of the snapshot's last entry.
    index: u64,
    stage: Stage,
}

/// All transfers, by member.
#[derive(Debug)]
pub(super) struct SnapshotSending {
    transfers: BTreeMap<u64, Transfer>,
    /// By member: the number of failures since its last success.
    failures: BTreeMap<u64, u32>,
    last_id: u64,
}

impl SnapshotSending {
    /// Numbers the transfers of this incarnation above `first_number`; no earlier incarnation
    /// used these numbers.
    pub fn new(first_number: u64) -> SnapshotSending {
        SnapshotSending {
            transfers: BTreeMap::new(),
            failures: BTreeMap::new(),
            last_id: first_number,
        }
    }

    fn pace(options: &ReplicaOptions) -> Pace {
        Pace {
            window_bytes: options.snapshot_piece_bytes * WINDOW_PIECES,
            resend_after: options.election_timeout * 2,
            give_up_after: options.election_timeout * 30,
        }
    }

    /// Counts a failed transfer and returns the pause before the next one.
    fn pause_after_failure(&mut self, member: u64, election_timeout: Duration) -> Duration {
        let failures = self.failures.entry(member).or_default();
        let times = 2_u32.saturating_pow(*failures);
        *failures += 1;
        let pause = election_timeout.saturating_mul(times);
        pause.min(PAUSE_MAX.max(election_timeout))
    }

    /// Whether a new export may begin: the member has no transfer, or only catches up.
    fn may_begin(&self, member: u64) -> bool {
        let stage = self.transfers.get(&member).map(|it| &it.stage);
        matches!(stage, None | Some(Stage::CatchingUp { .. }))
    }

    /// The exchange with the sender, if the member's current transfer has this id.
    fn exchange(&self, member: u64, named: u64) -> Option<&Exchange> {
        match &self.transfers.get(&member)?.stage {
            Stage::UnderWay { id, exchange } if *id == named => Some(exchange),
            _ => None,
        }
    }

    /// Exports a snapshot for each member that needs one.
    pub fn export_wanted(&mut self, core: &mut Core) {
        for member in core.consensus.node.mut_store().take_wanted() {
            // This member may have lost its leadership since it found out that the other
            // one needs a snapshot.
            if !core.holds_leadership() || !self.may_begin(member) {
                continue;
            }
            let export = Box::new(core.machine.export(core.options.snapshot_piece_bytes));
            let info = export.info();
            let mut metadata = SnapshotMetadata {
                index: info.index,
                term: info.term,
                ..SnapshotMetadata::default()
            };
            metadata.set_conf_state(membership::configuration(&core.reader.members()));
            let until = core.now() + core.options.election_timeout * 2;
            let transfer = Transfer {
                index: info.index,
                stage: Stage::Offered { export, until },
            };
            self.transfers.insert(member, transfer);
            core.consensus.offer(member, metadata);
        }
    }

    /// Begins to send a snapshot that Raft has taken.
    pub fn send(&mut self, core: &mut Core, message: Message) {
        let to = message.to;
        core.consensus.node.mut_store().withdraw(to);
        let index = message.get_snapshot().get_metadata().index;
        let transfer = self.transfers.remove(&to);
        let Some(Transfer {
            stage: Stage::Offered { export, .. },
            ..
        }) = transfer.filter(|it| it.index == index)
        else {
            core.consensus
                .node
                .report_snapshot(to, SnapshotStatus::Failure);
            return;
        };
        tracing::info!(
            to = format!("{to:x}"),
            index,
            bytes = export.bytes(),
            "a member is behind the log: sending it a snapshot"
        );
        let exchange = Arc::new(Exchange::default());
        self.last_id += 1;
        let id = self.last_id;
        let parcel = Parcel {
            id,
            to,
            export: *export,
            message,
        };
        let pace = SnapshotSending::pace(&core.options);
        let sender = Sender::new(parcel, pace, Arc::clone(&exchange), core.now());
        core.output.snapshots.push(sender);
        let stage = Stage::UnderWay { id, exchange };
        self.transfers.insert(to, Transfer { index, stage });
    }

    /// Passes a member's report on the progress of its import to the sender.
    pub fn report(&self, from: u64, id: u64, report: ImportReport) {
        if let Some(exchange) = self.exchange(from, id) {
            exchange.report(report);
        }
    }

    /// Stops the sender when a member has the snapshot or does not want it.
    pub fn over(&self, from: u64, id: u64, outcome: Result<(), String>) {
        if let Some(exchange) = self.exchange(from, id) {
            exchange.stop(outcome);
        }
    }

    /// Advances all transfers by what has happened; ends them if this member does not lead.
    pub fn tend(&mut self, core: &mut Core) {
        if self.transfers.is_empty() && self.failures.is_empty() {
            return;
        }
        if !core.holds_leadership() {
            self.end_all(core, "this member has lost its leadership");
            return;
        }
        let now = core.now();
        let transfers = std::mem::take(&mut self.transfers);
        for (member, transfer) in transfers {
            let index = transfer.index;
            if let Some(stage) = self.advance(core, member, transfer, now) {
                self.transfers.insert(member, Transfer { index, stage });
            }
        }
    }

    /// Returns the current stage of a transfer; none if it is over.
    fn advance(
        &mut self,
        core: &mut Core,
        member: u64,
        transfer: Transfer,
        now: Instant,
    ) -> Option<Stage> {
        let index = transfer.index;
        let catching_up = Stage::CatchingUp {
            until: now + core.options.election_timeout * 30,
        };
        match transfer.stage {
            Stage::Offered { until, .. } if now >= until => {
                core.consensus.node.mut_store().withdraw(member);
                None
            }
            Stage::UnderWay { exchange, .. } if !core.consensus.awaits_snapshot(member) => {
                // Raft knows that the receiver has the snapshot, or is not a member any more.
                self.failures.remove(&member);
                exchange.stop(Err("the snapshot is not needed any more".into()));
                Some(catching_up)
            }
            Stage::UnderWay { id, exchange } => match exchange.ended() {
                None => Some(Stage::UnderWay { id, exchange }),
                Some(Ok(())) => {
                    tracing::info!(
                        to = format!("{member:x}"),
                        index,
                        "the snapshot has arrived"
                    );
                    self.failures.remove(&member);
                    core.consensus
                        .node
                        .report_snapshot(member, SnapshotStatus::Finish);
                    Some(catching_up)
                }
                Some(Err(reason)) => {
                    let to = format!("{member:x}");
                    let pause = self.pause_after_failure(member, core.options.election_timeout);
                    tracing::warn!(
                        to,
                        index,
                        reason,
                        ?pause,
                        "a member did not take a snapshot; it is sent again after the pause"
                    );
                    let until = now + pause;
                    Some(Stage::Failed { until })
                }
            },
            Stage::Failed { until } if now >= until => {
                core.consensus
                    .node
                    .report_snapshot(member, SnapshotStatus::Failure);
                None
            }
            Stage::CatchingUp { until } if now >= until => None,
            stage => Some(stage),
        }
    }

    /// Ends all transfers, with the reason for their senders.
    pub fn end_all(&mut self, core: &mut Core, reason: &str) {
        self.failures.clear();
        for (member, transfer) in std::mem::take(&mut self.transfers) {
            core.consensus.node.mut_store().withdraw(member);
            if let Stage::UnderWay { exchange, .. } = transfer.stage {
                exchange.stop(Err(reason.to_owned()));
            }
        }
    }

    /// First index of the entries that are needed by members with a transfer; `u64::MAX` if
    /// there is no transfer.
    pub fn needed_from(&self, core: &Core) -> u64 {
        let progress = |member| core.raft().prs().get(member);
        let first = |(&member, transfer): (&u64, &Transfer)| {
            let matched = progress(member).map_or(0, |it| it.matched);
            transfer.index.max(matched) + 1
        };
        let all = self.transfers.iter().map(first);
        all.min().unwrap_or(u64::MAX)
    }
}

/// Stops the senders, which run on other threads and would wait for the dropped replica.
impl Drop for SnapshotSending {
    fn drop(&mut self) {
        for transfer in self.transfers.values() {
            if let Stage::UnderWay { exchange, .. } = &transfer.stage {
                exchange.stop(Err("the member has stopped".into()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_after_failures_double_up_to_half_a_minute_for_each_member() {
        let mut sending = SnapshotSending::new(0);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            let pause = sending.pause_after_failure(7, Duration::from_secs(1));
            assert_eq!(pause, Duration::from_secs(seconds));
        }
        assert_eq!(
            sending.pause_after_failure(8, Duration::from_secs(1)),
            Duration::from_secs(1)
        );
        for _ in 0..100 {
            sending.pause_after_failure(7, Duration::from_secs(1));
        }
        sending.failures.remove(&7);
        assert_eq!(
            sending.pause_after_failure(7, Duration::from_secs(1)),
            Duration::from_secs(1)
        );
        let mut slow = SnapshotSending::new(0);
        assert_eq!(
            slow.pause_after_failure(7, Duration::from_secs(50)),
            Duration::from_secs(50)
        );
    }
}
