//! `inkstone snapshot save`: the state of a running server, or of a stopped one, as a file of etcd.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use server::SaveError;

use super::download::{Unfinished, download, unwritten};
use super::etcd_directory::EtcdArguments;
use super::{etcd_directory, own_directory};
use crate::client::signals::{EndSignals, Interruption};
use crate::client::{Connection, ConnectionArguments, run_to_end};
use crate::failure::Failure;
use crate::progress::LateProgress;
use crate::table::size;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file to write; it appears when it is complete, in place of an earlier one
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Save the state of a stopped member, Inkstone or etcd, which has this data directory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    etcd: EtcdArguments,
    /// Let the server compress what it sends, for a network that is slower than 100 MB/s or so; an etcd
    /// does not do it
    #[arg(long, conflicts_with = "data_dir")]
    compress: bool,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match &arguments.data_dir {
        Some(directory) if etcd_directory::is_etcd(directory) => {
            etcd_directory::save(directory, &arguments.etcd, &arguments.file)
        }
        Some(_) if arguments.etcd.are_given() => Err(Failure::wrong_use(
            "--wal-dir and --with-uncommitted are for data directories of etcd, which have a file \
                 member/snap/db",
            "Leave them out for a directory of Inkstone.",
        )),
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
    own_directory::check_stopped(directory)?;
    let unwritten = |error: io::Error| unwritten(target, &error);
    let interruption = Interruption::catch()?;
    let mut file = Unfinished::create(target).map_err(unwritten)?;
    let shown = LateProgress::default();
    let planned = |bytes| shown.begin("saving", bytes);
    let saved = server::save_directory(directory, planned, &mut |piece| {
        shown.advance(piece.len() as u64);
        interruption.check()?;
        file.write_all(piece)
    });
    let saved = saved.map_err(|error| match error {
        SaveError::Output(error) => unwritten(error),
        error => Failure::failed(error, ""),
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
    let connection = Connection::open(arguments.connection).await?;
    let (file, received) = download(&connection, target, arguments.compress).await?;
    file.complete(target)
        .map_err(|error| unwritten(target, &error))?;
    let (file, bytes) = (target.display(), size(received.bytes));
    println!("Snapshot saved at {file}: {bytes}, SHA-256 compared");
    println!("Server version {}", received.version);
    Ok(())
}
