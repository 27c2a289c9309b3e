//! Writes the queued messages of a lane to its connection.

use std::pin::pin;

use bytes::Bytes;
use tokio::io::AsyncReadExt;

use crate::format::role;
use crate::message_lane::{MessageBatch, MessageLane};
use crate::outgoing::Outgoing;
use crate::shared::Shared;
use crate::socket::{ReadHalf, Socket};

/// Bytes that are encoded and written before the other tasks of the thread get a turn.
pub(crate) const TURN_BYTES: usize = 256 << 10;

/// Writer of a lane. It outlives connections: messages that were taken from the queue and not
/// encoded are written to the next one.
pub(crate) struct MessageWriter<'a> {
    pub lane: &'a MessageLane,
    taken: MessageBatch,
    parts: Vec<Bytes>,
}

/// Frames of one turn. If they are dropped before they are written, their messages count as
/// dropped.
struct Turn<'a> {
    lane: &'a MessageLane,
    outgoing: Outgoing,
    messages: u64,
    payload_bytes: usize,
    /// For [`MessageLane::release`] when the turn is over.
    cost: usize,
}

impl<'a> MessageWriter<'a> {
    pub fn new(lane: &'a MessageLane) -> MessageWriter<'a> {
        MessageWriter {
            lane,
            taken: MessageBatch::default(),
            parts: Vec::new(),
        }
    }

    /// See [`MessageLane::give_up`].
    pub fn give_up(&mut self) {
        self.lane.give_up(&mut self.taken);
    }

    /// Writes queued messages until the connection breaks. Returns the reason.
    pub async fn run(&mut self, shared: &Shared, socket: Socket) -> String {
        let (read, mut write) = socket.into_inner();
        let mut closed = pin!(closed(read));
        let mut turn = Turn {
            lane: self.lane,
            outgoing: Outgoing::default(),
            messages: 0,
            payload_bytes: 0,
            cost: 0,
        };
        loop {
            self.encode(shared, &mut turn);
            if turn.messages == 0 {
                tokio::select! {
                    () = self.lane.bell.heard() => continue,
                    reason = &mut closed => return reason,
                }
            }
            tokio::select! {
                result = turn.outgoing.write(&mut write) => match result {
                    Ok(()) => turn.written(),
                    Err(error) => return error.to_string(),
                },
                reason = &mut closed => return reason,
            }
            tokio::task::yield_now().await;
        }
    }

    /// Fills `turn` with messages, and drops those that are too old.
    fn encode(&mut self, shared: &Shared, turn: &mut Turn<'_>) {
        let now = shared.now();
        while turn.outgoing.bytes() < TURN_BYTES {
            if self.taken.is_empty() {
                self.lane.take(&mut self.taken);
            }
            let Some(message) = self.taken.pop(&mut self.parts) else {
                return;
            };
            let age = now.saturating_since(message.at);
            if self.lane.age_max.is_some_and(|age_max| age > age_max) {
                self.lane.release(message.cost());
                self.lane.link.counts.dropped_old(1);
                continue;
            }
            turn.outgoing.push(message.kind, role::PLAIN, &self.parts);
            turn.messages += 1;
            turn.payload_bytes += message.payload_bytes;
            turn.cost += message.cost();
        }
    }
}

impl Turn<'_> {
    fn written(&mut self) {
        assert_eq!(
            self.outgoing.bytes(),
            0,
            "frames of the turn are not written"
        );
        let counts = &self.lane.link.counts;
        counts.sent(self.messages);
        counts.sent_bytes(self.payload_bytes as u64);
        self.lane.release(self.cost);
        (self.messages, self.payload_bytes, self.cost) = (0, 0, 0);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.lane.release(self.cost);
        self.lane.link.counts.dropped_broken(self.messages);
    }
}

/// Waits until the other side closes the connection, and returns the reason. The other side
/// must not send bytes on a one-way lane.
async fn closed(mut read: ReadHalf) -> String {
    match read.read_u8().await {
        Ok(_) => "bytes came back on a one-way lane".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the member closed it".to_owned()
        }
        Err(error) => error.to_string(),
    }
}
