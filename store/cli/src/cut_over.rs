//! `inkstone cut-over`: ends the following of a cluster at one revision, which both sides have.
//!
//! ```text
//!   compare ─► source refuses writes ─► its last revision arrives ─► compare ─► store accepts writes
//!              └──────────────── no write anywhere, normally some ms ─────────┘
//! ```
//!
//! The source refuses writes because of an alarm of the type CORRUPT, which etcd keeps in its replicated
//! state: no change of keys or leases gets past it, on any member, and reads and watches go on. The alarm names a member that
//! no cluster has, so that a later run knows it.

use std::time::Duration;

use environment::real::RealClock;
use environment::{Clock, Instant};
use etcd_api::inkstonepb::FollowEnd;
use etcd_api::inkstonepb::follow_change::Change;
use tokio::time::sleep;
use tonic::Code;

use crate::client::observed_cluster::position;
use crate::client::signals::EndSignals;
use crate::client::{Connection, ConnectionArguments, Endpoints, duration};
use crate::failure::{self, Failure};
use crate::follow::fence::Fence;
use crate::follow::{
    Comparison, FollowedLeases, SourceArguments, Target, compare, different, source as followed,
    take_over_users, target as follower, users_differ,
};

/// The source is made to refuse writes when the store is this close behind.
const BEHIND_MAX: i64 = 1000;
/// Time between two looks at where the store stands.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Pause before the store is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Move from a cluster that a store follows to the store
#[derive(Debug, clap::Args)]
#[command(after_help = "\
While `inkstone follow` runs: the source refuses writes from now on (etcd's alarm CORRUPT, which
holds on all of its members; reads and watches go on), its last revision arrives at the store,
HashKV of both is compared, and the store accepts writes. Clients then go to the store; a watch
goes on from the revision behind the last one that it has seen.

If a step fails before the store accepts writes, the source accepts them again. Afterwards the
source stays as it is. To go back before anything was written to the store, stop the store and
allow writes at the source: inkstone alarm disarm --endpoint SOURCE

Examples:
  inkstone cut-over http://etcd:2379
  inkstone cut-over http://etcd:2379 --source-is-lost        when the source is gone for good
  inkstone cut-over https://e1:2379 --source-cacert ca.pem --source-user root --endpoint http://n1:2379")]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: SourceArguments,
    /// Give up, and let the source accept writes again, if its last revision does not arrive in this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    wait: Duration,
    /// Compare HashKV while no cluster accepts writes, if the comparison before took at most this time;
    /// otherwise right after
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = duration::parse)]
    pause_max: Duration,
    /// The source is gone for good: let the store accept writes at the revision that it has. Later
    /// changes, which the source has acknowledged, are lost
    #[arg(long, conflicts_with_all = ["wait", "pause_max"])]
    source_is_lost: bool,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    if arguments.source_is_lost {
        return without_source(arguments).await;
    }
    let (source, name) = arguments.source.endpoints(&arguments.connection)?;
    let target = Endpoints::new(arguments.connection)?;
    let mut signals = EndSignals::catch()?;
    let mut cut_over =
        CutOver::open(&source, &target, (arguments.wait, arguments.pause_max)).await?;
    let outcome = tokio::select! {
        outcome = cut_over.run() => outcome,
        _ = signals.next_is_terminate() => Err(Failure::failed("interrupted", "")),
    };
    match outcome {
        Ok(()) => {
            failure::say(&format!(
                "Clients go to the store now. The source refuses writes until\n  inkstone alarm disarm \
                 --endpoint {name}"
            ));
            Ok(())
        }
        Err(failure) => Err(cut_over.take_back(failure).await),
    }
}

/// Ends the following of a source that cannot be asked any more. Its name must be the one that the store
/// has, so that no other store is meant.
async fn without_source(arguments: Arguments) -> Result<(), Failure> {
    let (_, name) = arguments.source.endpoints(&arguments.connection)?;
    let connection = Connection::open(arguments.connection).await?;
    let here = follower::state(&connection).await?;
    let followed = match here.source {
        Some(followed) if followed.name == name => followed,
        Some(followed) => {
            return Err(Failure::wrong_use(
                format_args!("the store follows {}, not {name}", followed.name),
                "Name the source as the store names it.",
            ));
        }
        None => return Err(follows_none()),
    };
    let target = Target {
        connection: connection.into(),
        cluster_id: followed.cluster_id,
    };
    let revision = here.revision;
    let end = Change::End(FollowEnd { revision });
    target.must_change(end).await?;
    failure::say(&format!(
        "the store accepts writes from revision {} on; what the source has behind {revision} is lost",
        revision + 1
    ));
    Ok(())
}

