//! Follows a cluster by a watch of all keys.
//!
//! ```text
//!   watch from the newest revision that was received
//!     its rows ──► must be those that were received: else another history begins
//!     later rows ──► queue
//! ```

use std::time::Duration;

use backup::format::ROW_BYTES;
use backup::{Anchor, ChangedRow, Marker};
use bytes::Bytes;
use etcd_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use etcd_api::mvccpb::Event;
use etcd_api::mvccpb::event::EventType;
use etcd_api::{Error as Refusal, Fields};
use etcd_snapshot::RowKey;

use super::history::{HistoryWriter, position};
use crate::client::{Connection, NO_END};
use crate::failure::Failure;
use crate::table::size;
use crate::watch;

/// Pause before another attempt to reach a server.
const PAUSE: Duration = Duration::from_millis(500);

/// Bytes of one revision that are held until all of it has arrived. Changes of 1 GiB cannot be read again.
const REVISION_BYTES_MAX: usize = 512 << 20;

/// Why a watch ended.
enum Ended {
    /// The next endpoint may go on.
    Lost(String),
    /// What follows does not continue what is stored.
    Broken(String),
}

/// Follows until what comes does not continue the history; the text says why.
pub(super) async fn follow(writer: &HistoryWriter) -> Result<String, Failure> {
    let endpoints: Vec<_> = writer.endpoints.iter().collect();
    for turn in 0.. {
        let endpoint = endpoints[turn % endpoints.len()];
        let connected = writer.endpoints.connect(endpoint).await;
        let ended = match connected {
            Ok(connection) => follow_at(writer, &connection).await?,
            Err(failure) => Ended::Lost(failure.what()),
        };
        match ended {
            Ended::Broken(why) => return Ok(why),
            Ended::Lost(why) => writer
                .said
                .trouble("watch", &format!("the watch ended: {why}")),
        }
        tokio::time::sleep(PAUSE).await;
    }
    unreachable!("the turns do not end")
}

async fn follow_at(writer: &HistoryWriter, connection: &Connection) -> Result<Ended, Failure> {
    let header = match position(connection).await {
        Ok(header) => header,
        Err(failure) => return Ok(Ended::Lost(failure.what())),
    };
    writer.check(Some(&header))?;
    let received = writer.queue.received();
    if header.revision < received {
        return Ok(Ended::Broken(format!(
            "the cluster is at revision {}, and the backup at {received}: the cluster was restored",
            header.revision
        )));
    }
    let anchor = writer.reached.anchor.get();
    let create = WatchCreateRequest {
        key: Bytes::from_static(NO_END),
        range_end: Bytes::from_static(NO_END),
        start_revision: anchor.map_or(received + 1, |anchor| anchor.revision),
        fragment: true,
        ..WatchCreateRequest::default()
    };
    let mut responses = match watch::begin(connection, create).await {
        Ok(responses) => responses,
        Err(failure) => return Ok(Ended::Lost(failure.what())),
    };
    let mut incoming = IncomingRows::new(anchor);
    loop {
        writer.queue.room().await;
        let response = tokio::select! {
            response = responses.message() => response,
            () = writer.wanted.watch.notified() => {
                return Ok(Ended::Lost("the server is behind the others".to_owned()));
            }
        };
        let response = match response {
            Ok(Some(response)) => response,
            Ok(None) => return Ok(Ended::Lost("the server has ended it".to_owned())),
            Err(status) => return Ok(Ended::Lost(connection.refused(&status).what())),
        };
        writer.check(response.header.as_ref())?;
        if response.canceled {
            return canceled(&response);
        }
        writer.said.works("watch", "the watch goes on");
        if let Some(ended) = incoming.take(writer, &response)? {
            return Ok(ended);
        }
    }
}

fn canceled(response: &WatchResponse) -> Result<Ended, Failure> {
    if response.compact_revision > 0 {
        return Ok(Ended::Broken(format!(
            "the cluster has compacted revisions up to {} that are not in the backup",
            response.compact_revision
        )));
    }
    match response
        .cancel_reason
        .contains(Refusal::PermissionDenied.message())
    {
        true => Err(watch::canceled(response)),
        false => Ok(Ended::Lost(watch::canceled(response).what())),
    }
}

/// Rows that have arrived, until their revisions are complete.
struct IncomingRows {
    rows: Vec<ChangedRow>,
    bytes_max: usize,
    /// The revision that must come first, as it was received before.
    proof: Option<Anchor>,
}

impl IncomingRows {
    fn new(proof: Option<Anchor>) -> IncomingRows {
        IncomingRows {
            rows: Vec::new(),
            bytes_max: REVISION_BYTES_MAX,
            proof,
        }
    }

    /// Takes the events of a response.
    fn take(
        &mut self,
        writer: &HistoryWriter,
        response: &WatchResponse,
    ) -> Result<Option<Ended>, Failure> {
        for event in &response.events {
            self.add(event);
        }
        let rows = self.complete(response.fragment)?;
        Ok(self.pass_on(writer, rows))
    }

