//! `inkstone backup run`: follows a cluster, and stores its changes.
//!
//! ```text
//!   follow ─┐               ┌─► tail ──► changes ──► merge
//!   polls ──┼──► queue ─────┘
//!   hashes ─┘                   bases ──► retention
//! ```
//!
//! The parts share one thread, and one `HistoryWriter`. If what comes does not continue what is stored,
//! all of them begin another history.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use backup::{BackupPlace, BackupSession, Pauses, SessionStart};
use environment::randomness::Random;

use super::destination;
use super::follow::follow;
use super::history::{HistoryWriter, Reached, Rhythm, Wanted, failure};
use super::queue::{Notes, TailQueue, now_ms};
use super::said::Said;
use super::{bases, moments, polls, tail};
use crate::client::observed_cluster::position;
use crate::client::signals::EndSignals;
use crate::client::{ConnectionArguments, Endpoints};
use crate::failure::{Failure, say};

/// Time for storing what waits, once a signal has asked for the end.
const END_TIME_MAX: Duration = Duration::from_secs(10);

/// Follow a cluster and store its changes, until Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A place is a folder, or s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, az://CONTAINER/FOLDER; credentials
come from the environment (AWS_*, GOOGLE_*, AZURE_*). With users, the backup needs one with the
role root. After a crash, start it again: it goes on behind what is stored. It ends with an error
if the store refuses it, or if the endpoints are of another cluster.

Examples:
  inkstone backup run --to /backups
  inkstone backup run --to s3://bucket/etcd --endpoint 10.0.0.1:2379,10.0.0.2:2379
  inkstone backup run --to /backups --keep 90d --base-every 12h
  inkstone backup run --to /backups --once           catches up and ends, for cron")]
pub(crate) struct Arguments {
    /// Where to store: a folder, or the URL of one in an object store
    #[arg(long, value_name = "PLACE", env = "INKSTONE_BACKUP_PLACE")]
    to: String,
    /// Store what has changed since the last time, and end
    #[arg(long)]
    once: bool,
    /// Age at which changes are stored, such as 500ms; each costs the store a request
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = moments::duration)]
    tail_every: Duration,
    /// Time between two whole snapshots; a restore reads the changes since one
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = moments::duration)]
    base_every: Duration,
    /// Time between two questions for the cluster's HashKV, which restores are compared with
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = moments::duration)]
    hash_every: Duration,
    /// How far back every revision can be restored; what is older is deleted
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = moments::duration)]
    keep: Duration,
    /// The newest bases that stay, whatever their age
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    keep_bases: u32,
    /// Folder for one snapshot at a time, as large as the store; default: that of the system
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(super) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut signals = EndSignals::catch()?;
    let place = destination::create(&arguments.to)?;
    let folder = arguments.work_dir.clone();
    let folder = folder.unwrap_or_else(std::env::temp_dir);
    let endpoints = Rc::new(Endpoints::new(arguments.connection)?);
    let rhythm = || Rhythm {
        tail_every: arguments.tail_every,
        base_every: arguments.base_every,
        hash_every: arguments.hash_every,
        keep: arguments.keep,
        bases_min: arguments.keep_bases as usize,
    };
    let mut writer = tokio::select! {
        begun = begin(&endpoints, place, rhythm()) => begun?,
        _ = signals.next_is_terminate() => return Ok(()),
    };
    let mut pauses = Pauses::default();
    loop {
        let ended = work(&writer, &folder, arguments.once, &mut signals).await?;
        let Some(why) = ended else {
            say(&polls::progress(&writer));
            return Ok(());
        };
        say(&format!("{why}. A new history begins"));
        if writer.session.newest_base().is_some() {
            pauses = Pauses::default();
        }
        writer = tokio::select! {
            begun = begin_after(&mut pauses, &writer, rhythm()) => begun?,
            _ = signals.next_is_terminate() => return Ok(()),
        };
    }
}

