//! Follows a cluster by a watch of all keys.
//!
//! ```text
//!   watch from the newest revision that was received
//!     its rows ──► must be those that were received: else another history begins
//!     later rows ──► queue
//! ```

use std::time::Duration;

use backup::{Anchor, ChangedRow, Marker};
use etcd_api::etcdserverpb::WatchResponse;
use etcd_api::inkstonepb::GivenRevision;
use etcd_api::mvccpb::event::EventType;
use etcd_api::{EncodedKeyValue, Error as Refusal, Fields};
use etcd_snapshot::RowKey;

use super::history::HistoryWriter;
use crate::client::Connection;
use crate::client::observed_cluster::{position, watch_all};
use crate::client::revision_assembler::RevisionAssembler;
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
    /// The next changes do not continue those that are stored.
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
    let start = anchor.map_or(received + 1, |anchor| anchor.revision);
    let mut responses = match watch_all(connection, start).await {
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
        if let Some(ended) = incoming.take(writer, response)? {
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
    assembler: RevisionAssembler,
    bytes_max: usize,
    /// The revision that must come first, as it was received before.
    proof: Option<Anchor>,
}

impl IncomingRows {
    fn new(proof: Option<Anchor>) -> IncomingRows {
        IncomingRows {
            assembler: RevisionAssembler::default(),
            bytes_max: REVISION_BYTES_MAX,
            proof,
        }
    }

    /// Takes the events of a response.
    fn take(
        &mut self,
        writer: &HistoryWriter,
        response: WatchResponse,
    ) -> Result<Option<Ended>, Failure> {
        let rows = self.complete(response)?;
        Ok(self.pass_on(writer, rows))
    }

    /// The rows of the revisions that a response completes.
    fn complete(&mut self, response: WatchResponse) -> Result<Vec<ChangedRow>, Failure> {
        let mut complete = Vec::new();
        self.assembler.take(response, &mut complete);
        if let Some((revision, bytes)) = self.assembler.open()
            && bytes > self.bytes_max
        {
            return Err(Failure::failed(
                format_args!(
                    "revision {revision} has more than {} of changes, which is the most that a backup takes",
                    size(self.bytes_max as u64)
                ),
                "Start `backup run` again once the cluster has compacted that revision: another history \
                 begins behind it.",
            ));
        }
        let complete = complete.into_iter().map(|(revision, _)| revision);
        Ok(complete.flat_map(rows_of).collect())
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
}

/// The rows of a revision, numbered in the order in which they came.
fn rows_of(revision: GivenRevision) -> impl Iterator<Item = ChangedRow> {
    let main = revision.revision;
    let events = (0..).zip(revision.events);
    events.filter_map(move |(sub, event)| {
        Some(row_of(
            RowKey {
                main,
                sub,
                is_deletion: event.r#type() == EventType::Delete,
            },
            event.kv?,
        ))
    })
}

fn row_of(key: RowKey, pair: EncodedKeyValue) -> ChangedRow {
    let value = match key.is_deletion {
        false => pair.0,
        true => {
            let key = pair.key();
            let row = Fields {
                key,
                ..Fields::default()
            };
            row.encode().0
        }
    };
    ChangedRow { key, value }
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
    use etcd_api::mvccpb::Event;

    use super::*;

    fn fragment(revision: i64) -> WatchResponse {
        let pair = Fields {
            key: b"key",
            mod_revision: revision,
            ..Fields::default()
        };
        WatchResponse {
            fragment: true,
            events: vec![Event {
                kv: Some(pair.encode()),
                ..Event::default()
            }],
            ..WatchResponse::default()
        }
    }

    fn incoming(bytes_max: usize) -> IncomingRows {
        IncomingRows {
            bytes_max,
            ..IncomingRows::new(None)
        }
    }

    #[test]
    fn rows_of_a_revision_are_numbered_in_their_order_across_fragments() {
        let mut incoming = incoming(1_000);
        let mut complete = |response| {
            let rows = incoming.complete(response);
            let rows = rows.expect("it is within the bound");
            let keys = rows.iter().map(|row| (row.key.main, row.key.sub));
            keys.collect::<Vec<_>>()
        };
        assert_eq!(complete(fragment(5)), []);
        assert_eq!(complete(fragment(7)), [(5, 0)]);
        assert_eq!(complete(fragment(7)), []);
        assert_eq!(complete(WatchResponse::default()), [(7, 0), (7, 1)]);
    }

    #[test]
    fn a_revision_without_an_end_is_refused_at_the_bound() {
        let mut incoming = incoming(100);
        let refused = (0..100).find_map(|_| incoming.complete(fragment(7)).err());
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
            assert!(incoming.complete(fragment(revision)).is_ok(), "{revision}");
        }
    }
}
