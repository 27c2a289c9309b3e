//! `inkstone snapshot save`: the state of a running server as a file of etcd.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use etcd_api::etcdserverpb::{SnapshotRequest, SnapshotResponse};
use sha2::{Digest, Sha256};
use tonic::Streaming;

use crate::client::{Connection, ConnectionArguments};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::size;

/// Bytes of the checksum that the server sends last.
const SUM_BYTES: usize = 32;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file to write; it appears when it is complete, in place of an earlier one
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// A file that is not complete yet. Dropping it removes it.
struct Unfinished {
    path: PathBuf,
    output: BufWriter<File>,
    is_complete: bool,
}

impl Unfinished {
    #[expect(clippy::disallowed_methods, reason = "a file that an operator names")]
    fn create(target: &Path) -> io::Result<Unfinished> {
        let mut name = target.as_os_str().to_owned();
        name.push(".part");
        let path = PathBuf::from(name);
        Ok(Unfinished {
            output: BufWriter::with_capacity(1 << 20, File::create(&path)?),
            path,
            is_complete: false,
        })
    }

    /// Gives it the name of the target, once it is on stable storage.
    #[expect(clippy::disallowed_methods, reason = "a file that an operator names")]
    fn complete(mut self, target: &Path) -> io::Result<()> {
        self.output.flush()?;
        self.output.get_ref().sync_all()?;
        fs::rename(&self.path, target)?;
        self.is_complete = true;
        let folder = target.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
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

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let target = &arguments.file;
    let connection = Connection::open(arguments.connection).await?;
    let request = connection.request(SnapshotRequest {});
    let mut maintenance = connection.maintenance();
    let opened = maintenance.snapshot(request).await;
    let messages = opened.map_err(|status| connection.refused(&status))?;
    let unwritten = |error: io::Error| unwritten(target, &error);
    let mut file = Unfinished::create(target).map_err(unwritten)?;
    let received = receive(&connection, messages.into_inner(), &mut file, target).await?;
    file.complete(target).map_err(unwritten)?;
    let (file, bytes) = (target.display(), size(received.bytes));
    println!("Snapshot saved at {file}: {bytes}, SHA-256 compared");
    println!("Server version {}", received.version);
    Ok(())
}

struct Received {
    bytes: u64,
    version: String,
}

/// Writes what the server sends, and compares it with the checksum that comes last.
async fn receive(
    connection: &Connection,
    mut messages: Streaming<SnapshotResponse>,
    file: &mut Unfinished,
    target: &Path,
) -> Result<Received, Failure> {
    let (mut sum, mut progress) = (Sha256::new(), None);
    let (mut received, mut last) = (None, None);
    loop {
        let message = messages.message().await;
        let Some(message) = message.map_err(|status| connection.refused(&status))? else {
            break;
        };
        // The one before was not the last: it is a part of the file.
        if let Some(before) = last.replace(message.blob) {
            sum.update(&before);
        }
        let blob = last.as_deref().unwrap_or_default();
        let written = file.output.write_all(blob);
        written.map_err(|error| unwritten(target, &error))?;
        let total = message.remaining_bytes + blob.len() as u64;
        let received = received.get_or_insert_with(|| Received {
            bytes: 0,
            version: message.version,
        });
        received.bytes += blob.len() as u64;
        progress
            .get_or_insert_with(|| Progress::new("saving", total))
            .advance(blob.len() as u64);
    }
    let is_whole = last.is_some_and(|last| last.len() == SUM_BYTES && sum.finalize()[..] == last);
    received.filter(|_| is_whole).ok_or_else(|| {
        Failure::failed(
            "the snapshot is not whole: the SHA-256 behind its last page does not fit",
            "Nothing was written. Try again, or name another member with --endpoint.",
        )
    })
}

fn unwritten(target: &Path, error: &io::Error) -> Failure {
    Failure::failed(
        format_args!("cannot write {}: {error}", target.display()),
        "Name a file in a folder with room that this user may write.",
    )
}
