//! The sender's half of a transfer.
//!
//! ```text
//!   Offering ──the member says where──► Sending ──all sent──► (silent) ──► over
//!      ▲                                   │
//!      └──── silence, a broken connection ─┘
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use environment::Instant;
use raft::eraftpb::Message;
use revisions::Export;

use super::exchange::{Exchange, Heard};
use crate::PeerMessage;

/// Without progress a transfer goes on for so many times the patience without a
/// word: the member may be busy writing what it has.
const PATIENCE_WITHOUT_PROGRESS: u32 = 10;

/// How a transfer goes about its work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Bytes that may be on their way, or at the member and not written; one
    /// piece more than that is let through.
    pub window_bytes: usize,
    /// After so long without a word the member is asked where to go on.
    pub resend_after: Duration,
    /// After so long without a word the member is given up.
    pub give_up_after: Duration,
}

/// What is sent.
#[derive(Debug)]
pub(crate) struct Parcel {
    /// The transfer's number: no other of this member's has it.
    pub id: u64,
    pub to: u64,
    pub export: Export,
    /// What Raft is told at the end.
    pub message: Message,
}

/// What a [`Sender`] wants of whoever runs it.
#[derive(Debug)]
pub enum Step {
    /// To be sent to the member; then it wants to go on.
    Send(PeerMessage),
    /// Nothing to do before a word comes, or so long.
    Wait(Duration),
    /// It has ended, and may be dropped.
    Over,
}

/// A snapshot on its way to a member. Whoever has it from
/// [`crate::Output::snapshots`] runs it until it is over; dropping it earlier
/// ends the transfer.
#[derive(Debug)]
pub struct Sender {
    parcel: Parcel,
    pace: Pace,
    exchange: Arc<Exchange>,
    /// Words of the member's that were looked at.
    words: u64,
    /// The member has said where to begin since the last offer.
    is_sending: bool,
    /// All pieces are on their way.
    all_sent: bool,
    /// Sent and not written there: numbers and bytes, ascending.
    in_flight: VecDeque<(u64, usize)>,
    in_flight_bytes: usize,
    /// Gone back to this piece because it was missed: once is enough.
    gone_back_to: Option<u64>,
    /// Pieces that were sent at least once.
    given: u64,
    /// The farthest that the member has got.
    farthest: u64,
    /// When it is offered again.
    offer_at: Instant,
    last_word: Instant,
    last_progress: Instant,
}

impl Sender {
    pub(crate) fn new(parcel: Parcel, pace: Pace, exchange: Arc<Exchange>, now: Instant) -> Sender {
        Sender {
            parcel,
            pace,
            exchange,
            words: 0,
            is_sending: false,
            all_sent: false,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            gone_back_to: None,
            given: 0,
            farthest: 0,
            offer_at: now,
            last_word: now,
            last_progress: now,
        }
    }

    /// Whom it is for.
    pub fn to(&self) -> u64 {
        self.parcel.to
    }

    /// What is to be done now. Reads from the disk.
    pub fn poll(&mut self, now: Instant) -> Step {
        let heard = self.exchange.heard();
        if let Some(outcome) = heard.over {
            return self.end(outcome);
        }
        if heard.words > self.words
            && let Err(reason) = self.listen(&heard, now)
        {
            return self.end(Err(reason));
        }
        let silent = now.saturating_since(self.last_word);
        let stuck = now.saturating_since(self.last_progress);
        let give_up = self.pace.give_up_after;
        if silent >= give_up || stuck >= give_up * PATIENCE_WITHOUT_PROGRESS {
            return self.end(Err("the member does not get on with it".into()));
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

    /// Returns when there may be something to do, after `patience` at the latest.
    pub fn wait(&self, patience: Duration) {
        self.exchange.wait(self.words, patience);
    }

    /// The way to the member is broken: it is asked where to go on, a little
    /// later.
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

    /// The member has spoken.
    fn listen(&mut self, heard: &Heard, now: Instant) -> Result<(), String> {
        self.words = heard.words;
        self.last_word = now;
        self.offer_at = now + self.pace.resend_after;
        while let Some(&(number, bytes)) = self.in_flight.front()
            && number < heard.written
        {
            self.in_flight.pop_front();
            self.in_flight_bytes -= bytes;
        }
        if heard.wanted > self.farthest {
            self.farthest = heard.wanted;
            self.last_progress = now;
            self.gone_back_to = None;
        }
        let missed = heard.out_of_order && self.gone_back_to != Some(heard.wanted);
        if !self.is_sending || missed {
            self.gone_back_to = heard.out_of_order.then_some(heard.wanted);
            self.go_to(heard.wanted)?;
        }
        Ok(())
    }

    /// Pieces go on from this one.
    fn go_to(&mut self, number: u64) -> Result<(), String> {
        if number > self.given {
            // Nobody can have what was never sent.
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
        self.exchange.end(Err("nobody sends it".into()));
    }
}
