//! `inkstone snapshot save --data-dir` with the data directory of an etcd that has stopped.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bolt::DatabaseFile;
use etcd_snapshot::FileState;
use etcd_wal::{Base, Tail};
use server::{SaveError, SavedEtcd};

use super::download::{Unfinished, unwritten};
use super::opened::failure;
use crate::client::signals::Interruption;
use crate::failure::Failure;
use crate::progress::{LateProgress, Progress};

/// Flags about the directory of an etcd.
#[derive(Debug, clap::Args)]
pub(super) struct EtcdArguments {
    /// The write-ahead log of a stopped etcd that was started with --wal-dir [default:
    /// DIR/member/wal]
    #[arg(long, value_name = "DIR", requires = "data_dir")]
    wal_dir: Option<PathBuf>,
    /// Take also the uncommitted entries of a stopped etcd: those of which it did not know that a majority
    /// has them. Right for the member with the newest log, if all have stopped for good
    #[arg(long, requires = "data_dir")]
    with_uncommitted: bool,
}

impl EtcdArguments {
    pub(super) fn are_given(&self) -> bool {
        self.wal_dir.is_some() || self.with_uncommitted
    }
}

/// Whether the directory is one of etcd.
pub(super) fn is_etcd(directory: &Path) -> bool {
    database_of(directory).exists()
}

fn database_of(directory: &Path) -> PathBuf {
    directory.join("member").join("snap").join("db")
}

pub(super) fn save(
    directory: &Path,
    arguments: &EtcdArguments,
    target: &Path,
) -> Result<(), Failure> {
    let path = database_of(directory);
    let file = etcd_snapshot::open(&path, true, |_, _| ());
    let file = file.map_err(|error| failure(&path, error))?;
    let mut progress = Progress::new("checking pages", file.size_bytes());
    let checked = file.check(|bytes| progress.advance(bytes));
    checked.map_err(|error| Failure::failed(error, ""))?;
    drop(progress);

    let state = FileState::read(&file).map_err(|error| failure(&path, error))?;
    let log = directory.join("member").join("wal");
    let log = arguments.wal_dir.as_ref().unwrap_or(&log);
    let base = Base {
        index: state.index,
        term: state.term,
    };
    let mut tail = Tail::read(log, base).map_err(|error| Failure::failed(error, ""))?;
    let member = tail.member_id();
    if !state.members.iter().any(|it| it.id == member) {
        return Err(Failure::failed(
            format_args!(
                "{} is the log of member {member:x}, which is no member of the cluster of {}",
                log.display(),
                path.display()
            ),
            "Name the log of the same server with --wal-dir, or take the directory of another member.",
        ));
    }
    let takes_all = arguments.with_uncommitted || is_majority(&state, &tail);
    let uncommitted = tail.uncommitted();
    if !takes_all {
        tail.drop_uncommitted();
    }
    let saved = write(&file, &tail, target)?;
    report(target, state.index, &tail, saved);
    if let Some((file, offset)) = tail.cut_off() {
        println!(
            "{} ends at byte {offset} with a record that was not written whole, as after a crash.\n\
             The bytes behind it are not read.",
            file.display()
        );
    }
    if uncommitted > 0 && !takes_all {
        report_left_out(uncommitted, &tail);
    }
    Ok(())
}

/// Whether the member that wrote the log is the only voter, so that its log is a majority by itself.
fn is_majority(state: &FileState, tail: &Tail) -> bool {
    let voters = state.members.iter().filter(|member| !member.is_learner);
    let voters: Vec<u64> = voters.map(|voter| voter.id).collect();
    voters == [tail.member_id()] && !tail.changes_members()
}

fn write(file: &DatabaseFile, tail: &Tail, target: &Path) -> Result<SavedEtcd, Failure> {
    let unwritten = |error: io::Error| unwritten(target, &error);
    let interruption = Interruption::catch()?;
    let mut output = Unfinished::create(target).map_err(unwritten)?;
    let progress = LateProgress::default();
    progress.begin("reading", 2 * file.size_bytes());
    let saved = server::save_etcd(
        (file, tail),
        &scratch_of(target),
        &mut |bytes| {
            progress.advance(bytes);
            interruption.goes_on()
        },
        |bytes| progress.begin("saving", bytes),
        &mut |piece| {
            progress.advance(piece.len() as u64);
            interruption.check()?;
            output.write_all(piece)
        },
    );
    let saved = saved.map_err(|error| match error {
        SaveError::Output(error) => unwritten(error),
        error => Failure::failed(error, ""),
    })?;
    output.complete(target).map_err(unwritten)?;
    Ok(saved)
}

/// The directory for the state until the file is written.
fn scratch_of(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".{}.replaying", std::process::id()));
    name.into()
}

fn report(target: &Path, base: u64, tail: &Tail, saved: SavedEtcd) {
    println!(
        "Snapshot saved at {}: revision {}",
        target.display(),
        saved.revision
    );
    let (entries, replayed) = (tail.last() - base, saved.replayed);
    if entries > 0 {
        println!(
            "{entries} entries of the write-ahead log were not in member/snap/db, which ends at entry \
             {base}:\n{} requests were carried out, and {} refused, as in etcd.",
            replayed.done, replayed.refused
        );
    }
}

fn report_left_out(uncommitted: u64, tail: &Tail) {
    let (term, last) = (tail.term(), tail.last());
    println!(
        "{uncommitted} entries behind entry {last} are left out: the member, last in term {term}, did \
         not know that\na majority has them, and another member may have applied them. If all members \
         have stopped\nand this one has the newest log, by term and then by entries, add \
         --with-uncommitted."
    );
}
