//! Leases, which no event shows: the cluster is asked for them.

use std::collections::BTreeMap;

use etcd_api::EncodedKeyValue;
use etcd_snapshot::LeaseRecord;

use super::history::HistoryWriter;
use super::queue::Notes;
use crate::client::Connection;
use crate::client::observed_cluster::{granted_seconds, lease_ids};
use crate::failure::Failure;

/// Compares the leases of the cluster with those that are known.
pub(super) async fn poll(writer: &HistoryWriter, connection: &Connection) -> Result<(), Failure> {
    let is_first = !writer.reached.is_polled.get();
    let (ids, header) = lease_ids(connection).await?;
    writer.check(Some(&header))?;
    let known = writer.leases.borrow().clone();
    let new = ids.iter().filter(|id| !known.contains_key(id));
    let granted = seconds_of(connection, new.copied().collect()).await?;
    let ended = known.keys().filter(|id| !ids.contains(id));
    let ended: Vec<i64> = ended.copied().collect();
    if !is_first && granted.is_empty() && ended.is_empty() {
        return Ok(());
    }
    note(writer, is_first, granted, ended);
    Ok(())
}

fn note(writer: &HistoryWriter, lists_leases: bool, granted: BTreeMap<i64, i64>, ended: Vec<i64>) {
    let mut leases = writer.leases.borrow_mut();
    for id in &ended {
        leases.remove(id);
    }
    leases.extend(&granted);
    let record = |(&id, &ttl_seconds): (&i64, &i64)| LeaseRecord { id, ttl_seconds };
    let granted = match lists_leases {
        true => leases.iter().map(record).collect(),
        false => granted.iter().map(record).collect(),
    };
    writer.queue.add_notes(Notes {
        lists_leases,
        granted,
        ended,
        hash: None,
    });
}

/// Granted seconds of leases; those that have ended are left out.
async fn seconds_of(connection: &Connection, ids: Vec<i64>) -> Result<BTreeMap<i64, i64>, Failure> {
    let mut seconds = granted_seconds(connection, ids).await?;
    seconds.retain(|_, seconds| *seconds > 0);
    Ok(seconds)
}

/// Asks for leases that rows in the queue name and that are not known, so that they are stored with the rows. If
/// no server answers, the next poll finds them.
pub(super) async fn ask_for_unknown(writer: &HistoryWriter) {
    let unknown = writer.queue.leases(|row| {
        let lease = EncodedKeyValue(row.value.clone()).lease();
        (lease != 0 && !writer.leases.borrow().contains_key(&lease)).then_some(lease)
    });
    if unknown.is_empty() {
        return;
    }
    let Ok(connection) = writer.endpoints.any().await else {
        return;
    };
    if let Ok(granted) = seconds_of(&connection, unknown).await
        && !granted.is_empty()
    {
        note(writer, false, granted, Vec::new());
    }
}
