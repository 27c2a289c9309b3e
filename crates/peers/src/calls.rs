//! The caller's end of a Request connection.
//!
//! ```text
//!   call lane ──► write ──► requests, cancellations ──►
//!                   │ number → reply
//!                 pending
//!                   │
//!   futures  ◄──  read  ◄── answers, in any order  ◄──
//! ```
//!
//! Both directions run side by side: answers are read while requests wait for
//! room in the socket, or two members could wait for each other for ever.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::{Buf, Bytes};

use crate::CallError;
use crate::call_lane::{CallLane, Reply};
use crate::format::{Frame, NUMBER_BYTES, role};
use crate::frames::FrameReader;
use crate::outgoing::Outgoing;
use crate::shared::Shared;
use crate::socket::{self, ReadHalf, Socket, WriteHalf};
use crate::writer::TURN_BYTES;

/// Calls that were encoded and not answered.
struct Pending<'a> {
    lane: &'a CallLane,
    replies: Mutex<HashMap<u64, Reply>>,
}

/// Until the connection breaks: why.
pub(crate) async fn run(lane: &CallLane, shared: &Shared, socket: Socket) -> String {
    let (read, write) = socket::split(socket);
    let pending = Pending {
        lane,
        replies: Mutex::default(),
    };
    let reason = tokio::select! {
        reason = pending.write(write) => reason,
        reason = pending.read(read, shared) => reason,
    };
    pending.fail(&reason);
    reason
}

/// The payload of a request or an answer.
pub(crate) fn numbered(number: u64, body: Bytes) -> [Bytes; 2] {
    [Bytes::copy_from_slice(&number.to_le_bytes()), body]
}

/// Takes the number off the payload's front.
pub(crate) fn take_number(frame: &mut Frame) -> Result<u64, String> {
    if frame.payload.len() < NUMBER_BYTES {
        let bytes = frame.payload.len();
        return Err(format!(
            "a request or answer of {bytes} bytes has no number"
        ));
    }
    Ok(frame.payload.get_u64_le())
}

impl Pending<'_> {
    async fn write(&self, mut write: WriteHalf) -> String {
        let mut outgoing = Outgoing::default();
        loop {
            self.encode(&mut outgoing);
            if outgoing.bytes() == 0 {
                self.lane.bell.heard().await;
                continue;
            }
            if let Err(error) = outgoing.write(&mut write).await {
                return error.to_string();
            }
            tokio::task::yield_now().await;
        }
    }

    fn encode(&self, outgoing: &mut Outgoing) {
        while outgoing.bytes() < TURN_BYTES {
            let Some(call) = self.lane.next() else { break };
            self.lane.link.counts.sent(1);
            self.lane.link.counts.sent_bytes(call.body.len() as u64);
            outgoing.push(call.kind, role::PLAIN, &numbered(call.number, call.body));
            let twice = self.lock().insert(call.number, call.reply);
            assert!(twice.is_none(), "number {} was used twice", call.number);
        }
        for number in self.lane.take_cancelled() {
            // Those that never went out, or were answered, are unknown here.
            if self.lock().remove(&number).is_some() {
                outgoing.push(0, role::CANCEL, &numbered(number, Bytes::new()));
            }
        }
    }

    async fn read(&self, read: ReadHalf, shared: &Shared) -> String {
        let payload_bytes_max = shared.limits.payload_bytes_max + NUMBER_BYTES;
        let gate = shared.intake.gate(self.lane.member());
        let mut frames = FrameReader::new(read, payload_bytes_max, Some(gate));
        loop {
            match frames.next().await {
                Ok(Some(frame)) => {
                    if let Err(reason) = self.answer(frame) {
                        return reason;
                    }
                }
                Ok(None) => return "the member closed it".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    }

    fn answer(&self, mut frame: Frame) -> Result<(), String> {
        let number = take_number(&mut frame)?;
        let result = match frame.role {
            role::ANSWER => Ok(frame.payload),
            role::REFUSAL => Err(CallError::Refused(frame.payload)),
            role::OVERLOAD => Err(self.lane.overloaded()),
            role::FAILURE => {
                let reason = String::from_utf8_lossy(&frame.payload);
                Err(self.lane.broken(&reason))
            }
            other => return Err(format!("an answer came with the unknown role {other}")),
        };
        let reply = self.lock().remove(&number);
        if let Some(reply) = reply {
            // The caller may have gone a moment ago.
            let _ = reply.send(result);
        }
        Ok(())
    }

    fn fail(&self, reason: &str) {
        for (_, reply) in self.lock().drain() {
            let _ = reply.send(Err(self.lane.broken(reason)));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Reply>> {
        self.replies
            .lock()
            .expect("nobody panics with this lock held")
    }
}
