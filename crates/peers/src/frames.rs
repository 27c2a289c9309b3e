//! Frames from a socket, one after the other.

use std::io;

use thiserror::Error;
use tokio::io::AsyncReadExt;

use crate::decoder::{Decoder, Malformed};
use crate::format::Frame;
use crate::socket::ReadHalf;

/// Bytes after which others on the network thread get their turn.
const TURN_BYTES: usize = 1 << 20;

/// Why no frame follows.
#[derive(Debug, Error)]
pub(crate) enum Ended {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("it was closed in the middle of a frame")]
    Cut,
}

pub(crate) struct FrameReader {
    socket: ReadHalf,
    decoder: Decoder,
    /// Since the last turn of others.
    read_bytes: usize,
}

impl FrameReader {
    pub fn new(socket: ReadHalf, payload_bytes_max: usize) -> FrameReader {
        FrameReader {
            socket,
            decoder: Decoder::new(payload_bytes_max),
            read_bytes: 0,
        }
    }

    /// The next frame; none when the other side closed the connection between
    /// two frames. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<Frame>, Ended> {
        loop {
            if let Some(frame) = self.decoder.next()? {
                return Ok(Some(frame));
            }
            if self.read_bytes >= TURN_BYTES {
                self.read_bytes = 0;
                tokio::task::yield_now().await;
            }
            match self.socket.read_buf(self.decoder.room()).await? {
                0 if self.decoder.is_between_frames() => return Ok(None),
                0 => return Err(Ended::Cut),
                read => self.read_bytes += read,
            }
        }
    }
}
