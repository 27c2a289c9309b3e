//! Reads a base as a stream, and checks it.
//!
//! The SHA-256 comes last, so what was written to the output counts only when the reader has ended well.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::ZlibDecoder;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use sha2::{Digest, Sha256};

use crate::Error;
use crate::format::{HEADER_BYTES, SUM_BYTES};
use crate::header::Header;
use crate::name::ObjectName;
use crate::place::{BackupPlace, within};

/// Writes the database file of a base to `output`.
pub(crate) async fn read(
    place: &BackupPlace,
    name: &ObjectName,
    output: &mut dyn Write,
) -> Result<Header, Error> {
    let mut chunks = place.get(name).await?.into_stream();
    let mut begin = Vec::new();
    while begin.len() < HEADER_BYTES {
        let chunk = next(name, &mut chunks).await?;
        let chunk = chunk.ok_or_else(|| Error::damaged(name, "it was cut off"))?;
        begin.extend_from_slice(&chunk);
    }
    let header = Header::decode(name, &begin)?;
    let mut body = BasePayload::new(header, output);
    let (head, rest) = begin.split_at(HEADER_BYTES);
    body.sum.update(head);
    body.take(rest)?;
    while let Some(chunk) = next(name, &mut chunks).await? {
        body.take(&chunk)?;
    }
    body.finish()
}

type Chunks = BoxStream<'static, object_store::Result<Bytes>>;

async fn next(name: &ObjectName, chunks: &mut Chunks) -> Result<Option<Bytes>, Error> {
    let chunk = async { chunks.next().await.transpose() };
    within(name, "read", chunk).await
}

/// The part behind the header.
struct BasePayload<'o> {
    header: Header,
    sum: Sha256,
    /// The last bytes that were received: at the end, the SHA-256.
    held: Vec<u8>,
    decoder: ZlibDecoder<Bounded<'o>>,
}

impl<'o> BasePayload<'o> {
    fn new(header: Header, output: &'o mut dyn Write) -> BasePayload<'o> {
        let bounded = Bounded {
            output,
            left_bytes: header.plain_bytes,
            error: None,
        };
        BasePayload {
            header,
            sum: Sha256::new(),
            held: Vec::new(),
            decoder: ZlibDecoder::new(bounded),
        }
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.held.extend_from_slice(chunk);
        let Some(ready) = self.held.len().checked_sub(SUM_BYTES) else {
            return Ok(());
        };
        self.sum.update(&self.held[..ready]);
        let inflated = self.decoder.write_all(&self.held[..ready]);
        inflated.map_err(|_| self.fault())?;
        self.held.drain(..ready);
        Ok(())
    }

    /// Why the last bytes were not taken.
    fn fault(&mut self) -> Error {
        match self.decoder.get_mut().error.take() {
            Some(error) => Error::io("the output".as_ref(), error),
            None => Error::damaged(
                self.header.name,
                "its payload is not compressed as it should be, or has another length",
            ),
        }
    }

    fn finish(mut self) -> Result<Header, Error> {
        let ended = self.decoder.try_finish();
        ended.map_err(|_| self.fault())?;
        if self.sum.finalize()[..] != self.held[..] {
            return Err(Error::damaged(
                self.header.name,
                "its SHA-256 does not fit its bytes",
            ));
        }
        match self.decoder.get_ref().left_bytes {
            0 => Ok(self.header),
            _ => Err(Error::damaged(
                self.header.name,
                "its payload has another length",
            )),
        }
    }
}

/// Takes as many bytes as the header says, and no more.
struct Bounded<'o> {
    output: &'o mut dyn Write,
    left_bytes: u64,
    /// The error of the output, which is none of the object.
    error: Option<io::Error>,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left_bytes.checked_sub(bytes.len() as u64);
        self.left_bytes = left.ok_or(io::ErrorKind::InvalidData)?;
        if let Err(error) = self.output.write_all(bytes) {
            self.error = Some(error);
            return Err(io::ErrorKind::Other.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
