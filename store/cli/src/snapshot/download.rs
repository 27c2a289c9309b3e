//! Receives the snapshot of a running server into a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use environment::Clock;
use environment::real::RealClock;
use etcd_api::etcdserverpb::{SnapshotRequest, SnapshotResponse};
use etcd_api::inkstonepb::{CompressedBlock, CompressedSnapshotRequest};
use etcd_snapshot::SUM_BYTES;
use flate2::read::DeflateDecoder;
use futures_util::{Stream, StreamExt};
use sha2::{Digest, Sha256};
use tonic::{Code, Status};

use super::flushed_file::FlushedFile;
use crate::client::Connection;
use crate::failure::Failure;
use crate::progress::Progress;

/// Most bytes of a part in one compressed block.
const BLOCK_BYTES_MAX: u32 = 1 << 20;

/// A file that is not complete yet. Dropping it removes it.
pub(crate) struct Unfinished {
    pub(crate) path: PathBuf,
    /// `None` when it is complete.
    output: Option<FlushedFile>,
    is_complete: bool,
}

impl Unfinished {
    pub(super) fn create(target: &Path) -> io::Result<Unfinished> {
        if target.is_dir() || target.file_name().is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut name = target.as_os_str().to_owned();
        // Two that save under one name at the same time do not write to the same file.
        name.push(format!(".{}.part", std::process::id()));
        let path = PathBuf::from(name);
        let mut options = OpenOptions::new();
        // It has the hashes of passwords.
        options.write(true).create_new(true).mode(0o600);
        Ok(Unfinished {
            output: Some(FlushedFile::new(options.open(&path)?)?),
            path,
            is_complete: false,
        })
    }

    fn output(&mut self) -> io::Result<&mut FlushedFile> {
        let complete = || io::Error::other("it is complete");
        self.output.as_mut().ok_or_else(complete)
    }

    /// Gives it the name of the target, once it is on stable storage.
    #[expect(clippy::disallowed_methods, reason = "a file that an operator names")]
    pub(super) fn complete(mut self, target: &Path) -> io::Result<()> {
        if let Some(output) = self.output.take() {
            output.complete()?;
        }
        fs::rename(&self.path, target)?;
        self.is_complete = true;
        let folder = target.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output()?.flush()
    }
}

impl Drop for Unfinished {
    #[expect(clippy::disallowed_methods, reason = "a file that an operator names")]
    fn drop(&mut self) {
        if !self.is_complete {
            // The failure that is reported is the one before.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Receives a snapshot into a file beside `target`, all of it written and its checksum compared.
pub(crate) async fn download(
    connection: &Connection,
    target: &Path,
    compressed: bool,
) -> Result<(Unfinished, Received), Failure> {
    let unwritten = |error: io::Error| unwritten(target, &error);
    let mut file = Unfinished::create(target).map_err(unwritten)?;
    let received = match compressed {
        true => {
            let request = connection.request(CompressedSnapshotRequest {});
            let opened = connection.snapshots().compressed(request).await;
            let blocks = opened.map_err(|status| uncompressed(connection, &status))?;
            let messages = blocks.into_inner().map(|block| inflate(block?));
            receive(connection, messages, &mut file, target).await?
        }
        false => {
            let request = connection.request(SnapshotRequest {});
            let opened = connection.maintenance().snapshot(request).await;
            let messages = opened.map_err(|status| connection.refused(&status))?;
            receive(connection, messages.into_inner(), &mut file, target).await?
        }
    };
    // It may be read before it is complete.
    file.flush().map_err(unwritten)?;
    Ok((file, received))
}

/// A snapshot that was received.
pub(crate) struct Received {
    pub(crate) bytes: u64,
    pub(crate) version: String,
    /// When the first message arrived.
    pub(crate) unix_time: Duration,
}

/// Writes what the server sends, and compares it with the checksum that comes last.
pub(crate) async fn receive(
    connection: &Connection,
    mut messages: impl Stream<Item = Result<SnapshotResponse, Status>> + Unpin,
    output: &mut dyn Write,
    target: &Path,
) -> Result<Received, Failure> {
    let (mut sum, mut progress) = (Sha256::new(), None);
    let (mut received, mut last) = (None, None);
    loop {
        let Some(message) = messages.next().await else {
            break;
        };
        let message = message.map_err(|status| connection.refused(&status))?;
        // The one before was not the last: it is a part of the file.
        if let Some(before) = last.replace(message.blob) {
            sum.update(&before);
        }
        let blob = last.as_deref().unwrap_or_default();
        let written = output.write_all(blob);
        written.map_err(|error| unwritten(target, &error))?;
        let total = message.remaining_bytes + blob.len() as u64;
        let received = received.get_or_insert(Received {
            bytes: 0,
            version: message.version,
            unix_time: RealClock.unix_time(),
        });
        received.bytes += blob.len() as u64;
        progress
            .get_or_insert_with(|| Progress::new("saving", total))
            .advance(blob.len() as u64);
    }
    let is_whole =
        last.is_some_and(|last| last.len() as u64 == SUM_BYTES && sum.finalize()[..] == last);
    received.filter(|_| is_whole).ok_or_else(|| {
        Failure::failed(
            "the snapshot is not whole: the SHA-256 behind its last page does not fit",
            "Nothing was written. Try again, or name another member with --endpoint.",
        )
    })
}

/// The failure of a server that sends no compressed snapshots.
fn uncompressed(connection: &Connection, status: &Status) -> Failure {
    match status.code() {
        Code::Unimplemented => Failure::failed(
            "the server does not compress snapshots: it is an etcd, or of an earlier release",
            "Leave --compress out.",
        ),
        _ => connection.refused(status),
    }
}

/// A part of the file from a compressed block.
fn inflate(block: CompressedBlock) -> Result<SnapshotResponse, Status> {
    let damaged = || Status::data_loss("the server sent a block that cannot be decompressed");
    if block.bytes > BLOCK_BYTES_MAX {
        return Err(damaged());
    }
    let mut blob = Vec::with_capacity(block.bytes as usize);
    let limit = u64::from(block.bytes) + 1;
    let inflated = DeflateDecoder::new(&block.deflated[..])
        .take(limit)
        .read_to_end(&mut blob);
    match inflated {
        Ok(bytes) if bytes == block.bytes as usize => Ok(SnapshotResponse {
            header: None,
            remaining_bytes: block.remaining_bytes,
            blob: blob.into(),
            version: block.version,
        }),
        _ => Err(damaged()),
    }
}

pub(super) fn unwritten(target: &Path, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::Interrupted {
        return Failure::failed("interrupted: nothing was saved", "");
    }
    Failure::failed(
        format_args!("cannot write {}: {error}", target.display()),
        "Name a file in a folder with room that this user may write.",
    )
}
