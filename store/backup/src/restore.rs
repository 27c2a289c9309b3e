//! Restores a revision: one etcd database file from a base and the changes behind it.
//!
//! ```text
//!   base ──► file ─┐                    ┌─► lengths ─┐
//!                  ├─► rows, ascending ─┤            ├─► file ──► HashKV compared ──► its name
//!   changes ─► spool ┘                  └─► bytes  ──┘
//! ```

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;

use bolt::DatabaseFile;
use bytes::Bytes;
use etcd_snapshot::{FileState, RowKey, SnapshotPlan};

use crate::batch::{ChangeBatch, ClusterHash};
use crate::catalog::BackupHistory;
use crate::leases::LeasesAt;
use crate::moment::explain;
use crate::name::ObjectName;
use crate::place::{BackupPlace, reading};
use crate::plan::RestorePlan;
use crate::restore_source::RestoreSource;
use crate::scratch::Scratch;
use crate::spool::Spool;
use crate::{Error, base_reader};

/// A restore that has ended well.
#[derive(Debug)]
pub struct Restored {
    /// The newest revision of the file.
    pub revision: i64,
    /// When it was received; Unix, in milliseconds.
    pub time_ms: u64,
    /// Revision of the base.
    pub base: i64,
    /// Number of objects with changes that were read.
    pub changes: usize,
    /// The hash of the cluster that was compared; `None` if the backup has none for these revisions.
    pub compared: Option<ClusterHash>,
    /// Objects that could not be used, each replaced by others, with the reason.
    pub replaced: Vec<(ObjectName, Error)>,
}

/// Objects that were read for a restore.
struct Fetched {
    base: Scratch,
    spool: Spool,
    leases: LeasesAt,
    hashes: Vec<ClusterHash>,
    time_ms: u64,
    /// The first revision that was not read yet.
    next: i64,
    /// Number of objects with changes that were read.
    changes: usize,
}

/// Writes the file `target`, which appears when everything about it was checked. An object that is damaged or
/// missing is replaced by others, if others have what it had. It may run beside a process that merges.
pub async fn restore(
    place: &BackupPlace,
    history: &BackupHistory,
    revision: i64,
    target: &Path,
) -> Result<Restored, Error> {
    let mut source = RestoreSource::new(place, history);
    loop {
        let plan = match source.left().plan(revision) {
            Ok(plan) => plan,
            Err(_) => return Err(unplanned(history, revision, source.finish())),
        };
        match fetch(&mut source, &plan, target).await {
            Ok(fetched) => return assemble(&plan, fetched, target, source.finish()),
            Err((Some(name), error)) if error.is_loss() => source.give_up(name, error).await?,
            Err((_, error)) => return Err(error),
        }
    }
}

/// The error where no plan is left.
fn unplanned(history: &BackupHistory, revision: i64, replaced: Vec<(ObjectName, Error)>) -> Error {
    let Some((name, error)) = replaced.into_iter().next() else {
        return explain(history, revision);
    };
    let earlier = match name.is_base() {
        true => String::new(),
        false => format!(", such as {}", name.first - 1),
    };
    Error::Unavailable(format!(
        "{error}. No other objects restore revision {revision}: name another one{earlier} \
         (`list` shows the ranges, `verify` all damaged objects)"
    ))
}

type Fault = (Option<ObjectName>, Error);

async fn fetch(
    source: &mut RestoreSource<'_>,
    plan: &RestorePlan,
    target: &Path,
) -> Result<Fetched, Fault> {
    let local = |error| (None, error);
    let mut fetched = Fetched {
        base: fetch_base(source.place(), &plan.base, target).await?,
        spool: Spool::create(target).map_err(local)?,
        leases: LeasesAt::default(),
        hashes: Vec::new(),
        time_ms: plan.base.time_ms,
        next: plan.base.last + 1,
        changes: 0,
    };
    let mut left = VecDeque::from(plan.changes.clone());
    while let Some(name) = left.pop_front() {
        match source.place().read(&name).await {
            Ok(opened) => {
                let taken = fetched.take(&name, opened.batches, plan.revision);
                taken.map_err(|error| (error.is_loss().then_some(name), error))?;
            }
            Err(error) if error.is_missing() => {
                // What was read stays: only the rest is planned again.
                let again = source.cover_again(fetched.next - 1, plan.revision).await;
                let again = again.map_err(local)?;
                left = again.ok_or((Some(name), error))?.into();
            }
            Err(error) => return Err((Some(name), error)),
        }
    }
    if fetched.next <= plan.revision {
        let end = plan.changes.last().copied().unwrap_or(plan.base);
        return Err((Some(end), Error::damaged(end, "it ends early")));
    }
    fetched.spool.flush().map_err(local)?;
    Ok(fetched)
}

