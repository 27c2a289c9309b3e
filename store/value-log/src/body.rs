//! The records of a group by themselves, as they travel from log to log.
//!
//! ```text
//!   leader                              follower
//!   records ──encode──► Body ──network──► Body::verify ──► append_bodies
//!                         └──► append_bodies     the same bytes, another frame
//! ```
//!
//! A frame's header belongs to one log (segment, epoch, sequence, chain); its
//! records do not, and their checksums go with them: what a follower writes
//! was verified against what the leader computed.

use bytes::{Bytes, BytesMut};

use crate::record::{self, RecordHeader, records_bytes};
use crate::{Error, Record};

/// The encoded records of one group, all of them valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body(Bytes);

/// A body that grows record by record.
#[derive(Debug)]
pub struct BodyBuilder(BytesMut);

impl BodyBuilder {
    /// A builder without records that has room for `bytes`
    /// ([`Log::record_bytes`](crate::Log::record_bytes)).
    pub fn with_capacity(bytes: usize) -> BodyBuilder {
        BodyBuilder(BytesMut::with_capacity(bytes))
    }

    /// Adds a record.
    pub fn push(&mut self, record: &Record<'_>) {
        let at = self.0.len();
        let record_bytes = record::record_bytes(record.payload_bytes());
        self.0.resize(at + record_bytes, 0);
        let encoded_bytes = record::encode(&mut self.0[at..], record);
        assert_eq!(encoded_bytes, record_bytes, "a record fills its stretch");
    }

    /// The body with all records added.
    pub fn finish(self) -> Body {
        Body(self.0.freeze())
    }
}

impl Body {
    /// Encodes records.
    pub fn encode(records: &[Record<'_>]) -> Body {
        let mut body = BodyBuilder::with_capacity(records_bytes(records));
        records.iter().for_each(|record| body.push(record));
        body.finish()
    }

    /// Makes a body of bytes from elsewhere; an error if any record in them does not verify.
    pub fn verify(bytes: Bytes) -> Result<Body, Error> {
        let mut covered = 0;
        for (at, header, record) in record::walk(&bytes) {
            if header.verify(record).is_none() || !is_padded_with_zeros(&header, record) {
                return Err(unfit(at));
            }
            covered = at + record.len();
        }
        if covered == bytes.len() {
            Ok(Body(bytes))
        } else {
            Err(unfit(covered))
        }
    }

    /// Makes a body of bytes that [`Body::verify`] has accepted before.
    pub fn verified_before(bytes: Bytes) -> Body {
        Body(bytes)
    }

    /// The body without its last record, and that record; `None` when there is
    /// none.
    pub fn split_last(&self) -> Option<(Body, u8, Bytes)> {
        let (at, kind, payload) = self.records().last()?;
        Some((Body(self.0.slice(..at)), kind, payload))
    }

    /// The bytes that were encoded.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Offset in the body, kind and payload of each record. The payloads share
    /// the body's memory.
    pub fn records(&self) -> impl Iterator<Item = (usize, u8, Bytes)> {
        record::split(&self.0)
    }

    /// Bytes of each record, its header and its zeros included.
    pub fn record_bytes(&self) -> impl Iterator<Item = u64> {
        record::walk(&self.0).map(|(_, _, record)| record.len() as u64)
    }

    /// Where each record starts in the body.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = usize> {
        record::walk(&self.0).map(|(at, _, _)| at)
    }
}

/// Equal logs hold equal bytes, padding included.
fn is_padded_with_zeros(header: &RecordHeader, record: &[u8]) -> bool {
    let end = crate::format::RECORD_HEADER_BYTES + header.payload_bytes;
    record[end..].iter().all(|&byte| byte == 0)
}

fn unfit(at: usize) -> Error {
    Error::Misuse {
        what: format!(
            "the encoded group has no valid record at byte {at}; it was damaged on its way"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> Body {
        let record = |kind, parts| Record { kind, parts };
        Body::encode(&[
            record(1, &[b"ab", b"cde"]),
            record(9, &[]),
            record(2, &[b"12345678"]),
        ])
    }

    #[test]
    fn records_come_back_from_bytes_that_came_from_elsewhere() {
        let there = Body::verify(body().bytes().clone()).unwrap();
        let found: Vec<_> = there.records().collect();
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        assert_eq!(
            found,
            [
                (0, 1, bytes("abcde")),
                (24, 9, bytes("")),
                (40, 2, bytes("12345678"))
            ]
        );
        assert_eq!(Body::verify(Bytes::new()).unwrap(), Body::encode(&[]));
        let (rest, kind, payload) = there.split_last().unwrap();
        assert_eq!(
            (rest.records().count(), kind, &payload[..]),
            (2, 2, &b"12345678"[..])
        );
        assert_eq!(Body::default().split_last(), None);
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_noticed() {
        let good = body().bytes().to_vec();
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Body::verify(bytes.into()).is_err(), "bit {bit}");
        }
        let whole = [0, 24, 40, 64];
        for length in (0..good.len()).filter(|length| !whole.contains(length)) {
            let cut = Bytes::copy_from_slice(&good[..length]);
            assert!(Body::verify(cut).is_err(), "{length} bytes");
        }
    }
}
