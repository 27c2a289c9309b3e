//! Snapshots for members that are behind the log, at the leader.
//!
//! ```text
//!   wanted ──export──► Offered ──Raft takes it──► UnderWay ──whole──► CatchingUp ──► forgotten
//!                         │                          │ not
//!                         └──not needed any more     └──► Failed ──a while──► told to Raft, which
//!                                                                             wants it again
//! ```
//!
//! What a member cannot take (its disk is full), it will not take a moment later
//! either, and every export costs both sides: pauses double from an election timeout
//! up to half a minute, until it has taken one.
//!
//! One transfer for each member, any number of members. All end with the lead.
//! As long as one is here, the log keeps what the member will need behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use environment::Instant;
use raft::eraftpb::{Message, SnapshotMetadata};
use raft::{SnapshotStatus, StateRole};
use revisions::Export;

use super::{Replica, lead};
use crate::snapshot::{Exchange, Pace, Parcel, Sender};

/// Longest pause after a snapshot that was not taken.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Pieces that may be on their way or unwritten at the member.
const WINDOW_PIECES: usize = 32;

#[derive(Debug)]
enum Stage {
    /// Raft may take it, until then.
    Offered { export: Box<Export>, until: Instant },
    /// A sender has it.
    UnderWay { id: u64, exchange: Arc<Exchange> },
    /// Raft is told when the pause is over.
    Failed { until: Instant },
    /// The member has it; Raft sends what came behind it.
    CatchingUp { until: Instant },
}

#[derive(Debug)]
struct Transfer {
    /// Index of the snapshot's last entry.
    index: u64,
    stage: Stage,
}

/// All of them, by member.
#[derive(Debug)]
pub(super) struct Outgoing {
    transfers: BTreeMap<u64, Transfer>,
    /// By member: how many have failed one after the other.
    failures: BTreeMap<u64, u32>,
    last_id: u64,
    piece_bytes: usize,
    /// The unit of its patience.
    election_timeout: Duration,
}

impl Outgoing {
    /// For a new life: its transfers have numbers that no earlier one had.
    pub fn new(first_number: u64, piece_bytes: usize, election_timeout: Duration) -> Outgoing {
        assert!(piece_bytes > 0, "pieces have bytes");
        Outgoing {
            transfers: BTreeMap::new(),
            failures: BTreeMap::new(),
            last_id: first_number,
            piece_bytes,
            election_timeout,
        }
    }

    fn pace(&self) -> Pace {
        Pace {
            window_bytes: self.piece_bytes * WINDOW_PIECES,
            resend_after: self.election_timeout * 2,
            give_up_after: self.election_timeout * 30,
        }
    }

    /// A transfer has failed: how long the next one is waited with.
    fn pause_after_failure(&mut self, member: u64) -> Duration {
        let failures = self.failures.entry(member).or_default();
        let times = 2_u32.saturating_pow(*failures);
        *failures += 1;
        let pause = self.election_timeout.saturating_mul(times);
        pause.min(PAUSE_MAX.max(self.election_timeout))
    }

    /// A new export takes the place of a member that is catching up only.
    fn may_begin(&self, member: u64) -> bool {
        let stage = self.transfers.get(&member).map(|it| &it.stage);
        matches!(stage, None | Some(Stage::CatchingUp { .. }))
    }

    /// The member speaks of the transfer with this id.
    fn exchange(&self, member: u64, spoken_of: u64) -> Option<&Exchange> {
        match &self.transfers.get(&member)?.stage {
            Stage::UnderWay { id, exchange } if *id == spoken_of => Some(exchange),
            _ => None,
        }
    }
}

/// Their senders are on other threads, and shall not wait for a replica that is
/// no more.
impl Drop for Outgoing {
    fn drop(&mut self) {
        for transfer in self.transfers.values() {
            if let Stage::UnderWay { exchange, .. } = &transfer.stage {
                exchange.stop(Err("the member has stopped".into()));
            }
        }
    }
}

impl Replica {
    /// Exports for those who need it.
    pub(super) fn export_wanted(&mut self) {
        for member in self.consensus.take_wanted() {
            // The lead may be lost since the member was found to need one.
            let leads = self.consensus.raft().state == StateRole::Leader;
            if !leads || self.failed.is_some() || !self.outgoing.may_begin(member) {
                continue;
            }
            let export = Box::new(self.machine.export(self.outgoing.piece_bytes));
            let info = export.info();
            let mut metadata = SnapshotMetadata {
                index: info.index,
                term: info.term,
                ..SnapshotMetadata::default()
            };
            metadata.set_conf_state(lead::configuration(&self.reader.members()));
            let until = self.clock.now() + self.outgoing.election_timeout * 2;
            let transfer = Transfer {
                index: info.index,
                stage: Stage::Offered { export, until },
            };
            self.outgoing.transfers.insert(member, transfer);
            self.consensus.offer(member, metadata);
        }
    }

