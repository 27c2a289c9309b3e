//! Bytes in records that only a holder of the connection's keys can have written.
//!
//! ```text
//!   record: ┌─────────┬───────┬────────────────┐
//!           │ length  │ bytes │ tag, 16 bytes  │   tag = HMAC(key, number, length, bytes)
//!           └─────────┴───────┴────────────────┘
//! ```
//!
//! Each direction has a key and numbers of its own, so that a record that is left out,
//! doubled, moved or sent back does not pass. Nothing of a record is handed out before its
//! tag was compared. The bytes themselves can be read by anything on the way.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hmac::{KeyInit, Mac};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::secret::{HASH_BYTES, Keyed};

/// Bytes that one record carries at most.
const RECORD_BYTES_MAX: usize = 64 << 10;
const LENGTH_BYTES: usize = 4;
const TAG_BYTES: usize = 16;
/// What is not the bytes that are carried.
const FRAMING_BYTES: usize = LENGTH_BYTES + TAG_BYTES;

/// The keyed hash of the next record, without its bytes.
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

    /// Over a length and its bytes, as they lie in the record.
    fn next(&mut self, length_and_bytes: &[u8]) -> Keyed {
        let mut keyed = self.fresh.clone();
        keyed.update(&self.number.to_le_bytes());
        keyed.update(length_and_bytes);
        self.number += 1;
        keyed
    }
}

/// Takes records apart.
pub(crate) struct Opener {
    tags: Tags,
    /// As it came: `start..end` was read and not taken apart.
    raw: Box<[u8]>,
    start: usize,
    end: usize,
    /// Part of `raw` whose tag was compared, and that was not handed out.
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

    /// Reads from `socket` what records carry; nothing at the end between two records.
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

    /// Takes the next record apart, if all of it has come.
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

    /// There is room for a whole record behind `start`.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.raw.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }
}

/// Puts bytes into records.
pub(crate) struct Sealer {
    tags: Tags,
    /// A record on its way.
    record: Vec<u8>,
    /// How much of it is written.
    written: usize,
    /// The bytes that it carries.
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

    /// Writes a record with the beginning of `slices`: how many of their bytes. As long
    /// as it is pending, a record is on its way, and the next call is to begin with the
    /// same bytes.
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

    /// False: there is nothing to be put into a record.
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
    let what = "a record came that the member did not send: something on the way has altered, \
                left out or repeated one";
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn cut_off() -> io::Error {
    let what = "it was closed in the middle of a record";
    io::Error::new(io::ErrorKind::UnexpectedEof, what)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use environment::randomness::Random;
    use tokio::io::AsyncWriteExt;

    use super::*;

    const KEY: [u8; HASH_BYTES] = [3; HASH_BYTES];

    /// The records of `bytes`.
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

    /// What comes out of records that come through a narrow pipe.
    async fn open(records: Vec<u8>) -> io::Result<Vec<u8>> {
        let (mut near, mut far) = tokio::io::duplex(1000);
        // The reader may have seen enough.
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
    async fn what_is_sealed_comes_out_whole() {
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
    async fn each_flipped_bit_is_noticed() {
        let good = seal(b"ink on stone").await;
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(open(bad).await.is_err(), "bit {bit}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn records_that_are_cut_off_repeated_left_out_or_moved_are_noticed() {
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
