//! Reports of the snapshots that this member sends and receives.
//!
//! A snapshot counts from its first piece: offers that are declined are no transfers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use environment::{Clock, Instant};

use crate::lock::lock;
use crate::{Observer, PeerMessage, Transfer};

/// The transfers under way, as the messages of the connections show them.
#[derive(Debug)]
pub(crate) struct SnapshotTraffic {
    clock: Arc<dyn Clock>,
    observer: Option<Arc<dyn Observer>>,
    /// The transfer under way from each member, its number and its beginning.
    receiving: Mutex<HashMap<u64, (u64, Instant)>>,
}

impl SnapshotTraffic {
    pub fn new(clock: Arc<dyn Clock>, observer: Option<Arc<dyn Observer>>) -> SnapshotTraffic {
        SnapshotTraffic {
            clock,
            observer,
            receiving: Mutex::default(),
        }
    }

    /// Notes a message that this member receives.
    pub fn received(&self, from: u64, message: &PeerMessage) {
        let (PeerMessage::SnapshotPiece { id, .. }, Some(observer)) = (message, &self.observer)
        else {
            return;
        };
        let now = self.clock.now();
        let mut receiving = lock(&self.receiving);
        let before = receiving.get(&from).copied();
        if before.is_some_and(|(before, _)| before == *id) {
            return;
        }
        receiving.insert(from, (*id, now));
        drop(receiving);
        if let Some((_, began)) = before {
            let took = now.saturating_since(began);
            observer.snapshot_ended(Transfer::Received, from, false, took);
        }
        observer.snapshot_began(Transfer::Received, from);
    }

    /// Notes a message that this member sends.
    pub fn sent(&self, to: u64, message: &PeerMessage) {
        let (PeerMessage::SnapshotOver { id, outcome }, Some(observer)) = (message, &self.observer)
        else {
            return;
        };
        let mut receiving = lock(&self.receiving);
        let Some((_, began)) = receiving.get(&to).copied().filter(|(it, _)| it == id) else {
            return;
        };
        receiving.remove(&to);
        drop(receiving);
        let took = self.clock.now().saturating_since(began);
        observer.snapshot_ended(Transfer::Received, to, outcome.is_ok(), took);
    }

    /// Begins to report a transfer to a member.
    pub fn sending(&self, to: u64) -> Sending<'_> {
        Sending {
            traffic: self,
            to,
            began: None,
        }
    }
}

/// A transfer to a member, until its end.
#[derive(Debug)]
pub(crate) struct Sending<'a> {
    traffic: &'a SnapshotTraffic,
    to: u64,
    /// When the first piece was sent.
    began: Option<Instant>,
}

impl Sending<'_> {
    /// Notes a message of the transfer.
    pub fn note(&mut self, message: &PeerMessage) {
        let is_first = matches!(message, PeerMessage::SnapshotPiece { .. }) && self.began.is_none();
        if let (true, Some(observer)) = (is_first, &self.traffic.observer) {
            self.began = Some(self.traffic.clock.now());
            observer.snapshot_began(Transfer::Sent, self.to);
        }
    }

    /// Reports the end.
    pub fn end(self, success: bool) {
        if let (Some(began), Some(observer)) = (self.began, &self.traffic.observer) {
            let took = self.traffic.clock.now().saturating_since(began);
            observer.snapshot_ended(Transfer::Sent, self.to, success, took);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use environment::simulated::SimulatedClock;

    use super::*;
    use crate::observer::testing::Seen;

    fn piece(id: u64) -> PeerMessage {
        let bytes = bytes::Bytes::new();
        PeerMessage::SnapshotPiece { id, bytes }
    }

    fn over(id: u64, success: bool) -> PeerMessage {
        let outcome = if success { Ok(()) } else { Err(String::new()) };
        PeerMessage::SnapshotOver { id, outcome }
    }

    fn traffic() -> (SimulatedClock, Arc<Seen>, SnapshotTraffic) {
        let (clock, seen) = (SimulatedClock::stepped(), Arc::new(Seen::default()));
        let observer = Arc::clone(&seen) as Arc<dyn Observer>;
        let traffic = SnapshotTraffic::new(Arc::new(clock.clone()), Some(observer));
        (clock, seen, traffic)
    }

    #[test]
    fn a_received_snapshot_counts_from_its_first_piece_to_its_end() {
        let (clock, seen, traffic) = traffic();
        traffic.sent(2, &over(7, true));
        assert!(seen.take().is_empty(), "it was offered and not needed");
        for _ in 0..2 {
            traffic.received(2, &piece(8));
            clock.advance(Duration::from_secs(1));
        }
        traffic.sent(2, &over(7, true));
        traffic.sent(2, &over(8, true));
        traffic.sent(2, &over(8, true));
        assert_eq!(
            seen.take(),
            ["began Received 2", "ended Received 2 true 2s"]
        );
    }

    #[test]
    fn a_received_snapshot_fails_when_the_next_one_replaces_it() {
        let (_, seen, traffic) = traffic();
        traffic.received(2, &piece(8));
        traffic.received(2, &piece(9));
        traffic.sent(2, &over(9, false));
        let expected = [
            "began Received 2",
            "ended Received 2 false 0ns",
            "began Received 2",
            "ended Received 2 false 0ns",
        ];
        assert_eq!(seen.take(), expected);
    }

    #[test]
    fn a_sent_snapshot_counts_if_a_piece_was_sent() {
        let (clock, seen, traffic) = traffic();
        traffic.sending(2).end(false);
        let mut sending = traffic.sending(3);
        sending.note(&over(1, true));
        (0..2).for_each(|_| sending.note(&piece(1)));
        clock.advance(Duration::from_secs(2));
        sending.end(true);
        assert_eq!(seen.take(), ["began Sent 3", "ended Sent 3 true 2s"]);
    }
}