    /// Raft has taken an offer.
    pub(super) fn send_snapshot(&mut self, message: Message) {
        let to = message.to;
        self.consensus.withdraw(to);
        let index = message.get_snapshot().get_metadata().index;
        let transfer = self.outgoing.transfers.remove(&to);
        let Some(Transfer {
            stage: Stage::Offered { export, .. },
            ..
        }) = transfer.filter(|it| it.index == index)
        else {
            self.consensus.snapshot_sent(to, SnapshotStatus::Failure);
            return;
        };
        tracing::info!(
            to = format!("{to:x}"),
            index,
            bytes = export.bytes(),
            "a member is behind the log: sending it a snapshot"
        );
        let exchange = Arc::new(Exchange::default());
        self.outgoing.last_id += 1;
        let id = self.outgoing.last_id;
        let parcel = Parcel {
            id,
            to,
            export: *export,
            message,
        };
        let pace = self.outgoing.pace();
        let sender = Sender::new(parcel, pace, Arc::clone(&exchange), self.clock.now());
        self.output.snapshots.push(sender);
        let stage = Stage::UnderWay { id, exchange };
        self.outgoing
            .transfers
            .insert(to, Transfer { index, stage });
    }

    /// A member says how far it has got.
    pub(super) fn snapshot_wanted(
        &self,
        from: u64,
        id: u64,
        (wanted, written): (u64, u64),
        out_of_order: bool,
    ) {
        if let Some(exchange) = self.outgoing.exchange(from, id) {
            exchange.wanted(wanted, written, out_of_order);
        }
    }

    /// A member wants no more of it.
    pub(super) fn snapshot_over(&self, from: u64, id: u64, outcome: Result<(), String>) {
        if let Some(exchange) = self.outgoing.exchange(from, id) {
            exchange.stop(outcome);
        }
    }

    /// Looks what has become of all transfers.
    pub(super) fn tend_transfers(&mut self) {
        if self.outgoing.transfers.is_empty() && self.outgoing.failures.is_empty() {
            return;
        }
        if !self.holds_the_lead() {
            self.end_transfers("the lead is lost");
            return;
        }
        let now = self.clock.now();
        let transfers = std::mem::take(&mut self.outgoing.transfers);
        for (member, transfer) in transfers {
            let index = transfer.index;
            if let Some(stage) = self.tend(member, transfer, now) {
                self.outgoing
                    .transfers
                    .insert(member, Transfer { index, stage });
            }
        }
    }

    /// The stage it is in now, if it goes on.
    fn tend(&mut self, member: u64, transfer: Transfer, now: Instant) -> Option<Stage> {
        let index = transfer.index;
        match transfer.stage {
            Stage::Offered { until, .. } if now >= until => {
                self.consensus.withdraw(member);
                None
            }
            Stage::UnderWay { exchange, .. } if !self.consensus.awaits_snapshot(member) => {
                // Raft knows better: the member has it, or is a member no more.
                self.outgoing.failures.remove(&member);
                exchange.stop(Err("it is not needed any more".into()));
                Some(self.catching_up(now))
            }
            Stage::UnderWay { id, exchange } => match exchange.ended() {
                None => Some(Stage::UnderWay { id, exchange }),
                Some(Ok(())) => {
                    tracing::info!(
                        to = format!("{member:x}"),
                        index,
                        "the snapshot has arrived"
                    );
                    self.outgoing.failures.remove(&member);
                    self.consensus.snapshot_sent(member, SnapshotStatus::Finish);
                    Some(self.catching_up(now))
                }
                Some(Err(reason)) => {
                    let to = format!("{member:x}");
                    let pause = self.outgoing.pause_after_failure(member);
                    tracing::warn!(
                        to,
                        index,
                        reason,
                        ?pause,
                        "a snapshot was not taken; trying again"
                    );
                    let until = now + pause;
                    Some(Stage::Failed { until })
                }
            },
            Stage::Failed { until } if now >= until => {
                self.consensus
                    .snapshot_sent(member, SnapshotStatus::Failure);
                None
            }
            Stage::CatchingUp { until } if now >= until => None,
            stage => Some(stage),
        }
    }

    fn catching_up(&self, now: Instant) -> Stage {
        Stage::CatchingUp {
            until: now + self.outgoing.election_timeout * 30,
        }
    }

    /// None goes on.
    pub(super) fn end_transfers(&mut self, reason: &str) {
        self.outgoing.failures.clear();
        for (member, transfer) in std::mem::take(&mut self.outgoing.transfers) {
            self.consensus.withdraw(member);
            if let Stage::UnderWay { exchange, .. } = transfer.stage {
                exchange.stop(Err(reason.to_owned()));
            }
        }
    }

    /// Members that are sent a snapshot, or were, will need the entries from here on.
    pub(super) fn needed_from(&self) -> u64 {
        let progress = |member| self.consensus.raft().prs().get(member);
        let first = |(&member, transfer): (&u64, &Transfer)| {
            let matched = progress(member).map_or(0, |it| it.matched);
            transfer.index.max(matched) + 1
        };
        let all = self.outgoing.transfers.iter().map(first);
        all.min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_after_failures_double_up_to_half_a_minute_for_each_member() {
        let mut outgoing = Outgoing::new(0, 1, Duration::from_secs(1));
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            let pause = outgoing.pause_after_failure(7);
            assert_eq!(pause, Duration::from_secs(seconds));
        }
        assert_eq!(outgoing.pause_after_failure(8), Duration::from_secs(1));
        for _ in 0..100 {
            outgoing.pause_after_failure(7);
        }
        outgoing.failures.remove(&7);
        assert_eq!(outgoing.pause_after_failure(7), Duration::from_secs(1));
        let mut slow = Outgoing::new(0, 1, Duration::from_secs(50));
        assert_eq!(slow.pause_after_failure(7), Duration::from_secs(50));
    }
}