impl Fetched {
    /// Takes what an object has of the revisions up to `revision` and was not read before.
    fn take(
        &mut self,
        name: &ObjectName,
        batches: Vec<ChangeBatch>,
        revision: i64,
    ) -> Result<(), Error> {
        for mut batch in batches {
            if batch.first > revision + 1 {
                break;
            }
            if batch.first > self.next {
                return Err(Error::damaged(name, "a revision before it is missing"));
            }
            batch.trim_before(self.next);
            self.leases.note(&batch, revision);
            self.hashes.extend(&batch.hashes);
            for row in batch.rows.iter().filter(|it| it.key.main <= revision) {
                self.spool.add(row)?;
                self.time_ms = batch.time_ms;
            }
            self.next = self.next.max(batch.last + 1);
        }
        self.changes += 1;
        Ok(())
    }
}

async fn fetch_base(
    place: &BackupPlace,
    name: &ObjectName,
    target: &Path,
) -> Result<Scratch, Fault> {
    let fetched = reading(|| async {
        let mut scratch = Scratch::create(target, "base")?;
        base_reader::read(place, name, scratch.output()).await?;
        scratch.flush()?;
        Ok(scratch)
    });
    fetched.await.map_err(|error| (Some(*name), error))
}

fn assemble(
    plan: &RestorePlan,
    fetched: Fetched,
    target: &Path,
    replaced: Vec<(ObjectName, Error)>,
) -> Result<Restored, Error> {
    let base = etcd_snapshot::open(fetched.base.path(), false, |_, _| ())?;
    let mut state = FileState::read(&base)?;
    let mut leases = fetched.leases;
    for row in rows(&base, &fetched.spool)? {
        let (key, value) = row?;
        leases.see(key, &value);
    }
    state.leases = leases.finish(&state.leases);
    let scratch = write(&state, &base, &fetched.spool, target)?;
    let compared = compare(&scratch, plan, &fetched.hashes)?;
    scratch.complete(target)?;
    Ok(Restored {
        revision: plan.revision,
        time_ms: fetched.time_ms,
        base: plan.base.last,
        changes: fetched.changes,
        compared,
        replaced,
    })
}

/// All rows of the restored store.
fn rows<'f>(
    base: &'f DatabaseFile,
    spool: &'f Spool,
) -> Result<impl Iterator<Item = Result<(RowKey, Bytes), Error>> + 'f, Error> {
    let of_base = etcd_snapshot::rows(base)?.map(|row| row.map_err(Error::from));
    Ok(of_base.chain(spool.rows()?))
}

fn write(
    state: &FileState,
    base: &DatabaseFile,
    spool: &Spool,
    target: &Path,
) -> Result<Scratch, Error> {
    let lengths = rows(base, spool)?.map(|row| row.map(|(key, value)| (key, value.len())));
    let layout = SnapshotPlan::new(state, lengths)?;
    let mut scratch = Scratch::create(target, "part")?;
    let is_as_planned = layout.write(rows(base, spool)?, &mut |piece| scratch.write(piece))?;
    assert!(is_as_planned, "files of this process do not change");
    scratch.flush()?;
    Ok(scratch)
}

/// Compares the newest hash of the cluster that the file can have.
fn compare(
    scratch: &Scratch,
    plan: &RestorePlan,
    hashes: &[ClusterHash],
) -> Result<Option<ClusterHash>, Error> {
    let file = etcd_snapshot::open(scratch.path(), false, |_, _| ())?;
    let newest = etcd_snapshot::hash(&file, 0, |_| ())?;
    if newest.hash_revision != plan.revision {
        let problem = format!("the restored file ends at {}", newest.hash_revision);
        return Err(Error::damaged(plan.base, problem));
    }
    let mut usable: Vec<ClusterHash> = hashes.to_vec();
    usable.retain(|it| {
        (plan.base.last..=plan.revision).contains(&it.revision)
            && (newest.compact_revision..=it.revision).contains(&it.compacted)
    });
    usable.sort_by_key(|it| (it.revision, it.compacted));
    for expected in usable.into_iter().rev() {
        let (revision, compacted) = (expected.revision, expected.compacted);
        match etcd_snapshot::hash_as_compacted(&file, revision, compacted, |_| ())? {
            None => {}
            Some(found) if found == expected.hash => return Ok(Some(expected)),
            Some(found) => {
                return Err(Error::Different {
                    revision,
                    expected: expected.hash,
                    found,
                });
            }
        }
    }
    Ok(None)
}

/// Reads a base, and whatever else is needed to believe that it can be restored, without a file.
pub(crate) async fn check_base(place: &BackupPlace, name: &ObjectName) -> Result<(), Error> {
    let read = reading(|| async {
        let output: &mut dyn Write = &mut std::io::sink();
        base_reader::read(place, name, output).await
    });
    read.await.map(drop)
}