/// Finds the history that the cluster continues, or begins one.
async fn begin(
    endpoints: &Rc<Endpoints>,
    place: BackupPlace,
    rhythm: Rhythm,
) -> Result<HistoryWriter, Failure> {
    let connection = endpoints.any().await?;
    let header = position(&connection).await?;
    let (cluster, nonce) = (header.cluster_id, nonce()?);
    let (said, mut pauses) = (Said::default(), Pauses::default());
    let (session, begun) = loop {
        match BackupSession::open(place.clone(), cluster, nonce, now_ms()).await {
            Ok(opened) => break opened,
            Err(error) if error.is_permanent() => return Err(failure(error)),
            Err(error) => {
                said.trouble("store", &format!("{error}; trying again"));
                pauses.pause().await;
            }
        }
    };
    let session = match begun {
        SessionStart::Continued(end) if end.mark.has_rows() => {
            let (id, revision) = (session.origin().history, end.revision);
            say(&format!(
                "continuing history {id:x} behind revision {revision}"
            ));
            let writer = writer(endpoints, session, rhythm, revision);
            writer.reached.anchor.set(Some(end));
            writer.reached.seen.set(header.revision);
            return Ok(writer);
        }
        // Nothing proves that the cluster continues it.
        SessionStart::Continued(_) => session.begin_another(now_ms()),
        SessionStart::Replaced(error) => {
            say(&error.to_string());
            session
        }
        SessionStart::New => session,
    };
    let id = session.origin().history;
    say(&format!("beginning history {id:x} of cluster {cluster:x}"));
    Ok(writer(endpoints, session, rhythm, header.revision))
}

/// A history that breaks at once must not be followed by another without end.
async fn begin_after(
    pauses: &mut Pauses,
    before: &HistoryWriter,
    rhythm: Rhythm,
) -> Result<HistoryWriter, Failure> {
    pauses.pause().await;
    begin_another(before, rhythm).await
}