fn follows_none() -> Failure {
    Failure::wrong_use(
        "the store follows no cluster",
        "If a cut-over ran before, clients have moved, and go to this store. Otherwise start `inkstone follow \
         SOURCE` first, and leave it running.",
    )
}

/// One move.
struct CutOver {
    source: Connection,
    target: Target,
    fence: Fence,
    /// Longest time to wait for the source's last revision.
    wait: Duration,
    /// A comparison that took longer is not made while no cluster accepts writes.
    pause_max: Duration,
    /// Whether the store was asked to accept writes, and it is unknown whether it does.
    is_uncertain: bool,
    /// Whether the store accepts writes.
    has_moved: bool,
}

impl CutOver {
    async fn open(
        source: &Endpoints,
        target: &Endpoints,
        (wait, pause_max): (Duration, Duration),
    ) -> Result<CutOver, Failure> {
        let source = source.any().await?;
        let connection = target.any().await?;
        let there = followed::state(&source).await?;
        let here = follower::state(&connection).await?;
        match here.source {
            Some(followed) if followed.cluster_id == there.cluster_id => {}
            Some(followed) => {
                return Err(Failure::wrong_use(
                    format_args!(
                        "the store follows cluster {:x} ({}), and the source is cluster {:x}",
                        followed.cluster_id, followed.name, there.cluster_id
                    ),
                    "Name the source that the store follows.",
                ));
            }
            None => return Err(follows_none()),
        }
        Ok(CutOver {
            target: Target {
                connection: connection.into(),
                cluster_id: there.cluster_id,
            },
            fence: Fence::of(&source).await?,
            source,
            wait,
            pause_max,
            is_uncertain: false,
            has_moved: false,
        })
    }

    async fn run(&mut self) -> Result<(), Failure> {
        self.catch_up().await?;
        let quick = self.compare_before().await?;
        let began = RealClock.now();
        self.fence.raise(&self.source).await?;
        let last = self.last_revision().await?;
        self.arrival(last).await?;
        self.same_leases().await?;
        if users_differ(&self.source, &self.target).await? {
            take_over_users(&self.source, &self.target).await?;
        }
        if quick {
            self.compare_at(last).await?;
        }
        self.end(last).await?;
        self.has_moved = true;
        let took = RealClock.now().saturating_since(began);
        failure::say(&format!(
            "the store accepts writes from revision {} on; no cluster did for {} ms",
            last + 1,
            took.as_millis()
        ));
        if !quick {
            self.compare_at(last).await?;
        }
        self.same_users().await
    }

    /// The alarm does not stop changes of users: one that came behind the store's last look is reported.
    async fn same_users(&self) -> Result<(), Failure> {
        match users_differ(&self.source, &self.target).await? {
            false => Ok(()),
            true => Err(Failure::failed(
                "users or roles were changed at the source in this moment, and the store does not have that",
                "Compare `inkstone user list` and `role list` of both, and make the change at the store.",
            )),
        }
    }

