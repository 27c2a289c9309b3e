//! Following over one pair of connections, until one of them breaks or the store is cut over.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use etcd_api::inkstonepb::follow_change::Change;
use etcd_api::inkstonepb::{FollowBegin, FollowEnd, GivenRevision};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::compare::{Comparison, compare};
use super::fence::Fence;
use super::leases::FollowedLeases;
use super::reading::{RevisionReader, WatchEnd};
use super::report::FollowReport;
use super::source;
use super::target::{self, Target, TargetState};
use super::users::{take_over_users, users_differ};
use crate::client::observed_cluster::watch_all;
use crate::client::{Connection, Endpoints};
use crate::failure::Failure;

/// Time between two looks at the source's leases and at where both stand.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time between two looks at the source's users.
const USERS_EVERY: Duration = Duration::from_secs(5);

/// Why following pauses or ends.
#[derive(Debug)]
pub(crate) enum Interruption {
    /// Another attempt may succeed.
    Lost(Failure),
    /// The store has refused a change. It will again, unless another program has written it in the meantime.
    Refused(Failure),
    /// No attempt will.
    Final(Failure),
    /// The store was cut over: it does not follow any more.
    CutOver,
}

impl From<Failure> for Interruption {
    fn from(failure: Failure) -> Interruption {
        Interruption::Lost(failure)
    }
}

type PendingComparison = Pin<Box<dyn Future<Output = Result<(i64, Comparison), Failure>>>>;

/// A store that follows, over connections that work.
pub(crate) struct FollowSession {
    source: Rc<Connection>,
    target: Target,
    leases: FollowedLeases,
    reader: RevisionReader,
    /// The newest revision that the store has acknowledged.
    revision: i64,
    comparison: Option<PendingComparison>,
    /// Whether the histories were compared when the session was opened.
    is_compared: bool,
}

impl FollowSession {
    /// Connects to both. With a name, which this program's first session has, the histories are compared,
    /// and a store that does not follow yet begins to.
    pub(crate) async fn open(
        source: &Endpoints,
        target: &Endpoints,
        name: Option<&str>,
        report: &mut FollowReport,
    ) -> Result<FollowSession, Interruption> {
        let source = Rc::new(source.any().await?);
        let connection = Rc::new(target.any().await?);
        let here = target::state(&connection).await?;
        let there = source::state(&source).await?;
        let target = Target {
            connection,
            cluster_id: there.cluster_id,
        };
        match &here.source {
            Some(followed) if followed.cluster_id != there.cluster_id => {
                return Err(Interruption::Final(Failure::wrong_use(
                    format_args!(
                        "the store follows cluster {:x} ({}), and the source is cluster {:x}",
                        followed.cluster_id, followed.name, there.cluster_id
                    ),
                    "Name the source that it follows, or another store with --endpoint.",
                )));
            }
            Some(_) if here.revision > there.revision => {
                return Err(Interruption::Lost(behind(here.revision, there.revision)));
            }
            Some(_) if name.is_none() => {}
            Some(_) => compare_first(&source, &target, here.revision, report).await?,
            None => match name {
                Some(name) => {
                    begin(&source, &target, &here, there.revision, name, report).await?;
                }
                None => return Err(Interruption::CutOver),
            },
        }
        let leases = FollowedLeases::of(&target).await?;
        let responses = watch_all(&source, here.revision + 1).await?;
        let mut session = FollowSession {
            reader: RevisionReader::start(responses),
            source,
            target,
            leases,
            revision: here.revision,
            comparison: None,
            is_compared: name.is_some(),
        };
        session.take_over_users(report).await?;
        report.connected(here.revision, there.revision);
        Ok(session)
    }

    /// Follows until it is interrupted.
    pub(crate) async fn run(
        &mut self,
        check_every: Duration,
        report: &mut FollowReport,
    ) -> Interruption {
        let mut looks = ticks(LOOK_EVERY);
        let mut users = ticks(USERS_EVERY);
        let mut checks = ticks(check_every);
        if !self.is_compared {
            self.begin_comparison();
        }
        loop {
            let outcome = tokio::select! {
                batch = self.reader.batch() => match batch {
                    Ok(batch) => self.write(batch, report).await,
                    Err(end) => Err(self.ended(end)),
                },
                compared = pending(&mut self.comparison) => {
                    self.comparison = None;
                    compared.map_err(Interruption::from).and_then(|it| judge(it, report))
                }
                _ = looks.tick() => self.look_around(report).await,
                _ = users.tick() => self.take_over_users(report).await,
                _ = checks.tick() => {
                    self.begin_comparison();
                    Ok(())
                }
            };
            if let Err(interruption) = outcome {
                return self.explain(interruption).await;
            }
        }
    }

