//! Stores what waits in the queue, soon after it has arrived.

use environment::Clock;
use environment::real::RealClock;

use super::history::{HistoryWriter, failure};
use super::leases;
use crate::failure::Failure;

/// Stores what arrives, until a failure or, when the writer ends, until the queue is empty.
pub(super) async fn store(writer: &HistoryWriter) -> Result<(), Failure> {
    loop {
        if writer.reached.ends.get() && writer.queue.is_empty() {
            return Ok(());
        }
        writer.queue.arrival().await;
        if !writer.reached.ends.get() {
            rest(writer).await;
        }
        leases::ask_for_unknown(writer).await;
        let batches = writer.queue.take();
        let Some(last) = batches.last().map(|batch| batch.last) else {
            continue;
        };
        let notice = |error: &_| writer.notice(error);
        let stored = writer.session.store_changes(&batches, &notice).await;
        stored.map_err(failure)?;
        writer.said.works("store", "the store works again");
        writer.reached.stored.set(last);
        writer.wanted.merge.notify_one();
    }
}

/// Waits until the oldest change that waits is old enough.
async fn rest(writer: &HistoryWriter) {
    let Some(oldest) = writer.queue.oldest() else {
        return;
    };
    let age = RealClock.now().saturating_since(oldest);
    tokio::time::sleep(writer.rhythm.tail_every.saturating_sub(age)).await;
}

/// Merges stored objects, as they become many.
pub(super) async fn merge(writer: &HistoryWriter) -> Result<(), Failure> {
    loop {
        writer.wanted.merge.notified().await;
        loop {
            match writer.session.merge_once().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if error.is_loss() => {
                    let text =
                        format!("{error}. A new base follows: later revisions need no other");
                    writer.said.trouble("merge", &text);
                    writer.wanted.base.notify_one();
                }
                Err(error) if error.is_permanent() => return Err(failure(error)),
                Err(error) => {
                    // The next object that is stored wakes this part again.
                    writer.notice(&error);
                    break;
                }
            }
        }
    }
}