    /// Waits until the store is close behind the source.
    async fn catch_up(&self) -> Result<(), Failure> {
        let mut deadline = Deadline::new(self.wait);
        let mut before = 0;
        loop {
            let here = follower::state(&self.target.connection).await?.revision;
            let behind = followed::state(&self.source).await?.revision - here;
            if behind <= BEHIND_MAX {
                return Ok(());
            }
            if here > before {
                deadline = Deadline::new(self.wait);
            }
            before = here;
            deadline.check(|| {
                Failure::failed(
                    format_args!("the store is {behind} revisions behind and does not move"),
                    "Is `inkstone follow` running?",
                )
            })?;
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Compares at a revision of now, while writes go on. Returns whether it was quick enough to do it
    /// once more while they rest.
    async fn compare_before(&self) -> Result<bool, Failure> {
        let began = RealClock.now();
        let revision = follower::state(&self.target.connection).await?.revision;
        self.compare_at(revision).await?;
        Ok(RealClock.now().saturating_since(began) <= self.pause_max)
    }

    async fn compare_at(&self, revision: i64) -> Result<(), Failure> {
        match compare(&self.source, &self.target, revision).await? {
            Comparison::Equal { hash } => {
                failure::say(&format!(
                    "histories are equal at revision {revision}: HashKV {hash:08x}"
                ));
                Ok(())
            }
            Comparison::Different { here, source } => Err(different(revision, here, source)),
            Comparison::CompactedThere | Comparison::Unsettled => Err(Failure::failed(
                format_args!("the histories could not be compared at revision {revision}"),
                "A side was compacted at the same time. Try again.",
            )),
        }
    }

    /// The source's revision behind which none comes.
    async fn last_revision(&self) -> Result<i64, Failure> {
        Ok(position(&self.source).await?.revision)
    }

    /// Waits until the store has the source's last revision.
    async fn arrival(&self, last: i64) -> Result<(), Failure> {
        let deadline = Deadline::new(self.wait);
        loop {
            let here = follower::state(&self.target.connection).await?.revision;
            if here == last {
                return Ok(());
            }
            deadline.check(|| {
                Failure::failed(
                    format_args!(
                        "the store is at revision {here}, and the source's last is {last}"
                    ),
                    "Is `inkstone follow` running?",
                )
            })?;
            sleep(LOOK_EVERY).await;
        }
    }

    /// Gives the store the source's leases of now.
    async fn same_leases(&self) -> Result<(), Failure> {
        let deadline = Deadline::new(self.wait);
        loop {
            let mut leases = FollowedLeases::of(&self.target).await?;
            let Some(change) = leases.changes(&self.source).await? else {
                return Ok(());
            };
            self.target.must_change(change).await?;
            deadline.check(|| {
                Failure::failed(
                    "the source's leases do not stay the same",
                    "Does another program end leases there? Try again.",
                )
            })?;
        }
    }

    /// Lets the store accept writes. Asked twice, it does it once.
    async fn end(&mut self, last: i64) -> Result<(), Failure> {
        let deadline = Deadline::new(self.wait);
        loop {
            self.is_uncertain = true;
            let end = Change::End(FollowEnd { revision: last });
            let failure = match self.target.change(vec![end]).await {
                Ok(Ok(_)) => {
                    self.is_uncertain = false;
                    return Ok(());
                }
                Ok(Err(status)) if status.code() == Code::FailedPrecondition => {
                    // The store did it at the request before, or it refuses.
                    let here = follower::state(&self.target.connection).await?;
                    self.is_uncertain = false;
                    return match here.source {
                        None => Ok(()),
                        Some(_) => Err(self.target.connection.refused(&status)),
                    };
                }
                Ok(Err(status)) => self.target.connection.refused(&status),
                Err(failure) => failure,
            };
            deadline.check(|| failure)?;
            sleep(PAUSE).await;
        }
    }

    /// Lets the source accept writes again, unless the store may accept them.
    async fn take_back(&self, failure: Failure) -> Failure {
        if !self.fence.is_raised() {
            return failure;
        }
        let what = failure.what();
        if self.is_uncertain {
            return Failure::failed(
                format_args!(
                    "{what}; it is unknown whether the store accepts writes, so the source goes on refusing them"
                ),
                "Run this again when the store can be reached. If it says that the store follows no cluster, \
                 clients have moved.",
            );
        }
        if self.has_moved {
            return moved_all_the_same(failure);
        }
        match self.fence.lower(&self.source).await {
            Ok(()) => Failure::failed(
                format_args!("{what}; the source accepts writes again"),
                "Nothing has moved. The store goes on following.",
            ),
            Err(lowered) => Failure::failed(
                format_args!(
                    "{what}; the source still refuses writes: {}",
                    lowered.what()
                ),
                "Allow them with: inkstone alarm disarm --endpoint SOURCE",
            ),
        }
    }
}

/// A failure behind the move: clients have to go to the store nevertheless, which accepts writes.
fn moved_all_the_same(failure: Failure) -> Failure {
    let remedy = failure.remedy();
    Failure::failed(
        format_args!(
            "the store accepts writes and the source refuses them, but what is done afterwards failed: {}",
            failure.what()
        ),
        format_args!(
            "Clients go to the store. Compare `endpoint hashkv --rev` of both at the source's last revision \
             before the source is removed.\n{remedy}"
        ),
    )
}

/// A moment at which waiting ends.
struct Deadline(Instant);

impl Deadline {
    fn new(wait: Duration) -> Deadline {
        Deadline(RealClock.now() + wait)
    }

    fn check(&self, late: impl FnOnce() -> Failure) -> Result<(), Failure> {
        match RealClock.now() < self.0 {
            true => Ok(()),
            false => Err(late()),
        }
    }
}