    async fn write(
        &mut self,
        batch: Vec<GivenRevision>,
        report: &mut FollowReport,
    ) -> Result<(), Interruption> {
        let last = batch.last().map_or(self.revision, |last| last.revision);
        let count = batch.len() as u64;
        let leases = self.leases.needed_by(&self.source, &batch).await?;
        let revisions = batch.into_iter().map(Change::Revision);
        self.give(leases.into_iter().chain(revisions).collect())
            .await?;
        self.revision = last;
        report.written(last, count);
        Ok(())
    }

    async fn give(&self, changes: Vec<Change>) -> Result<(), Interruption> {
        match self.target.change(changes).await? {
            Ok(_) => Ok(()),
            Err(status) => Err(Interruption::Refused(
                self.target.connection.refused(&status),
            )),
        }
    }

    async fn look_around(&mut self, report: &mut FollowReport) -> Result<(), Interruption> {
        let here = target::state(&self.target.connection).await?;
        if here.source.is_none() {
            return Err(Interruption::CutOver);
        }
        let there = source::state(&self.source).await?;
        report.source_is_at(there.revision);
        if let Some(changes) = self.leases.changes(&self.source).await? {
            self.give(vec![changes]).await?;
            self.leases.look_again(&self.target).await?;
        }
        Ok(())
    }

    async fn take_over_users(&mut self, report: &mut FollowReport) -> Result<(), Interruption> {
        if users_differ(&self.source, &self.target).await? {
            let taken = take_over_users(&self.source, &self.target).await?;
            report.took_over_users(taken);
        }
        Ok(())
    }

    fn begin_comparison(&mut self) {
        if self.comparison.is_none() {
            let (source, target) = (Rc::clone(&self.source), self.target.clone());
            let revision = self.revision;
            self.comparison = Some(Box::pin(async move {
                Ok((revision, compare(&source, &target, revision).await?))
            }));
        }
    }

    fn ended(&self, end: WatchEnd) -> Interruption {
        match end {
            WatchEnd::Compacted(revision) => Interruption::Final(Failure::failed(
                format_args!(
                    "the source has compacted the changes from revision {} to {revision}, which the store \
                     does not have",
                    self.revision + 1
                ),
                "Fill a new store from a snapshot of now: see `inkstone follow --help`.",
            )),
            WatchEnd::TooLarge {
                revision,
                bytes_max,
            } => Interruption::Final(Failure::failed(
                format_args!(
                    "revision {revision} of the source has changes of more than {bytes_max} bytes, which a \
                     store does not take over at once"
                ),
                "Fill a new store from a snapshot that has this revision: see `inkstone follow --help`.",
            )),
            WatchEnd::Canceled(reason) => Interruption::Lost(Failure::failed(
                format_args!("the source has canceled the watch: {reason}"),
                "",
            )),
            WatchEnd::Lost(status) => Interruption::Lost(self.source.refused(&status)),
            WatchEnd::Closed => {
                Interruption::Lost(Failure::failed("the source has ended the watch", ""))
            }
        }
    }

    /// A store that was cut over refuses everything; its state says so.
    async fn explain(&self, interruption: Interruption) -> Interruption {
        let is_open = matches!(
            interruption,
            Interruption::Lost(_) | Interruption::Refused(_)
        );
        match target::state(&self.target.connection).await {
            Ok(here) if is_open && here.source.is_none() => Interruption::CutOver,
            _ => interruption,
        }
    }
}

