//! Authenticated records: only a holder of the connection's keys can have written them.
//!
//! ```text
//!   record: ┌─────────┬───────┬────────────────┐
//!           │ length  │ bytes │ tag, 16 bytes  │   tag = HMAC(key, number, length, bytes)
//!           └─────────┴───────┴────────────────┘
//! ```
//!
//! Each direction has its own key and counts its own records, so that a record that is left
//! out, repeated, moved or sent back does not pass. No byte of a record is handed out before
//! its tag was verified. The bytes are not encrypted.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hmac::{KeyInit, Mac};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::secret::{HASH_BYTES, Keyed};

/// Most bytes that one record carries.
const RECORD_BYTES_MAX: usize = 64 << 10;
const LENGTH_BYTES: usize = 4;
const TAG_BYTES: usize = 16;
/// Bytes of a record besides those that it carries.
const FRAMING_BYTES: usize = LENGTH_BYTES + TAG_BYTES;

/// Computes the tags of one direction's records.
struct Tags {
    fresh: Keyed,
    number: u64,
}

impl Tags {
    fn new(key: &[u8; HASH_BYTES]) -> Tags {
        Tags {
            fresh: Keyed::new_from_slice(key).expect("HMAC takes keys of any length"),
            number: 0,
        }
    }

    /// The keyed hash of the next record, over its length field and bytes.
    fn next(&mut self, length_and_bytes: &[u8]) -> Keyed {
        let mut keyed = self.fresh.clone();
        keyed.update(&self.number.to_le_bytes());
        keyed.update(length_and_bytes);
        self.number += 1;
        keyed
    }
}

/// Reads records and verifies their tags.
pub(crate) struct Opener {
    tags: Tags,
    /// Bytes as they came from the socket: `start..end` is not verified yet.
    raw: Box<[u8]>,
    start: usize,
    end: usize,
    /// Part of `raw` that is verified and not handed out yet.
    opened: std::ops::Range<usize>,
}

impl Opener {
    pub fn new(key: &[u8; HASH_BYTES]) -> Opener {
        Opener {
            tags: Tags::new(key),
            raw: vec![0; RECORD_BYTES_MAX + FRAMING_BYTES].into(),
            start: 0,
            end: 0,
            opened: 0..0,
        }
    }

    /// Reads verified bytes from `socket` into `out`. Reads nothing if the connection has
    /// ended between two records.
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut (impl AsyncRead + Unpin),
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.opened.is_empty() {
            if self.open()? {
                continue;
            }
            self.make_room();
            let mut buffer = ReadBuf::new(&mut self.raw[self.end..]);
            ready!(Pin::new(&mut *socket).poll_read(context, &mut buffer))?;
            match buffer.filled().len() {
                0 if self.start == self.end => return Poll::Ready(Ok(())),
                0 => return Poll::Ready(Err(cut_off())),
                read => self.end += read,
            }
        }
        let count = self.opened.len().min(out.remaining());
        out.put_slice(&self.raw[self.opened.start..self.opened.start + count]);
        self.opened.start += count;
        Poll::Ready(Ok(()))
    }

    /// Verifies the next record. Returns false if it has not come completely.
    fn open(&mut self) -> io::Result<bool> {
        let raw = &self.raw[self.start..self.end];
        let Some(length) = raw.first_chunk::<LENGTH_BYTES>() else {
            return Ok(false);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > RECORD_BYTES_MAX {
            return Err(altered());
        }
        let whole = length + FRAMING_BYTES;
        if raw.len() < whole {
            return Ok(false);
        }
        let (sealed, tag) = raw[..whole].split_at(LENGTH_BYTES + length);
        let tags = self.tags.next(sealed);
        tags.verify_truncated_left(tag).map_err(|_| altered())?;
        self.opened = self.start + LENGTH_BYTES..self.start + LENGTH_BYTES + length;
        self.start += whole;
        Ok(true)
    }

    /// Moves the unverified bytes to the front, so that there is room for a whole record.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.raw.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }
}

/// Writes bytes in records.
pub(crate) struct Sealer {
    tags: Tags,
    /// The record that is being written; empty if there is none.
    record: Vec<u8>,
    /// Bytes of `record` that are written.
    written: usize,
    /// Bytes that `record` carries.
    carried: usize,
}

impl Sealer {
    pub fn new(key: &[u8; HASH_BYTES]) -> Sealer {
        Sealer {
            tags: Tags::new(key),
            record: Vec::new(),
            written: 0,
            carried: 0,
        }
    }

