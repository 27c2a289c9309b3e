//! Bases: whole snapshots, at the beginning of a history, from time to time, and when users have changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use backup::{BaseFile, ClusterHash, Retention, Scratch};
use etcd_api::etcdserverpb::SnapshotRequest;

use super::history::{HistoryWriter, failure};
use super::polls;
use super::queue::{Notes, now_ms};
use crate::client::observed_cluster::position;
use crate::failure::{Failure, say};
use crate::snapshot::download::receive;
use crate::table::size;

/// Pause before another attempt.
const PAUSE: Duration = Duration::from_secs(10);
/// The least time between two bases, however often users change.
const BETWEEN_BASES: Duration = Duration::from_secs(60);

/// A snapshot of the cluster in a temporary file.
struct Taken {
    // Dropping it removes the file.
    _scratch: Scratch,
    file: BaseFile,
    begun_ms: u64,
    time_ms: u64,
}

/// Makes a base whenever one is due.
pub(super) async fn make(writer: &HistoryWriter, folder: &Path) -> Result<(), Failure> {
    learn_users(writer).await?;
    loop {
        until_due(writer).await;
        match make_one(writer, folder).await {
            Ok(()) => {
                writer.said.works("base", "bases are made again");
                tokio::time::sleep(BETWEEN_BASES).await;
            }
            Err(Refused::Now(failure)) => return Err(failure),
            Err(Refused::Later(why)) => {
                let text = format!("no base was made: {}; trying again", why.what());
                writer.said.trouble("base", &text);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Why there is no base.
enum Refused {
    /// An operator has to change something.
    Now(Failure),
    /// Another attempt may work.
    Later(Failure),
}

/// Reads from the newest base which users it has.
async fn learn_users(writer: &HistoryWriter) -> Result<(), Failure> {
    let Some(base) = writer.session.newest_base() else {
        return Ok(());
    };
    match writer.session.auth_revision(&base).await {
        Ok(revision) => writer.reached.base_users.set(revision),
        // Another base follows.
        Err(error) if error.is_loss() => writer.wanted.base.notify_one(),
        Err(error) => return Err(failure(error)),
    }
    Ok(())
}

/// Waits until there is no base, the newest is old, or another part asks for one.
async fn until_due(writer: &HistoryWriter) {
    let Some(left) = time_left(writer) else {
        return;
    };
    tokio::select! {
        () = tokio::time::sleep(left) => {}
        () = writer.wanted.base.notified() => {}
    }
}

/// Time until the next base; `None` if it is due.
pub(super) fn time_left(writer: &HistoryWriter) -> Option<Duration> {
    let newest = writer.session.newest_base()?;
    let age = Duration::from_millis(now_ms().saturating_sub(newest.time_ms));
    let left = writer.rhythm.base_every.saturating_sub(age);
    (!left.is_zero()).then_some(left)
}

async fn make_one(writer: &HistoryWriter, folder: &Path) -> Result<(), Refused> {
    let taken = take(writer, folder).await?;
    let hash = check(writer, &taken.file).await?;
    let notice = |error: &_| writer.notice(error);
    let (begun_ms, time_ms) = (taken.begun_ms, taken.time_ms);
    let stored = writer
        .session
        .store_base(&taken.file, begun_ms, time_ms, &notice);
    let name = stored.await.map_err(|error| Refused::Now(failure(error)))?;
    writer.reached.base_users.set(taken.file.auth_revision);
    if hash.is_some() {
        writer.queue.add_notes(Notes {
            hash,
            ..Notes::default()
        });
    }
    say(&format!("base of revision {} is stored: {name}", name.last));
    expire(writer).await;
    Ok(())
}

/// Receives a snapshot, and reads all of it.
async fn take(writer: &HistoryWriter, folder: &Path) -> Result<Taken, Refused> {
    let target = folder.join("inkstone-backup");
    let scratch = Scratch::create(&target, "db");
    let mut scratch = scratch.map_err(|error| Refused::Now(failure(error)))?;
    let connection = writer.endpoints.any().await.map_err(Refused::Later)?;
    let header = position(&connection).await.map_err(Refused::Later)?;
    let wrong = writer.check(Some(&header));
    wrong.map_err(Refused::Now)?;
    // A snapshot is what one member has, which may be behind the others.
    let least = header.revision.max(writer.queue.received());
    let request = connection.request(SnapshotRequest {});
    let begun_ms = now_ms();
    let opened = connection.maintenance().snapshot(request).await;
    let messages = opened.map_err(|status| Refused::Later(connection.refused(&status)))?;
    let path: PathBuf = scratch.path().to_owned();
    let output = scratch.output();
    let received = receive(&connection, messages.into_inner(), output, &path).await;
    let received = received.map_err(Refused::Later)?;
    say(&format!("snapshot received: {}", size(received.bytes)));
    let flushed = scratch.flush();
    flushed.map_err(|error| Refused::Later(failure(error)))?;
    let inspected = tokio::task::spawn_blocking(move || BaseFile::inspect(&path)).await;
    let file = inspected.expect("an inspection does not panic");
    let file = file.map_err(|error| Refused::Later(failure(error)))?;
    refuse_before(file.revision, least)?;
    Ok(Taken {
        _scratch: scratch,
        file,
        begun_ms,
        time_ms: received.unix_time.as_millis() as u64,
    })
}

/// Refuses a snapshot that lacks revisions which the cluster had when it was asked for: the changes behind it
/// may begin later, and then the revisions between are nowhere.
fn refuse_before(revision: i64, least: i64) -> Result<(), Refused> {
    match revision >= least {
        true => Ok(()),
        false => Err(Refused::Later(Failure::failed(
            format_args!(
                "the snapshot ends at revision {revision}, and the cluster was at {least} before"
            ),
            "",
        ))),
    }
}

/// Compares a snapshot with the hash of the cluster, if a member answers. The hash is worth storing: restores
/// of this base are compared with it, too.
async fn check(writer: &HistoryWriter, file: &BaseFile) -> Result<Option<ClusterHash>, Refused> {
    let Some(expected) = polls::hash(writer, file.revision).await else {
        return Ok(None);
    };
    match expected.compacted == file.compacted && expected.hash != file.hash {
        false => Ok(Some(expected)),
        true => Err(Refused::Later(Failure::failed(
            format_args!(
                "the snapshot has HashKV {} at revision {}, and the cluster says {}",
                file.hash, file.revision, expected.hash
            ),
            "Compare the members with `inkstone endpoint hashkv --cluster`.",
        ))),
    }
}

/// Deletes what is older than the kept time.
async fn expire(writer: &HistoryWriter) {
    let retention = Retention {
        keep_ms: writer.rhythm.keep.as_millis() as u64,
        bases_min: writer.rhythm.bases_min,
    };
    match writer.session.expire(retention, now_ms()).await {
        Ok(0) => {}
        Ok(count) => say(&format!(
            "{count} objects are deleted that no kept revision needs"
        )),
        // The next base deletes them.
        Err(error) => writer.notice(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_of_a_member_that_lags_is_refused_for_now() {
        assert!(matches!(refuse_before(999, 1_000), Err(Refused::Later(_))));
        assert!(refuse_before(1_000, 1_000).is_ok());
    }
}
