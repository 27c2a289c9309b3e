//! A place in the queue of a lock or an election, as etcd's clients form it.
//!
//! ```text
//!   NAME/lease 1   created at revision 7     has its turn
//!   NAME/lease 2   created at revision 9     waits for the deletion of the key before it
//! ```

use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd_api::etcdserverpb::request_op::Request as Requested;
use etcd_api::etcdserverpb::{
    Compare, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest, WatchCreateRequest,
};
use etcd_api::mvccpb::event::EventType;
use tokio::time::sleep;
use tonic::Code;

use super::connection::Connection;
use super::endpoints::Endpoints;
use super::key_range::prefix_end;
use super::session::LeaseSession;
use crate::failure::Failure;
use crate::watch;

/// Pause before another attempt to reach a server.
const PAUSE: Duration = Duration::from_millis(500);

/// A key of a session below the name of a lock or an election.
pub(crate) struct Turn<'a> {
    endpoints: &'a Endpoints,
    prefix: Bytes,
    pub(crate) key: Bytes,
    /// The revision that created the key.
    pub(crate) revision: i64,
}

impl Turn<'_> {
    /// Joins the queue.
    pub(crate) async fn join<'a>(
        session: &LeaseSession<'a>,
        name: &[u8],
        value: Bytes,
    ) -> Result<Turn<'a>, Failure> {
        let prefix = prefix_of(name);
        let key = [&prefix[..], format!("{:x}", session.lease).as_bytes()].concat();
        let key = Bytes::from(key);
        let connection = session.endpoints.any().await?;
        let send = async |request| connection.kv().txn(request).await;
        let message = creation(&key, value, session.lease);
        let answer = connection.call(message, send).await?;
        if !answer.succeeded {
            return Err(Failure::failed(
                "the key of a new lease exists",
                "Try again.",
            ));
        }
        Ok(Turn {
            endpoints: session.endpoints,
            prefix,
            key,
            revision: answer.header.map_or(0, |header| header.revision),
        })
    }

    /// Waits until all keys that were created earlier are gone.
    pub(crate) async fn wait(&self) -> Result<(), Failure> {
        let before = RangeRequest {
            sort_order: SortOrder::Descend.into(),
            max_create_revision: self.revision - 1,
            ..one_of(&self.prefix)
        };
        loop {
            let Some((connection, found)) = ask(self.endpoints, before.clone()).await? else {
                sleep(PAUSE).await;
                continue;
            };
            let Some(pair) = found.kvs.first() else {
                return Ok(());
            };
            let key = Bytes::copy_from_slice(pair.key());
            let revision = found.header.map_or(0, |header| header.revision) + 1;
            if !deleted(&connection, key, revision).await {
                sleep(PAUSE).await;
            }
        }
    }

    /// The pair of this key; none if the session has lost it.
    pub(crate) async fn pair(&self) -> Result<RangeResponse, Failure> {
        let connection = self.endpoints.any().await?;
        let send = async |request| connection.kv().range(request).await;
        let message = RangeRequest {
            key: self.key.clone(),
            ..RangeRequest::default()
        };
        connection.call(message, send).await
    }
}

/// The pair below a name that was created first, and the connection that found it.
pub(crate) async fn first_of(
    endpoints: &Endpoints,
    name: &[u8],
) -> Result<Option<(Connection, RangeResponse)>, Failure> {
    let first = RangeRequest {
        sort_order: SortOrder::Ascend.into(),
        ..one_of(&prefix_of(name))
    };
    ask(endpoints, first).await
}

fn prefix_of(name: &[u8]) -> Bytes {
    Bytes::from([name, b"/"].concat())
}

fn one_of(prefix: &Bytes) -> RangeRequest {
    RangeRequest {
        key: prefix.clone(),
        range_end: prefix_end(prefix),
        limit: 1,
        sort_target: SortTarget::Create.into(),
        ..RangeRequest::default()
    }
}

/// A transaction that creates a key, unless it exists.
fn creation(key: &Bytes, value: Bytes, lease: i64) -> TxnRequest {
    let absent = Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.clone(),
        target_union: Some(TargetUnion::CreateRevision(0)),
        ..Compare::default()
    };
    let put = PutRequest {
        key: key.clone(),
        value,
        lease,
        ..PutRequest::default()
    };
    TxnRequest {
        compare: vec![absent],
        success: vec![RequestOp {
            request: Some(Requested::RequestPut(put)),
        }],
        failure: Vec::new(),
    }
}

/// Reads through the first endpoint that answers; `None` if another attempt may succeed.
async fn ask(
    endpoints: &Endpoints,
    message: RangeRequest,
) -> Result<Option<(Connection, RangeResponse)>, Failure> {
    let Ok(connection) = endpoints.any().await else {
        return Ok(None);
    };
    let send = async |request| connection.kv().range(request).await;
    match connection.attempt(message, send).await {
        Ok(Ok(answer)) => Ok(Some((connection, answer))),
        Ok(Err(status)) if status.code() != Code::Unavailable => Err(connection.refused(&status)),
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

/// Waits for the deletion of a key; false if the watch has ended before.
async fn deleted(connection: &Connection, key: Bytes, revision: i64) -> bool {
    let create = WatchCreateRequest {
        key,
        start_revision: revision,
        ..WatchCreateRequest::default()
    };
    let Ok(mut responses) = watch::begin(connection, create).await else {
        return false;
    };
    while let Ok(Some(response)) = responses.message().await {
        let mut events = response.events.iter();
        if events.any(|event| event.r#type() == EventType::Delete) {
            return true;
        }
        if response.canceled {
            return false;
        }
    }
    false
}