    /// Writes a record with the first bytes of `slices`, and returns the number of these
    /// bytes. After `Pending`, the record is partly written, and the next call must pass
    /// slices that begin with the same bytes.
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut (impl AsyncWrite + Unpin),
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.record.is_empty() && !self.seal(slices) {
            return Poll::Ready(Ok(0));
        }
        while self.written < self.record.len() {
            let rest = &self.record[self.written..];
            match ready!(Pin::new(&mut *socket).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        self.record.clear();
        self.written = 0;
        Poll::Ready(Ok(self.carried))
    }

    /// Builds the next record. Returns false if `slices` are empty.
    fn seal(&mut self, slices: &[IoSlice<'_>]) -> bool {
        self.record.extend_from_slice(&[0; LENGTH_BYTES]);
        for slice in slices {
            let room = RECORD_BYTES_MAX + LENGTH_BYTES - self.record.len();
            self.record
                .extend_from_slice(&slice[..slice.len().min(room)]);
        }
        self.carried = self.record.len() - LENGTH_BYTES;
        if self.carried == 0 {
            self.record.clear();
            return false;
        }
        let length = (self.carried as u32).to_le_bytes();
        self.record[..LENGTH_BYTES].copy_from_slice(&length);
        let tag = self.tags.next(&self.record).finalize().into_bytes();
        self.record.extend_from_slice(&tag[..TAG_BYTES]);
        true
    }
}

fn altered() -> io::Error {
    let what = "a record came that the member did not send: records were altered, left out or \
                repeated on the way";
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn cut_off() -> io::Error {
    let what = "the connection was closed in the middle of a record";
    io::Error::new(io::ErrorKind::UnexpectedEof, what)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use environment::randomness::Random;
    use tokio::io::AsyncWriteExt;

    use super::*;

    const KEY: [u8; HASH_BYTES] = [3; HASH_BYTES];

    /// Puts `bytes` into records.
    async fn seal(bytes: &[u8]) -> Vec<u8> {
        let mut sealer = Sealer::new(&KEY);
        let (mut records, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let slices = [
                IoSlice::new(&rest[..rest.len() / 2]),
                IoSlice::new(&rest[rest.len() / 2..]),
            ];
            let written =
                poll_fn(|context| sealer.poll_write(context, &mut records, &slices)).await;
            rest = &rest[written.unwrap()..];
        }
        records
    }

    /// Sends `records` through a narrow pipe and opens them.
    async fn open(records: Vec<u8>) -> io::Result<Vec<u8>> {
        let (mut near, mut far) = tokio::io::duplex(1000);
        // The write fails if the reader has met a bad record.
        tokio::spawn(async move { near.write_all(&records).await });
        let (mut opener, mut all) = (Opener::new(&KEY), Vec::new());
        loop {
            let mut piece = [0; 777];
            let mut out = ReadBuf::new(&mut piece);
            poll_fn(|context| opener.poll_read(context, &mut far, &mut out)).await?;
            if out.filled().is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(out.filled());
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn sealed_bytes_are_opened_unchanged() {
        let mut random = Random::from_seed(1);
        for length in [1, 100, RECORD_BYTES_MAX, 5 * RECORD_BYTES_MAX + 77] {
            let mut bytes = vec![0; length];
            random.fill(&mut bytes);
            assert!(open(seal(&bytes).await).await.unwrap() == bytes, "{length}");
        }
    }

    /// If this fails, the protocol has changed; the tag is that of another implementation.
    #[tokio::test(flavor = "current_thread")]
    async fn a_record_is_the_documented_one() {
        let record = seal(b"ink on stone").await;
        let hex: String = record.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = "0c000000696e6b206f6e2073746f6e654fb6cd501d13081ab2f24f5dfa3a5027";
        assert_eq!(hex, expected);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_record_with_a_flipped_bit_is_refused() {
        let good = seal(b"ink on stone").await;
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(open(bad).await.is_err(), "bit {bit}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn records_that_are_cut_off_repeated_left_out_or_moved_are_refused() {
        let mut sealer = Sealer::new(&KEY);
        let mut records = Vec::new();
        for text in [&b"one"[..], b"two"] {
            let mut record = Vec::new();
            let slices = [IoSlice::new(text)];
            let written = poll_fn(|context| sealer.poll_write(context, &mut record, &slices));
            assert_eq!(written.await.unwrap(), 3);
            records.push(record);
        }
        let [one, two]: [Vec<u8>; 2] = records.try_into().unwrap();
        let both: Vec<u8> = [one.clone(), two.clone()].concat();
        assert_eq!(open(both.clone()).await.unwrap(), b"onetwo");
        for bad in [
            [one.clone(), one.clone()].concat(),
            [two.clone(), one.clone()].concat(),
            two,
            both[..both.len() - 1].to_vec(),
        ] {
            assert!(open(bad).await.is_err());
        }
    }
}
