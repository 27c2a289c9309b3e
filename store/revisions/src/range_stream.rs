//! A range in chunks, all at one revision.
//!
//! The first chunk is small, so that the client gets keys soon; the number of keys of the next
//! chunks is doubled or halved until they have about the wanted size. Header, count and `more`
//! come with the last chunk. Between two chunks the stream holds no resources, so a slow client
//! costs nothing, but a compaction between two chunks can end the stream with an error.

use bytes::{BufMut, Bytes, BytesMut};
use etcd_api::etcdserverpb::{RangeRequest, RangeResponse};
use prost::Message;

use crate::header::header;
use crate::key_range::KeyRange;
use crate::{Error, Reader};

/// Keys in the first chunk.
const FIRST_CHUNK_KEYS: i64 = 10;

/// An iterator over the chunks of one range; see [`Reader::range_stream`].
#[derive(Debug)]
pub struct RangeStream {
    reader: Reader,
    /// The request for the remaining keys.
    request: RangeRequest,
    /// Most keys that the client wants.
    limit: i64,
    /// Keys that were returned so far.
    given: i64,
    /// Approximate limit of a chunk's size.
    chunk_bytes: usize,
    /// Newest revision when the stream began; 0 before the first chunk.
    revision: i64,
    finished: bool,
}

impl RangeStream {
    pub(crate) fn new(
        reader: Reader,
        mut request: RangeRequest,
        chunk_bytes: usize,
    ) -> RangeStream {
        let limit = if request.limit == 0 {
            i64::MAX
        } else {
            request.limit
        };
        request.limit = FIRST_CHUNK_KEYS.min(limit);
        RangeStream {
            reader,
            request,
            limit,
            given: 0,
            chunk_bytes,
            revision: 0,
            finished: false,
        }
    }

    /// A stream without any chunk.
    pub fn ended(reader: &Reader) -> RangeStream {
        RangeStream {
            finished: true,
            ..RangeStream::new(reader.clone(), RangeRequest::default(), 0)
        }
    }

    fn chunk(&mut self) -> Result<RangeResponse, Error> {
        let mut chunk = self.reader.range(&self.request)?;
        if self.request.count_only {
            self.finished = true;
            return Ok(chunk);
        }
        self.pin(&chunk);
        self.given += i64::try_from(chunk.kvs.len()).expect("a count of keys in memory");
        let size_bytes = chunk.encoded_len();
        self.finished = !chunk.more || self.given == self.limit;
        if chunk.more {
            let last = chunk.kvs.last().expect("more keys follow a last one");
            self.request.key = successor(last.key());
        }
        if self.finished {
            chunk.header = header(self.revision);
            chunk.count = self.given + if chunk.more { self.count_rest()? } else { 0 };
        } else {
            self.adjust(size_bytes);
            chunk = RangeResponse {
                kvs: chunk.kvs,
                ..RangeResponse::default()
            };
        }
        Ok(chunk)
    }

    /// Makes all chunks read at the revision of the first one.
    fn pin(&mut self, first: &RangeResponse) {
        if self.revision == 0 {
            self.revision = first.header.as_ref().map_or(0, |header| header.revision);
            if self.request.revision == 0 {
                self.request.revision = self.revision;
            }
        }
    }

    /// Counts the keys that were not returned yet.
    fn count_rest(&self) -> Result<i64, Error> {
        let keys = KeyRange::of_request(&self.request.key, &self.request.range_end);
        self.reader.count(keys, self.request.revision)
    }

    /// Doubles or halves the keys per chunk until their bytes fit; the dead
    /// zone between keeps it from swinging.
    fn adjust(&mut self, size_bytes: usize) {
        let keys = self.request.limit;
        let keys = match size_bytes {
            small if small < self.chunk_bytes / 2 => keys.saturating_mul(2),
            large if large > self.chunk_bytes.saturating_mul(2) => (keys / 2).max(1),
            _ => keys,
        };
        self.request.limit = keys.min(self.limit - self.given);
        assert!(
            self.request.limit > 0,
            "a stream without a rest has finished"
        );
    }
}

impl Iterator for RangeStream {
    type Item = Result<RangeResponse, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let chunk = self.chunk();
        self.finished |= chunk.is_err();
        Some(chunk)
    }
}

/// The smallest key above this one.
fn successor(key: &[u8]) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.put_slice(key);
    next.put_u8(0);
    next.freeze()
}
