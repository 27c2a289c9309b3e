//! A file of which the bytes go to stable storage while more of them are written.
//!
//! The kernel keeps what is written until it has much of it, or a flush asks for all at once. A thread
//! that flushes now and then keeps the device at work from the beginning.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use environment::threads;

const BUFFER_BYTES: usize = 1 << 20;
/// Bytes after which the next flush is asked for.
const FLUSH_BYTES: u64 = 8 << 20;

/// The file.
pub(crate) struct FlushedFile {
    output: BufWriter<File>,
    unflushed_bytes: u64,
    flusher: Flusher,
}

/// A thread that flushes a file when it is asked. A request while one waits is that one.
struct Flusher {
    asks: SyncSender<()>,
    /// Its only message: the first failure, when all requests have been served.
    ended: Receiver<io::Result<()>>,
}

impl FlushedFile {
    pub(super) fn new(file: File) -> io::Result<FlushedFile> {
        Ok(FlushedFile {
            flusher: Flusher::of(file.try_clone()?)?,
            output: BufWriter::with_capacity(BUFFER_BYTES, file),
            unflushed_bytes: 0,
        })
    }

    /// Brings everything to stable storage.
    pub(super) fn complete(mut self) -> io::Result<()> {
        self.output.flush()?;
        self.flusher.end()?;
        self.output.get_ref().sync_all()
    }
}

impl Write for FlushedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        self.unflushed_bytes += written as u64;
        if self.unflushed_bytes >= FLUSH_BYTES {
            self.unflushed_bytes = 0;
            self.flusher.ask();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

impl Flusher {
    fn of(file: File) -> io::Result<Flusher> {
        let (asks, asked) = sync_channel(1);
        let (ends, ended) = sync_channel(1);
        threads::spawn("flush", move || {
            // The kernel reports a failure to one flush alone, so the first one counts.
            let flushed = asked.iter().try_for_each(|()| file.sync_data());
            // The writer may have given up.
            let _ = ends.send(flushed);
        })?;
        Ok(Flusher { asks, ended })
    }

    fn ask(&self) {
        match self.asks.try_send(()) {
            // The end has the reason why the thread is gone.
            Ok(()) | Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => {}
        }
    }

    fn end(self) -> io::Result<()> {
        drop(self.asks);
        let ended = self.ended.recv();
        ended.unwrap_or_else(|_| Err(io::Error::other("the thread that flushes it has ended")))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "files of the tests' own")]

    use super::*;

    #[test]
    fn all_bytes_are_there_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = FlushedFile::new(File::create(&path).unwrap()).unwrap();
        let bytes: Vec<u8> = (0..3 * FLUSH_BYTES as usize + 5)
            .map(|at| at as u8)
            .collect();
        for piece in bytes.chunks(100_000) {
            file.write_all(piece).unwrap();
        }
        file.complete().unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes);
    }

    #[test]
    fn a_failed_flush_fails_the_file() {
        // A pipe takes bytes, and cannot be flushed.
        let (_reader, writer) = io::pipe().unwrap();
        let mut file = FlushedFile::new(File::from(std::os::fd::OwnedFd::from(writer))).unwrap();
        file.flusher.ask();
        file.write_all(b"x").unwrap();
        file.complete().unwrap_err();
    }
}
