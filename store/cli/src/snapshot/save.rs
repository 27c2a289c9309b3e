//! `inkstone snapshot save`: the state of a running server, or of a stopped one, as a file of etcd.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use environment::Clock;
use environment::real::RealClock;
use etcd_api::etcdserverpb::{SnapshotRequest, SnapshotResponse};
use etcd_snapshot::SUM_BYTES;
use server::SaveError;
use sha2::{Digest, Sha256};
use tonic::Streaming;

use crate::client::signals::EndSignals;
use crate::client::{Connection, ConnectionArguments, run_to_end};
use crate::directory::DataDirectory;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::size;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file to write; it appears when it is complete, in place of an earlier one
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Save the state of a stopped member of Inkstone, which has this data directory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
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
    fn create(target: &Path) -> io::Result<Unfinished> {
        if target.is_dir() || target.file_name().is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut name = target.as_os_str().to_owned();
        // Two that save under one name at the same time do not write to the same file.
        name.push(format!(".{}.part", std::process::id()));
        let path = PathBuf::from(name);
        let mut options = OpenOptions::new();
        // It has the hashes of passwords.
        options.write(true).create(true).truncate(true).mode(0o600);
        Ok(Unfinished {
            output: BufWriter::with_capacity(1 << 20, options.open(&path)?),
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

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match &arguments.data_dir {
        Some(directory) => save_directory(directory, &arguments.file),
        None => run_to_end(save_or_interrupted(arguments)),
    }
}

/// Saves until a signal ends it, and then removes the unfinished file.
async fn save_or_interrupted(arguments: Arguments) -> Result<(), Failure> {
    let mut signals = EndSignals::catch()?;
    tokio::select! {
        outcome = save_server(arguments) => outcome,
        _ = signals.next_is_terminate() => {
            Err(Failure::failed("interrupted: nothing was saved", ""))
        }
    }
}

fn save_directory(directory: &Path, target: &Path) -> Result<(), Failure> {
    let opened = DataDirectory::open(directory)?;
    if let Some(process) = opened.holder {
        return Err(Failure::wrong_use(
            format_args!("process {process} serves {}", directory.display()),
            "Leave --data-dir out, and name the server with --endpoint; or stop it first.",
        ));
    }
    let unwritten = |error: io::Error| unwritten(target, &error);
    let mut file = Unfinished::create(target).map_err(unwritten)?;
    let progress = RefCell::new(None);
    let planned = |bytes| *progress.borrow_mut() = Some(Progress::new("saving", bytes));
    let saved = server::save_directory(directory, planned, &mut |piece| {
        if let Some(progress) = &mut *progress.borrow_mut() {
            progress.advance(piece.len() as u64);
        }
        file.output.write_all(piece)
    });
    let saved = saved.map_err(|error| match error {
        SaveError::Directory(error) => Failure::failed(error, ""),
        SaveError::Output(error) => unwritten(error),
    })?;
    file.complete(target).map_err(unwritten)?;
    println!(
        "Snapshot saved at {}: revision {}",
        target.display(),
        saved.revision
    );
    if saved.uncommitted > 0 {
        println!(
            "{} entries of its log are left out: the member did not know that a majority has them.\n\
             Another member may have applied them: compare the revisions.",
            saved.uncommitted
        );
    }
    Ok(())
}

async fn save_server(arguments: Arguments) -> Result<(), Failure> {
    let target = &arguments.file;
    let unwritten = |error: io::Error| unwritten(target, &error);
    let mut file = Unfinished::create(target).map_err(unwritten)?;
    let connection = Connection::open(arguments.connection).await?;
    let request = connection.request(SnapshotRequest {});
    let mut maintenance = connection.maintenance();
    let opened = maintenance.snapshot(request).await;
    let messages = opened.map_err(|status| connection.refused(&status))?;
    let messages = messages.into_inner();
    let received = receive(&connection, messages, &mut file.output, target).await?;
    file.complete(target).map_err(unwritten)?;
    let (file, bytes) = (target.display(), size(received.bytes));
    println!("Snapshot saved at {file}: {bytes}, SHA-256 compared");
    println!("Server version {}", received.version);
    Ok(())
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
    mut messages: Streaming<SnapshotResponse>,
    output: &mut dyn Write,
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

fn unwritten(target: &Path, error: &io::Error) -> Failure {
    Failure::failed(
        format_args!("cannot write {}: {error}", target.display()),
        "Name a file in a folder with room that this user may write.",
    )
}
