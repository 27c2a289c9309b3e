//! `inkstone backup restore`: an etcd database file of a revision.

use std::path::PathBuf;

use backup::{BackupHistory, BackupPlace, Catalog, Error, Moment, Restored};

use super::destination;
use super::history::failure;
use super::list::Source;
use super::moments::{moment, shown};
use crate::failure::{Failure, say};

/// How often the place is listed until the revision of a time is known.
const LISTS_MAX: u32 = 5;

/// Make an etcd database file of a revision
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file is that of `inkstone snapshot save`: `inkstone snapshot restore` and `etcdutl snapshot
restore` make a data directory of it. It appears under its name when every object was checked and
HashKV is the one that the cluster had. Beside it, room for the store three times over is needed.

Examples:
  inkstone backup restore store.db --from /backups
  inkstone backup restore store.db --from s3://bucket/etcd --at 2026-11-27T05:30:00Z
  inkstone backup restore store.db --from /backups --at-revision 1000
  inkstone snapshot restore store.db --data-dir restored.inkstone")]
pub(crate) struct Arguments {
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Restore this revision instead of the newest
    #[arg(long, value_name = "REVISION", conflicts_with = "at", value_parser = clap::value_parser!(i64).range(1..))]
    at_revision: Option<i64>,
    /// Restore what the cluster was at this time, in UTC, by the clock of `backup run`
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<u64>,
}

pub(super) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let source = &arguments.source;
    let place = destination::open(&source.from)?;
    let asked = match (arguments.at_revision, arguments.at) {
        (Some(revision), _) => Moment::Revision(revision),
        (None, Some(time_ms)) => Moment::Time(time_ms),
        (None, None) => Moment::Newest,
    };
    let (history, revision) = find(&place, source, asked).await.map_err(failure)?;
    let (id, cluster, file) = (history.id, history.cluster, &arguments.file);
    let restored = backup::restore(&place, &history, revision, file).await;
    let restored = restored.map_err(failure)?;
    for (_, error) in &restored.replaced {
        say(&format!("{error}. Other objects have the same"));
    }
    println!(
        "Restored at {}: revision {revision} of cluster {cluster:x}, history {id:x}",
        file.display()
    );
    println!("{}", describe(&restored));
    Ok(())
}

/// The history and the revision that are asked for. An object that is read for that may be merged into another
/// one in the meantime.
async fn find(
    place: &BackupPlace,
    source: &Source,
    asked: Moment,
) -> Result<(BackupHistory, i64), Error> {
    let mut lists = 0;
    loop {
        lists += 1;
        let catalog = Catalog::read(place).await?;
        match catalog.find(place, source.selection(), asked).await {
            Err(error) if error.is_missing() && lists < LISTS_MAX => {}
            found => return found.map(|(history, revision)| (history.clone(), revision)),
        }
    }
}

/// A line about the objects that were read, and the hash that was compared.
pub(super) fn describe(restored: &Restored) -> String {
    let (base, changes) = (restored.base, restored.changes);
    let time = shown(restored.time_ms);
    let compared = match restored.compared {
        Some(hash) => format!("HashKV of revision {} is the cluster's", hash.revision),
        None => "SHA-256 of all objects compared; the backup has no HashKV of the cluster for \
                 these revisions yet"
            .to_owned(),
    };
    format!("received at {time}; base {base} and {changes} objects behind it; {compared}")
}