async fn begin_another(before: &HistoryWriter, rhythm: Rhythm) -> Result<HistoryWriter, Failure> {
    let header = loop {
        let connection = before.endpoints.any().await;
        match connection {
            Ok(connection) => match position(&connection).await {
                Ok(header) => break header,
                Err(failure) => before.said.trouble("watch", &failure.what()),
            },
            Err(failure) => before.said.trouble("watch", &failure.what()),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    before.check(Some(&header))?;
    let session = before.session.begin_another(now_ms());
    Ok(writer(&before.endpoints, session, rhythm, header.revision))
}

fn writer(
    endpoints: &Rc<Endpoints>,
    session: BackupSession,
    rhythm: Rhythm,
    received: i64,
) -> HistoryWriter {
    HistoryWriter {
        endpoints: Rc::clone(endpoints),
        cluster: session.origin().cluster,
        session,
        rhythm,
        queue: TailQueue::new(received + 1),
        leases: RefCell::default(),
        reached: Reached {
            anchor: Cell::new(None),
            stored: Cell::new(received),
            seen: Cell::new(received),
            base_users: Cell::new(0),
            cluster_users: Cell::new(0),
            is_polled: Cell::new(false),
            ends: Cell::new(false),
        },
        wanted: Wanted::default(),
        said: Said::default(),
    }
}

/// Runs all parts. The text says why another history must begin; `None`: the work is done.
async fn work(
    writer: &HistoryWriter,
    folder: &std::path::Path,
    once: bool,
    signals: &mut EndSignals,
) -> Result<Option<String>, Failure> {
    let mut tail = pin!(tail::store(writer));
    let ended = {
        let others = others(writer, folder);
        tokio::select! {
            ended = &mut tail => return ended.map(|()| None),
            ended = others => RunEnd::from_others(ended),
            () = caught_up(writer, once) => RunEnd::CaughtUp,
            _ = signals.next_is_terminate() => RunEnd::Signal,
        }
    };
    // What was received before a break continues the history as well.
    writer.reached.ends.set(true);
    store_rest(writer, tail, ended, signals).await
}

/// Why the parts do not go on.
enum RunEnd {
    CaughtUp,
    Signal,
    /// Another history must begin; why.
    Broken(String),
    Failed(Failure),
}

impl RunEnd {
    fn from_others(ended: Result<Option<String>, Failure>) -> RunEnd {
        match ended {
            Ok(Some(why)) => RunEnd::Broken(why),
            Ok(None) => RunEnd::CaughtUp,
            Err(failure) => RunEnd::Failed(failure),
        }
    }
}

/// Stores what waits. The time for it is limited only once the process is to end: a slow store must not cost
/// what was received.
async fn store_rest(
    writer: &HistoryWriter,
    tail: impl Future<Output = Result<(), Failure>>,
    ended: RunEnd,
    signals: &mut EndSignals,
) -> Result<Option<String>, Failure> {
    let mut rest = pin!(finish(writer, tail));
    if matches!(ended, RunEnd::CaughtUp | RunEnd::Broken(_)) {
        tokio::select! {
            stored = &mut rest => {
                stored?;
                return Ok(match ended {
                    RunEnd::Broken(why) => Some(why),
                    _ => None,
                });
            }
            _ = signals.next_is_terminate() => {}
        }
    }
    let stored = tokio::time::timeout(END_TIME_MAX, rest).await;
    let stored = stored.unwrap_or_else(|_| unstored(writer));
    match ended {
        RunEnd::Failed(failure) => {
            if let Err(unstored) = stored {
                say(&unstored.what());
            }
            Err(failure)
        }
        _ => stored.map(|()| None),
    }
}

/// The failure for what was received and is not stored.
fn unstored(writer: &HistoryWriter) -> Result<(), Failure> {
    let (first, last) = (writer.reached.stored.get() + 1, writer.queue.received());
    match first > last {
        true => Ok(()),
        false => Err(Failure::failed(
            format_args!(
                "revisions {first} to {last} are not stored: the store has not taken them within {} s",
                END_TIME_MAX.as_secs()
            ),
            "Start `backup run` again: it goes on behind what is stored.",
        )),
    }
}

async fn finish(
    writer: &HistoryWriter,
    tail: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let is_stored = writer.reached.stored.get() >= writer.queue.received();
    match writer.queue.is_empty() && is_stored {
        true => Ok(()),
        false => tail.await,
    }
}

/// All parts but the tail. They end with a reason for another history, or with a failure.
async fn others(
    writer: &HistoryWriter,
    folder: &std::path::Path,
) -> Result<Option<String>, Failure> {
    tokio::select! {
        why = follow(writer) => why.map(Some),
        failure = bases::make(writer, folder) => failure.map(|()| None),
        failure = polls::poll(writer) => failure.map(|()| None),
        failure = polls::hashes(writer) => failure.map(|()| None),
        failure = tail::merge(writer) => failure.map(|()| None),
        () = polls::report(writer) => Ok(None),
    }
}

/// With `once`, waits until everything that the cluster had at the beginning is stored, and a base with it.
async fn caught_up(writer: &HistoryWriter, once: bool) {
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    let has_all = || {
        // The first poll adds the leases to the queue.
        let is_polled = writer.reached.is_polled.get() && writer.queue.is_empty();
        let has_changes = writer.reached.stored.get() >= writer.reached.seen.get();
        let has_base = writer.reached.has_users() && bases::time_left(writer).is_some();
        is_polled && has_changes && has_base
    };
    while !(once && has_all()) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    // What is stored last can be compared, too.
    if let Some(hash) = polls::hash(writer, writer.reached.stored.get()).await {
        writer.queue.add_notes(Notes {
            hash: Some(hash),
            ..Notes::default()
        });
    }
}

/// A random number of this process.
fn nonce() -> Result<u64, Failure> {
    let random = Random::from_system();
    let mut random =
        random.map_err(|error| Failure::failed(format_args!("no random number: {error}"), ""))?;
    Ok(random.next_u64())
}
