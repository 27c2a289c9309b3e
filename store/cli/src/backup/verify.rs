//! `inkstone backup verify`: reads every object, and restores the newest revision into a temporary file.

use std::path::PathBuf;

use backup::{BackupHistory, BackupPlace, Catalog, Moment, Scratch};

use super::destination;
use super::history::failure;
use super::list::Source;
use super::restore::describe;
use crate::failure::{FAILED, Failure, say};
use crate::progress::Progress;

/// Read every object, and restore the newest revision into a temporary file
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Ends with an error if an object is damaged, revisions are missing within a history, or the newest
revision cannot be restored with the HashKV that the cluster had.

Examples:
  inkstone backup verify --from /backups
  inkstone backup verify --from s3://bucket/etcd --work-dir /large")]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Folder for temporary files, as large as the store three times over; default: that of the
    /// system
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
}

pub(super) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let source = &arguments.source;
    let place = destination::open(&source.from)?;
    let catalog = Catalog::read(&place).await.map_err(failure)?;
    let (newest, revision) = catalog
        .find(&place, source.selection(), Moment::Newest)
        .await
        .map_err(failure)?;
    let of_cluster = catalog.of_cluster(newest.cluster);
    let wanted = of_cluster.filter(|it| source.history.is_none_or(|id| id == it.id));
    let mut faults = 0;
    for history in wanted {
        faults += check(&place, history).await?;
    }
    let folder = arguments.work_dir.unwrap_or_else(std::env::temp_dir);
    let scratch = Scratch::create(&folder.join("inkstone-verify"), "db").map_err(failure)?;
    match backup::restore(&place, newest, revision, scratch.path()).await {
        Ok(restored) => println!(
            "revision {revision} can be restored: {}",
            describe(&restored)
        ),
        Err(error) => {
            faults += 1;
            say(&format!("revision {revision} cannot be restored: {error}"));
        }
    }
    match faults {
        0 => Ok(()),
        _ => Err(Failure::Reported { exit: FAILED }),
    }
}

/// Reads the objects of a history; returns how many faults were found.
async fn check(place: &BackupPlace, history: &BackupHistory) -> Result<usize, Failure> {
    let mut progress = Progress::new("reading", history.bytes());
    let checked = backup::verify(place, history, |bytes| progress.advance(bytes)).await;
    drop(progress);
    let damaged = checked.map_err(failure)?;
    for (_, error) in &damaged {
        say(&error.to_string());
    }
    let gaps = history.gaps();
    for (first, last) in &gaps {
        say(&format!(
            "history {:x}: revisions {first} to {last} are missing",
            history.id
        ));
    }
    println!(
        "history {:x}: {} objects read, {} damaged, {} gaps",
        history.id,
        history.objects().count(),
        damaged.len(),
        gaps.len()
    );
    Ok(damaged.len() + gaps.len())
}
