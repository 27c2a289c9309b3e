//! `inkstone follow`: a store takes over every change of a running cluster, with its revisions.
//!
//! ```text
//!   source ──watch of all keys──► whole revisions ──► Follow.Change ──► store
//!          ──leases, users, HashKV, polled──────────►
//! ```
//!
//! The store itself keeps how far it has come, so this may be killed and started again at any moment, and
//! two of them at once do no harm.

mod compare;
pub(crate) mod fence;
mod leases;
mod reading;
mod report;
mod session;
pub(crate) mod source;
pub(crate) mod target;
mod users;

use std::time::Duration;

use tokio::time::sleep;

use self::report::FollowReport;
use self::session::{FollowSession, Interruption};
use crate::client::signals::EndSignals;
use crate::client::{ConnectionArguments, Endpoints, duration};
use crate::failure::{self, Failure};

pub(crate) use self::compare::{Comparison, compare};
pub(crate) use self::leases::FollowedLeases;
pub(crate) use self::session::different;
pub(crate) use self::source::SourceArguments;
pub(crate) use self::target::Target;
pub(crate) use self::users::{take_over_users, users_differ};

/// Shortest pause before another attempt to reach a server.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest pause: each attempt compares HashKV, which a source in trouble must not be asked for all the time.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// So often the store may stop at one revision before following ends.
const STANDSTILLS_MAX: u32 = 10;

/// Let a store take over every change of a running etcd or Inkstone, with its revisions
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The store is a copy that was restored from a snapshot of the source. From the first moment on it
refuses all other writes, until `inkstone cut-over`; it may be read and watched. It has the same
revisions, versions, leases and users as the source, and HashKV of both is compared every minute.

This runs until Ctrl-C or until the store is cut over, and may be killed and started again. The
source notices one client more, with the role root if it checks users.

Examples:
  inkstone snapshot save --endpoint http://etcd:2379 source.db   fill a store, once
  inkstone snapshot restore source.db --data-dir store.inkstone
  inkstone serve --data-dir store.inkstone &
  inkstone follow http://etcd:2379                               then follow
  inkstone cut-over http://etcd:2379                             and move, in another window
  inkstone follow https://e1:2379,https://e2:2379 --source-cacert ca.pem --source-user root")]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: SourceArguments,
    /// Time between two comparisons of HashKV, which read the whole history on both sides
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::parse)]
    check_every: Duration,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let (source, name) = arguments.source.endpoints(&arguments.connection)?;
    let target = Endpoints::new(arguments.connection)?;
    let mut follower = Follower {
        source,
        target,
        name,
        check_every: arguments.check_every,
        report: FollowReport::new(),
    };
    let mut signals = EndSignals::catch()?;
    let outcome = tokio::select! {
        outcome = follower.run() => Some(outcome),
        _ = signals.next_is_terminate() => None,
    };
    follower.report.end();
    let revision = follower.report.revision();
    match outcome {
        Some(Ok(())) => failure::say("the store was cut over: it does not follow any more"),
        Some(Err(failure)) => return Err(failure),
        None => failure::say(&format!(
            "stopped at revision {revision}; the store still follows: start this again, or cut over"
        )),
    }
    Ok(())
}

/// A source, a store, and how far the store has come.
struct Follower {
    source: Endpoints,
    target: Endpoints,
    name: String,
    check_every: Duration,
    report: FollowReport,
}

impl Follower {
    /// Follows until the store is cut over, over as many connections as it takes.
    async fn run(&mut self) -> Result<(), Failure> {
        let (mut said, mut standstills, mut pause) = (String::new(), 0, PAUSE);
        let mut has_followed = false;
        loop {
            let before = self.report.revision();
            let (failure, is_refused) = match self.follow_once(&mut has_followed).await {
                Interruption::CutOver => return Ok(()),
                Interruption::Final(failure) => return Err(failure),
                // A wrong address or password, probably.
                Interruption::Lost(failure) if !has_followed => return Err(failure),
                Interruption::Lost(failure) => (failure, false),
                Interruption::Refused(failure) => (failure, true),
            };
            let what = failure.what();
            if what != said {
                self.report.say(&format!("{what}; connecting again"));
                said = what;
            }
            standstills = match is_refused && self.report.revision() == before {
                true => standstills + 1,
                false => 0,
            };
            if standstills >= STANDSTILLS_MAX {
                return Err(failure);
            }
            pause = match self.report.revision() > before {
                true => PAUSE,
                false => (pause * 2).min(PAUSE_MAX),
            };
            sleep(pause).await;
        }
    }

    async fn follow_once(&mut self, has_followed: &mut bool) -> Interruption {
        let report = &mut self.report;
        // A store that followed before does not begin again: then it was cut over.
        let name = (!*has_followed).then_some(&*self.name);
        let opened = FollowSession::open(&self.source, &self.target, name, report).await;
        match opened {
            Ok(mut session) => {
                *has_followed = true;
                session.run(self.check_every, report).await
            }
            Err(interruption) => interruption,
        }
    }
}
