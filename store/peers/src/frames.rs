//! Reads frames from a socket.

use std::io;
use std::pin::Pin;

use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::time::Sleep;

use crate::decoder::{Decoder, Malformed};
use crate::format::WireFrame;
use crate::intake::{Gate, Room, SMALL_BYTES_MAX};
use crate::socket::ReadHalf;

/// Bytes that are read before the other tasks of the thread get a turn.
const TURN_BYTES: usize = 1 << 20;

/// Why no frame can be read any more.
#[derive(Debug, Error)]
pub(crate) enum Ended {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("the connection was closed in the middle of a frame")]
    Cut,
    #[error("the rest of a frame did not come in time")]
    Stalled,
}

pub(crate) struct FrameReader {
    socket: ReadHalf,
    decoder: Decoder,
    /// Reserves room for large frames. `None` for a question or an answer of an inquiry,
    /// which has its own bounds of size and time.
    gate: Option<Gate>,
    /// Reservation for the large frame that is being received.
    room: Option<Room>,
    /// Bytes that were read since this reader last yielded.
    read_bytes: usize,
}

impl FrameReader {
    pub fn new(socket: ReadHalf, payload_bytes_max: usize, gate: Option<Gate>) -> FrameReader {
        FrameReader {
            socket,
            decoder: Decoder::new(payload_bytes_max),
            gate,
            room: None,
            read_bytes: 0,
        }
    }

    /// Waits for the next frame. Returns `None` when the other side has closed the connection
    /// between two frames. Dropping the future loses no bytes.
    pub async fn next(&mut self) -> Result<Option<WireFrame>, Ended> {
        let mut time = None;
        loop {
            if let Some(frame) = self.decoder.next()? {
                self.room = None;
                return Ok(Some(frame));
            }
            if self.read_bytes >= TURN_BYTES {
                self.read_bytes = 0;
                tokio::task::yield_now().await;
            }
            if self.take_room().await || (time.is_none() && !self.decoder.is_between_frames()) {
                time = self.time_for_the_rest();
            }
            match self.read(&mut time).await? {
                0 if self.decoder.is_between_frames() => return Ok(None),
                0 => return Err(Ended::Cut),
                read => self.read_bytes += read,
            }
        }
    }

    /// Waits for room if a large frame has begun to arrive and has no reservation. Returns
    /// whether it got one.
    async fn take_room(&mut self) -> bool {
        let (Some(gate), None) = (&self.gate, &self.room) else {
            return false;
        };
        match self.decoder.announced() {
            Some(bytes) if bytes > SMALL_BYTES_MAX => {
                self.room = Some(gate.room(bytes).await);
                true
            }
            _ => false,
        }
    }

    /// A sleep that ends at the time limit of the frame that is being received.
    fn time_for_the_rest(&self) -> Option<Pin<Box<Sleep>>> {
        let bytes = self.decoder.announced().unwrap_or(SMALL_BYTES_MAX);
        let gate = self.gate.as_ref()?;
        Some(Box::pin(gate.sleep(gate.time_for(bytes))))
    }

    async fn read(&mut self, time: &mut Option<Pin<Box<Sleep>>>) -> Result<usize, Ended> {
        let read = self.socket.read_buf(self.decoder.room());
        let (Some(time), Some(gate)) = (time, &self.gate) else {
            return Ok(read.await?);
        };
        tokio::select! {
            biased;
            read = read => Ok(read?),
            () = gate.sleep(gate.stall_max()) => Err(Ended::Stalled),
            () = time => Err(Ended::Stalled),
        }
    }
}