/// Marks the store as one that follows, and compares the histories.
async fn begin(
    source: &Connection,
    target: &Target,
    here: &TargetState,
    source_revision: i64,
    name: &str,
    report: &mut FollowReport,
) -> Result<(), Interruption> {
    let revision = here.revision;
    if revision <= 1 {
        return Err(Interruption::Final(empty(name)));
    }
    if revision > source_revision {
        return Err(Interruption::Final(behind(revision, source_revision)));
    }
    if Fence::of(source)
        .await
        .map_err(Interruption::Final)?
        .is_raised()
    {
        return Err(Interruption::Final(Failure::failed(
            "the source refuses writes because of a cut-over",
            format_args!(
                "If clients have moved to the store, there is nothing to follow any more. To begin again from \
                 the source: inkstone alarm disarm --endpoint {name}"
            ),
        )));
    }
    let name = name.to_owned();
    target
        .must_change(Change::Begin(FollowBegin { revision, name }))
        .await?;
    let failure = match is_itself(source, target.cluster_id).await {
        true => Some(Failure::wrong_use(
            "the source and the store are the same cluster",
            "Name the store that follows with --endpoint.",
        )),
        false => match compare(source, target, revision).await {
            Ok(Comparison::Equal { hash }) => {
                report.equal(revision, hash);
                None
            }
            Ok(Comparison::Different { here, source }) => Some(different(revision, here, source)),
            Ok(Comparison::CompactedThere) => Some(compacted_there(revision)),
            Ok(Comparison::Unsettled) => Some(unsettled(revision)),
            Err(failure) => Some(failure),
        },
    };
    let Some(failure) = failure else {
        return Ok(());
    };
    // It has not followed yet: it goes back to what it was.
    target
        .must_change(Change::End(FollowEnd { revision }))
        .await?;
    Err(Interruption::Final(failure))
}

/// Whether the source follows itself, as it does from the moment on in which the store began, if they are the
/// same.
async fn is_itself(source: &Connection, cluster_id: u64) -> bool {
    let state = target::state(source).await;
    let followed = state.ok().and_then(|state| state.source);
    followed.is_some_and(|followed| followed.cluster_id == cluster_id)
}

fn empty(name: &str) -> Failure {
    Failure::failed(
        "the store is empty: it follows from the revision of a snapshot on",
        format_args!(
            "Fill a new one:  inkstone snapshot save --endpoint {name} source.db\n\
             \x20                inkstone snapshot restore source.db --data-dir DIR\n\
             \x20                inkstone serve --data-dir DIR"
        ),
    )
}

/// Compares the histories when a store that follows already is connected to for the first time.
async fn compare_first(
    source: &Connection,
    target: &Target,
    revision: i64,
    report: &mut FollowReport,
) -> Result<(), Interruption> {
    match compare(source, target, revision).await? {
        Comparison::CompactedThere => Err(Interruption::Final(compacted_there(revision))),
        Comparison::Unsettled => Err(Interruption::Lost(unsettled(revision))),
        compared => judge((revision, compared), report),
    }
}

fn behind(revision: i64, source_revision: i64) -> Failure {
    Failure::failed(
        format_args!(
            "the store is at revision {revision}, and the source's member at {source_revision}"
        ),
        "Either that member has not applied what others have: name another one; or the store is no copy of \
         the source: fill a new one, see `inkstone follow --help`.",
    )
}

fn unsettled(revision: i64) -> Failure {
    Failure::failed(
        format_args!(
            "the histories cannot be compared at revision {revision}: the two sides have compacted up to \
             different revisions"
        ),
        "Try again. If the store has compacted more than the source, fill a new one from a snapshot.",
    )
}

fn compacted_there(revision: i64) -> Failure {
    Failure::failed(
        format_args!(
            "the histories cannot be compared at revision {revision}, which the store has: the source has \
             compacted it"
        ),
        "Fill a new store from a snapshot of now: see `inkstone follow --help`.",
    )
}

fn judge(
    (revision, comparison): (i64, Comparison),
    report: &mut FollowReport,
) -> Result<(), Interruption> {
    match comparison {
        Comparison::Equal { hash } => report.equal(revision, hash),
        Comparison::CompactedThere | Comparison::Unsettled => {}
        Comparison::Different { here, source } => {
            return Err(Interruption::Final(different(revision, here, source)));
        }
    }
    Ok(())
}

pub(crate) fn different(revision: i64, here: u32, source: u32) -> Failure {
    Failure::failed(
        format_args!(
            "the histories differ at revision {revision}: HashKV is {here:08x} here and {source:08x} at the \
             source"
        ),
        "The store is no copy of the source. Fill a new one from a snapshot; do not cut over to this one.",
    )
}

fn ticks(every: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits for the comparison, for ever if there is none.
async fn pending(comparison: &mut Option<PendingComparison>) -> Result<(i64, Comparison), Failure> {
    match comparison {
        Some(comparison) => comparison.await,
        None => std::future::pending().await,
    }
}