    /// Takes the rows of complete revisions out. The rest of the last revision may be in the next fragment.
    fn complete(&mut self, is_fragment: bool) -> Result<Vec<ChangedRow>, Failure> {
        let last = self.rows.last().map_or(0, |row| row.key.main);
        let complete = match is_fragment {
            true => self.rows.partition_point(|row| row.key.main < last),
            false => self.rows.len(),
        };
        let rest = self.rows.split_off(complete);
        if rest.iter().map(stored_bytes).sum::<usize>() > self.bytes_max {
            return Err(Failure::failed(
                format_args!(
                    "revision {last} has more than {} of changes, which is the most that a backup takes",
                    size(self.bytes_max as u64)
                ),
                "Start `backup run` again once the cluster has compacted that revision: another history \
                 begins behind it.",
            ));
        }
        Ok(std::mem::replace(&mut self.rows, rest))
    }

    /// Adds rows of complete revisions to the queue.
    fn pass_on(&mut self, writer: &HistoryWriter, mut rows: Vec<ChangedRow>) -> Option<Ended> {
        if rows.is_empty() {
            return None;
        }
        if let Some(anchor) = self.proof.take() {
            let later = rows.iter().position(|row| row.key.main != anchor.revision);
            let rest = rows.split_off(later.unwrap_or(rows.len()));
            if mark_of(&rows) != Some(anchor) {
                return Some(Ended::Broken(format!(
                    "the cluster has another revision {} than the backup",
                    anchor.revision
                )));
            }
            rows = rest;
        }
        let mut received = writer.queue.received();
        for row in &rows {
            if row.key.main > received + 1 {
                return Some(Ended::Broken(format!(
                    "the watch has left out revisions behind {received}"
                )));
            }
            received = row.key.main;
        }
        if let Some(anchor) = mark_of(&rows) {
            writer.reached.anchor.set(Some(anchor));
            writer.queue.add_rows(rows, received);
        }
        None
    }

    fn add(&mut self, event: &Event) {
        let Some(pair) = &event.kv else { return };
        let fields = pair.fields();
        let main = fields.mod_revision;
        let before = self.rows.last().filter(|row| row.key.main == main);
        let sub = before.map_or(0, |row| row.key.sub + 1);
        let is_deletion = event.r#type() == EventType::Delete;
        let value = match is_deletion {
            false => pair.0.clone(),
            true => {
                let key = fields.key;
                let row = Fields {
                    key,
                    ..Fields::default()
                };
                row.encode().0
            }
        };
        let key = RowKey {
            main,
            sub,
            is_deletion,
        };
        self.rows.push(ChangedRow { key, value });
    }
}

/// Bytes of a row in an object.
fn stored_bytes(row: &ChangedRow) -> usize {
    ROW_BYTES + row.value.len()
}

/// The last revision of rows with its mark.
fn mark_of(rows: &[ChangedRow]) -> Option<Anchor> {
    let mut marker = Marker::default();
    for row in rows {
        marker.add(row.key, &row.value);
    }
    let revision = rows.last()?.key.main;
    let mark = marker.finish();
    Some(Anchor { revision, mark })
}

#[cfg(test)]
mod tests {
    use etcd_api::mvccpb::KeyValue;
    use prost::Message;

    use super::*;

    fn event(revision: i64) -> Event {
        let pair = KeyValue {
            key: "key".into(),
            mod_revision: revision,
            ..KeyValue::default()
        };
        let kv = etcd_api::EncodedKeyValue(pair.encode_to_vec().into());
        Event {
            kv: Some(kv),
            ..Event::default()
        }
    }

    fn incoming(bytes_max: usize) -> IncomingRows {
        IncomingRows {
            bytes_max,
            ..IncomingRows::new(None)
        }
    }

    #[test]
    fn a_revision_that_continues_in_the_next_fragment_waits() {
        let mut incoming = incoming(1_000);
        for revision in [5, 6, 7, 7] {
            incoming.add(&event(revision));
        }
        let mut complete = |is_fragment| {
            let rows = incoming.complete(is_fragment);
            let rows = rows.expect("it is within the bound");
            let keys = rows.iter().map(|row| (row.key.main, row.key.sub));
            keys.collect::<Vec<_>>()
        };
        assert_eq!(complete(true), [(5, 0), (6, 0)]);
        assert_eq!(complete(true), []);
        assert_eq!(complete(false), [(7, 0), (7, 1)]);
    }

    #[test]
    fn a_revision_without_an_end_is_refused_at_the_bound() {
        let mut incoming = incoming(100);
        let mut refused = None;
        for _ in 0..100 {
            incoming.add(&event(7));
            refused = refused.or(incoming.complete(true).err());
        }
        let what = refused.expect("the bound is reached").what();
        assert!(
            what.contains("revision 7 ") && what.contains("100 B"),
            "{what}"
        );
    }

    #[test]
    fn many_revisions_in_fragments_are_not_one() {
        let mut incoming = incoming(100);
        for revision in 1..100 {
            incoming.add(&event(revision));
            assert!(incoming.complete(true).is_ok(), "{revision}");
        }
    }
}
