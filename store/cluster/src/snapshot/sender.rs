//! The sender's half of a transfer.
//!
//! ```text
//!   Offering ──member wants a piece───► Sending ──all sent──► (silent) ──► over
//!      ▲                                   │
//!      └──── silence, a broken connection ─┘
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use environment::Instant;
use raft::eraftpb::Message;
use revisions::Export;

use super::exchange::{Exchange, TransferState};
use crate::PeerMessage;

/// A transfer without progress is given up after this many times
/// [`Pace::give_up_after`], if the member still reports: it may be busy writing.
const PATIENCE_WITHOUT_PROGRESS: u32 = 10;

/// Limits of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Bytes that may be in flight, or unwritten at the member. A piece is sent as long as
    /// there are fewer, so the last one may exceed the limit.
    pub window_bytes: usize,
    /// After this time without a report of the member the offer is repeated.
    pub resend_after: Duration,
    /// After this time without a report of the member the transfer is given up.
    pub give_up_after: Duration,
}

/// The snapshot to send.
#[derive(Debug)]
pub(crate) struct Parcel {
    /// The transfer's number, unique among all transfers of this member.
    pub id: u64,
    pub to: u64,
    pub export: Export,
    /// The message that the member's Raft library gets when the snapshot is complete.
    pub message: Message,
}

/// Next action of the owner of a [`Sender`].
#[derive(Debug)]
pub enum Step {
    /// Send this message to the member, then call [`Sender::poll`] again.
    Send(PeerMessage),
    /// Call [`Sender::poll`] again when the member has reported, or after this time.
    Wait(Duration),
    /// Drop the sender; it has ended.
    Over,
}

/// Sends a snapshot to a member. A caller that takes one from [`crate::Output::snapshots`]
/// runs it until it is over; dropping it earlier ends the transfer.
#[derive(Debug)]
pub struct Sender {
    parcel: Parcel,
    pace: Pace,
    exchange: Arc<Exchange>,
    /// Number of the member's reports that are processed.
    reports: u64,
    /// The member has reported which piece it wants since the last offer.
    is_sending: bool,
    /// All pieces are sent.
    all_sent: bool,
    /// Pieces that are sent and not written at the member: number and bytes, ascending.
    in_flight: VecDeque<(u64, usize)>,
    in_flight_bytes: usize,
    /// The missed piece to which the sender has gone back; it goes back to a piece once.
    gone_back_to: Option<u64>,
    /// Number of pieces that were sent at least once.
    given: u64,
    /// The greatest number of a piece that the member has wanted.
    farthest: u64,
    /// When the offer is repeated.
    offer_at: Instant,
    last_report: Instant,
    last_progress: Instant,
}

impl Sender {
    pub(crate) fn new(parcel: Parcel, pace: Pace, exchange: Arc<Exchange>, now: Instant) -> Sender {
        Sender {
            parcel,
            pace,
            exchange,
            reports: 0,
            is_sending: false,
            all_sent: false,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            gone_back_to: None,
            given: 0,
            farthest: 0,
            offer_at: now,
            last_report: now,
            last_progress: now,
        }
    }

    /// The member to which the snapshot is sent.
    pub fn to(&self) -> u64 {
        self.parcel.to
    }

    /// Whether the transfer has ended, and the member has the snapshot.
    pub fn has_succeeded(&self) -> bool {
        matches!(self.exchange.ended(), Some(Ok(())))
    }

    /// Returns what the caller has to do now. Reads from the disk.
    pub fn poll(&mut self, now: Instant) -> Step {
        let transfer = self.exchange.transfer();
        if let Some(outcome) = transfer.over {
            return self.end(outcome);
        }
        if transfer.reports > self.reports
            && let Err(reason) = self.process_report(&transfer, now)
        {
            return self.end(Err(reason));
        }
        let silent = now.saturating_since(self.last_report);
        let stuck = now.saturating_since(self.last_progress);
        let give_up = self.pace.give_up_after;
        if silent >= give_up || stuck >= give_up * PATIENCE_WITHOUT_PROGRESS {
            return self.end(Err("the member makes no progress with the snapshot".into()));
        }
        if now >= self.offer_at {
            return self.offer(now);
        }
        let wait = Step::Wait(self.offer_at.saturating_since(now));
        if !self.is_sending || self.all_sent || self.in_flight_bytes >= self.pace.window_bytes {
            return wait;
        }
        self.next_piece()
    }

    /// Blocks until the member has reported or the transfer has to end, for `patience` at most.
    pub fn wait(&self, patience: Duration) {
        self.exchange.wait(self.reports, patience);
    }

    /// Notes that the connection to the member is broken. The offer is repeated after a pause.
    pub fn interrupted(&mut self, now: Instant) {
        self.is_sending = false;
        self.offer_at = now + self.pace.resend_after;
    }

    fn offer(&mut self, now: Instant) -> Step {
        self.is_sending = false;
        self.offer_at = now + self.pace.resend_after;
        Step::Send(PeerMessage::SnapshotOffer {
            id: self.parcel.id,
            message: Box::new(self.parcel.message.clone()),
        })
    }

    /// Processes the member's last report.
    fn process_report(&mut self, transfer: &TransferState, now: Instant) -> Result<(), String> {
        self.reports = transfer.reports;
        self.last_report = now;
        self.offer_at = now + self.pace.resend_after;
        while let Some(&(number, bytes)) = self.in_flight.front()
            && number < transfer.last.written
        {
            self.in_flight.pop_front();
            self.in_flight_bytes -= bytes;
        }
        if transfer.last.wanted > self.farthest {
            self.farthest = transfer.last.wanted;
            self.last_progress = now;
            self.gone_back_to = None;
        }
        let missed = transfer.last.out_of_order && self.gone_back_to != Some(transfer.last.wanted);
        if !self.is_sending || missed {
            self.gone_back_to = transfer.last.out_of_order.then_some(transfer.last.wanted);
            self.go_to(transfer.last.wanted)?;
        }
        Ok(())
    }

    /// Continues with the piece of this number.
    fn go_to(&mut self, number: u64) -> Result<(), String> {
        if number > self.given {
            // The member cannot have pieces that were never sent.
            return Ok(());
        }
        self.is_sending = true;
        self.all_sent = false;
        while let Some(&(last, bytes)) = self.in_flight.back()
            && last >= number
        {
            self.in_flight.pop_back();
            self.in_flight_bytes -= bytes;
        }
        let sought = self.parcel.export.seek(number);
        sought.map_err(|error| error.to_string())
    }

    fn next_piece(&mut self) -> Step {
        match self.parcel.export.next() {
            Some(Ok(piece)) => {
                self.all_sent = piece.last;
                self.given = self.given.max(piece.number + 1);
                self.in_flight.push_back((piece.number, piece.bytes.len()));
                self.in_flight_bytes += piece.bytes.len();
                Step::Send(PeerMessage::SnapshotPiece {
                    id: self.parcel.id,
                    bytes: piece.bytes,
                })
            }
            Some(Err(error)) => self.end(Err(error.to_string())),
            None => {
                self.all_sent = true;
                Step::Wait(self.pace.resend_after)
            }
        }
    }

    fn end(&mut self, outcome: Result<(), String>) -> Step {
        self.exchange.end(outcome);
        Step::Over
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.exchange.end(Err("the sender was dropped".into()));
    }
}
