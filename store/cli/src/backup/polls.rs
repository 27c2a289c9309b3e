//! Asks the cluster each second for what no event shows, and each few minutes for HashKV.

use std::time::Duration;

use backup::ClusterHash;
use environment::Clock;
use environment::real::RealClock;
use tokio::time::{MissedTickBehavior, interval};

use super::history::HistoryWriter;
use super::leases;
use super::queue::Notes;
use crate::client::Connection;
use crate::client::observed_cluster::{auth_status, hash_kv, position};
use crate::failure::{Failure, say};

const POLL_EVERY: Duration = Duration::from_secs(1);
/// Polls in a row that see a revision that the watch has not brought, until another endpoint is tried.
const STALLED_POLLS: u32 = 10;
/// Time between two lines about the progress.
const REPORT_EVERY: Duration = Duration::from_secs(30);

/// Polls until the server turns out to be of another cluster.
pub(super) async fn poll(writer: &HistoryWriter) -> Result<(), Failure> {
    let mut ticks = interval(POLL_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut stalled_polls, mut last) = (0, 0);
    let mut connection = None;
    loop {
        ticks.tick().await;
        match poll_once(writer, &mut connection).await? {
            Err(failure) => writer.said.trouble("polls", &failure.what()),
            Ok(()) => {
                writer.reached.is_polled.set(true);
                writer.said.works("polls", "the cluster answers again");
            }
        }
        let received = writer.queue.received();
        let is_silent = received == last && received < writer.reached.seen.get();
        stalled_polls = if is_silent { stalled_polls + 1 } else { 0 };
        last = received;
        if stalled_polls >= STALLED_POLLS {
            stalled_polls = 0;
            writer.wanted.watch.notify_waiters();
        }
    }
}

type Polled = Result<(), Failure>;

/// The outer failure ends the backup; after the inner one a poll is repeated.
async fn poll_once(
    writer: &HistoryWriter,
    connection: &mut Option<Connection>,
) -> Result<Polled, Failure> {
    let current = match connection.take() {
        Some(connection) => connection,
        None => match writer.endpoints.any().await {
            Ok(connection) => connection,
            Err(failure) => return Ok(Err(failure)),
        },
    };
    let header = match position(&current).await {
        Ok(header) => header,
        Err(failure) => return Ok(Err(failure)),
    };
    writer.check(Some(&header))?;
    let polled = async {
        leases::poll(writer, &current).await?;
        poll_users(writer, &current).await
    };
    let polled = polled.await;
    if polled.is_ok() {
        *connection = Some(current);
    }
    Ok(polled)
}

/// Asks for a base if users or roles have changed since the newest one.
async fn poll_users(writer: &HistoryWriter, connection: &Connection) -> Polled {
    let status = auth_status(connection).await?;
    writer.reached.cluster_users.set(status.auth_revision);
    // Before the newest base was read, nothing is known to have changed.
    if writer.reached.base_users.get() != 0 && !writer.reached.has_users() {
        writer.wanted.base.notify_one();
    }
    Ok(())
}

/// Asks for HashKV of revisions that were received, and adds the answers to the backup.
pub(super) async fn hashes(writer: &HistoryWriter) -> Result<(), Failure> {
    let mut hashed = 0;
    loop {
        let revision = writer.queue.received();
        // Nothing before a base can be compared.
        let has_base = writer.session.newest_base().is_some();
        let is_due = has_base && revision > hashed;
        let answer = match is_due {
            true => hash(writer, revision).await,
            false => None,
        };
        let Some(answer) = answer else {
            tokio::time::sleep(POLL_EVERY).await;
            continue;
        };
        hashed = revision;
        writer.queue.add_notes(Notes {
            hash: Some(answer),
            ..Notes::default()
        });
        tokio::time::sleep(writer.rhythm.hash_every).await;
    }
}

/// HashKV of a revision; `None` if no member answers, or if it is compacted in the meantime.
pub(super) async fn hash(writer: &HistoryWriter, revision: i64) -> Option<ClusterHash> {
    let connection = writer.endpoints.any().await.ok()?;
    let answer = hash_kv(&connection, revision).await.ok()?.ok()?;
    let is_own = answer.header?.cluster_id == writer.cluster;
    let compacted = answer.compact_revision;
    (is_own && compacted < revision).then_some(ClusterHash {
        revision,
        compacted,
        hash: answer.hash,
    })
}

/// Says how far the backup is, again and again.
pub(super) async fn report(writer: &HistoryWriter) {
    loop {
        tokio::time::sleep(REPORT_EVERY).await;
        say(&progress(writer));
    }
}

/// How far the backup is, as a line.
pub(super) fn progress(writer: &HistoryWriter) -> String {
    let (stored, seen) = (writer.reached.stored.get(), writer.reached.seen.get());
    let oldest = writer.queue.oldest();
    let age = oldest.map(|oldest| RealClock.now().saturating_since(oldest));
    format!(
        "revision {stored} is stored; {:.1} s and {} revisions behind",
        age.unwrap_or_default().as_secs_f64(),
        (seen - stored).max(0)
    )
}
