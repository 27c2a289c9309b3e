//! Streams: one transfer on one connection.
//!
//! ```text
//!   opener                                   acceptor
//!     │ greetings, lane Snapshot               │
//!     │ first frame: kind and header ────────► │ Handler::stream(from, kind, header, stream)
//!     │ frames ──────────────────────────────► │
//!     │ ◄────────────────────────────── frames │
//!     │ END ─────────────────────────────────► │ receive() is None: complete
//!     │ ◄───────────────────────────────── END │
//! ```
//!
//! TCP's flow control slows a fast sender down. An explicit last frame distinguishes a
//! complete transfer from a lost connection.

use bytes::Bytes;
use tokio::sync::watch;

use crate::StreamError;
use crate::format::{WireFrame, role};
use crate::frames::FrameReader;
use crate::outgoing::Outgoing;
use crate::shared::Shared;
use crate::socket::{Socket, WriteHalf};

/// Both directions of a stream. Frames arrive whole, in order, with the kind
/// that the sender gave them.
///
/// A stream works on any thread and under any executor. To end a transfer early without
/// losing the last frames, call [`Stream::finish`] and then receive until the other side
/// finishes too: closing a connection with unread bytes resets it, and frames that were sent
/// may be lost.
pub struct Stream {
    /// Frames to the other side.
    pub sender: StreamSender,
    /// Frames from the other side.
    pub receiver: StreamReceiver,
}

/// The sending direction of a [`Stream`].
pub struct StreamSender {
    member: u64,
    /// `None` after the stream has ended.
    socket: Option<WriteHalf>,
    outgoing: Outgoing,
    payload_bytes_max: usize,
    stopping: watch::Receiver<bool>,
}

/// The receiving direction of a [`Stream`].
pub struct StreamReceiver {
    member: u64,
    state: Receiving,
    stopping: watch::Receiver<bool>,
}

enum Receiving {
    Frames(FrameReader),
    /// The sender's last frame has come.
    Ended,
    Broken,
}

/// A frame of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFrame {
    /// The kind that the sender gave it.
    pub kind: u8,
    pub payload: Bytes,
}

impl Stream {
    /// A stream to or from `member`.
    pub(crate) fn new(shared: &Shared, member: u64, socket: Socket) -> Stream {
        let payload_bytes_max = shared.options.limits.payload_bytes_max;
        let gate = shared.intake.gate(member);
        let stopping = shared.stopping.subscribe();
        let (read, write) = socket.into_inner();
        Stream {
            sender: StreamSender {
                member,
                socket: Some(write),
                outgoing: Outgoing::default(),
                payload_bytes_max,
                stopping: stopping.clone(),
            },
            receiver: StreamReceiver {
                member,
                state: Receiving::Frames(FrameReader::new(read, payload_bytes_max, Some(gate))),
                stopping,
            },
        }
    }

    /// See [`StreamSender::send`].
    pub async fn send(&mut self, kind: u8, payload: Bytes) -> Result<(), StreamError> {
        self.sender.send(kind, payload).await
    }

    /// See [`StreamSender::finish`].
    pub async fn finish(&mut self) -> Result<(), StreamError> {
        self.sender.finish().await
    }

    /// See [`StreamReceiver::receive`].
    pub async fn receive(&mut self) -> Result<Option<StreamFrame>, StreamError> {
        self.receiver.receive().await
    }
}

impl StreamSender {
    /// Sends a frame; waits while the receiver is behind. If the future is
    /// dropped, the frame may be partly sent. Then the next call sends the rest
    /// of it first, so the receiver never sees half a frame.
    pub async fn send(&mut self, kind: u8, payload: Bytes) -> Result<(), StreamError> {
        if payload.len() > self.payload_bytes_max {
            return Err(StreamError::TooLong {
                bytes: payload.len(),
                bytes_max: self.payload_bytes_max,
            });
        }
        self.flush().await?;
        self.outgoing.push(kind, role::PLAIN, &[payload]);
        self.flush().await
    }

    /// Sends the last frame, which tells the receiver that the transfer is complete.
    /// Sending afterwards fails.
    pub async fn finish(&mut self) -> Result<(), StreamError> {
        self.flush().await?;
        self.outgoing.push(0, role::END, &[]);
        self.flush().await?;
        self.socket = None;
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), StreamError> {
        let Some(socket) = &mut self.socket else {
            return Err(broken(self.member, "the stream has ended"));
        };
        let result = tokio::select! {
            // Checked first: otherwise the end of the runtime would look like a broken
            // connection.
            biased;
            () = stopped(&mut self.stopping) => Err(StreamError::Stopped),
            result = self.outgoing.write(socket) => {
                result.map_err(|error| broken(self.member, &error.to_string()))
            }
        };
        if result.is_err() {
            self.socket = None;
        }
        result
    }
}

impl StreamReceiver {
    /// Waits for the next frame. Returns `None` when the sender has finished.
    pub async fn receive(&mut self) -> Result<Option<StreamFrame>, StreamError> {
        let frames = match &mut self.state {
            Receiving::Frames(frames) => frames,
            Receiving::Ended => return Ok(None),
            Receiving::Broken => return Err(broken(self.member, "the stream has ended")),
        };
        let result = tokio::select! {
            // Checked first: otherwise the end of the runtime would look like a broken
            // connection.
            biased;
            () = stopped(&mut self.stopping) => Err(StreamError::Stopped),
            result = frames.next() => match result {
                Ok(Some(frame)) => part(frame),
                Ok(None) => Err("the connection was closed before the last frame".to_owned()),
                Err(error) => Err(error.to_string()),
            }
            .map_err(|reason| broken(self.member, &reason)),
        };
        match result {
            Ok(Some(_)) => {}
            Ok(None) => self.state = Receiving::Ended,
            Err(_) => self.state = Receiving::Broken,
        }
        result
    }
}

/// Returns the frame for the caller, or `None` for the last frame.
fn part(frame: WireFrame) -> Result<Option<StreamFrame>, String> {
    match frame.role {
        role::PLAIN => Ok(Some(StreamFrame {
            kind: frame.kind,
            payload: frame.payload,
        })),
        role::END => Ok(None),
        other => Err(format!("a frame came with the unknown role {other}")),
    }
}

fn broken(member: u64, reason: &str) -> StreamError {
    StreamError::Broken {
        member,
        reason: reason.to_owned(),
    }
}

/// Waits until the connections are stopped.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender of `stopping` is dropped: stopped as well.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
