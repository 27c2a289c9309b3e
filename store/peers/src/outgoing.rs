//! Encodes frames and writes them to a socket.
//!
//! ```text
//!   scratch: │ header small │ header │ header small header small │
//!   shared:                          │ large part │
//!   pieces:  [ scratch 0..n ] [ large part ] [ scratch n..m ]  ──► one writev
//! ```
//!
//! Headers and small parts are copied into one scratch buffer, because a separate piece
//! costs the kernel more than the copy; large parts are never copied. The
//! position survives an unfinished write, so that a dropped future never cuts a frame short.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::AsyncWrite;

use crate::format::FrameHeader;

/// Parts up to this size are copied after their header.
const COPIED_BYTES_MAX: usize = 2 << 10;
/// Most pieces of one write call.
const PIECES_MAX: usize = 64;

enum Piece {
    /// A range of the scratch buffer.
    Copied(Range<usize>),
    Shared(Bytes),
}

/// Encoded frames that are not written, or not completely.
#[derive(Default)]
pub(crate) struct Outgoing {
    scratch: Vec<u8>,
    pieces: Vec<Piece>,
    /// Bytes of all frames in here, including those that are written already.
    bytes: usize,
    /// The piece at which the next write continues; `offset` bytes of it are written.
    piece: usize,
    offset: usize,
}

impl Outgoing {
    /// Bytes of all frames in here; 0 after everything is written.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a frame with `parts`, end to end, as its payload.
    pub fn push(&mut self, kind: u8, role: u8, parts: &[Bytes]) {
        let length: usize = parts.iter().map(Bytes::len).sum();
        let length = u32::try_from(length).expect("the caller has refused frames over the limit");
        let header = FrameHeader::encode(kind, role, length, parts.iter().map(|part| &part[..]));
        self.copy(&header);
        for part in parts {
            if part.len() <= COPIED_BYTES_MAX {
                self.copy(part);
            } else {
                self.bytes += part.len();
                self.pieces.push(Piece::Shared(part.clone()));
            }
        }
    }

    fn copy(&mut self, bytes: &[u8]) {
        let start = self.scratch.len();
        self.scratch.extend_from_slice(bytes);
        self.bytes += bytes.len();
        let end = self.scratch.len();
        match self.pieces.last_mut() {
            Some(Piece::Copied(range)) if range.end == start => range.end = end,
            _ => self.pieces.push(Piece::Copied(start..end)),
        }
    }

    /// Writes all frames. After a dropped call, the next call continues where it ended.
    pub async fn write(&mut self, socket: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        poll_fn(|context| self.poll_write(context, socket)).await
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        while self.piece < self.pieces.len() {
            let mut slices = [IoSlice::new(&[]); PIECES_MAX];
            let count = self.fill(&mut slices);
            assert!(
                count > 0,
                "a write of nothing would look like a closed socket"
            );
            let socket = Pin::new(&mut *socket);
            let written = ready!(socket.poll_write_vectored(context, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        self.clear();
        Poll::Ready(Ok(()))
    }

    fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let rest = &self.pieces[self.piece..];
        for (index, (slice, piece)) in slices.iter_mut().zip(rest).enumerate() {
            let skipped = if index == 0 { self.offset } else { 0 };
            *slice = IoSlice::new(&self.bytes_of(piece)[skipped..]);
        }
        rest.len().min(slices.len())
    }

    fn bytes_of<'a>(&'a self, piece: &'a Piece) -> &'a [u8] {
        match piece {
            Piece::Copied(range) => &self.scratch[range.clone()],
            Piece::Shared(bytes) => bytes,
        }
    }

    fn advance(&mut self, mut written: usize) {
        while written > 0 {
            assert!(self.piece < self.pieces.len(), "more written than offered");
            let left = self.bytes_of(&self.pieces[self.piece]).len() - self.offset;
            if written < left {
                self.offset += written;
                return;
            }
            written -= left;
            self.piece += 1;
            self.offset = 0;
        }
    }

    /// Removes the frames; the scratch buffer keeps its memory.
    fn clear(&mut self) {
        self.scratch.clear();
        self.pieces.clear();
        (self.bytes, self.piece, self.offset) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::decoder::Decoder;

    /// Writes many frames with small and large parts through a pipe that takes a few bytes
    /// at a time.
    #[tokio::test(flavor = "current_thread")]
    async fn pushed_frames_arrive_unchanged() {
        let (mut near, mut far) = tokio::io::duplex(1_000);
        let large = Bytes::from(vec![9; 5_000]);
        let mut outgoing = Outgoing::default();
        for number in 0..200_u8 {
            let small = Bytes::from(vec![number; usize::from(number)]);
            outgoing.push(number, 0, &[small.clone(), large.clone(), small]);
            outgoing.push(number, 1, &[]);
        }
        let all = outgoing.bytes();
        let writer = async {
            outgoing.write(&mut near).await.unwrap();
            drop(near);
        };
        let mut came = Vec::new();
        let ((), read) = tokio::join!(writer, far.read_to_end(&mut came));
        assert_eq!(read.unwrap(), all);

        let mut decoder = Decoder::new(1 << 20);
        decoder.room().extend_from_slice(&came);
        for number in 0..200_u8 {
            let frame = decoder.next().unwrap().unwrap();
            assert_eq!((frame.kind, frame.role), (number, 0));
            let small = usize::from(number);
            assert_eq!(frame.payload.len(), 2 * small + 5_000);
            assert!(frame.payload[small..small + 5_000] == large[..]);
            assert_eq!(decoder.next().unwrap().unwrap().role, 1);
        }
        assert!(decoder.is_between_frames());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_write_after_a_dropped_one_continues_where_it_ended() {
        let (mut near, mut far) = tokio::io::duplex(64);
        let mut outgoing = Outgoing::default();
        outgoing.push(1, 0, &[Bytes::from(vec![5; 300])]);
        {
            let write = outgoing.write(&mut near);
            tokio::pin!(write);
            let first = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await;
            assert!(first.is_pending(), "the pipe is full");
        }
        let mut came = vec![0; 312];
        let (written, read) = tokio::join!(outgoing.write(&mut near), far.read_exact(&mut came));
        written.unwrap();
        read.unwrap();
        let mut decoder = Decoder::new(1 << 20);
        decoder.room().extend_from_slice(&came);
        assert_eq!(decoder.next().unwrap().unwrap().payload.len(), 300);
    }
}
