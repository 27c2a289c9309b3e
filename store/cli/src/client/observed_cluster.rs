//! Questions to a cluster of which everything is taken over: by a store that follows it, or by a backup.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb::{
    AuthStatusRequest, AuthStatusResponse, HashKvRequest, HashKvResponse, LeaseLeasesRequest,
    LeaseTimeToLiveRequest, RangeRequest, ResponseHeader, WatchCreateRequest, WatchResponse,
};
use futures_util::StreamExt;
use tonic::{Status, Streaming};

use super::connection::Connection;
use super::key_range::NO_END;
use crate::failure::Failure;
use crate::watch;

/// Longest time for HashKV, which reads the whole history.
const HASH_TIME_MAX: Duration = Duration::from_secs(15 * 60);
/// Questions about leases that are under way at once.
const QUESTIONS: usize = 32;

/// Cluster and newest revision, from a read that sees every acknowledged write.
pub(crate) async fn position(connection: &Connection) -> Result<ResponseHeader, Failure> {
    let range = RangeRequest {
        key: NO_END.into(),
        count_only: true,
        ..RangeRequest::default()
    };
    let send = async |request| connection.kv().range(request).await;
    let answer = connection.call(range, send).await?;
    answer
        .header
        .ok_or_else(|| Failure::failed("the server's answer has no header", ""))
}

/// A watch of all keys from a revision on.
pub(crate) async fn watch_all(
    connection: &Connection,
    start_revision: i64,
) -> Result<Streaming<WatchResponse>, Failure> {
    let create = WatchCreateRequest {
        key: Bytes::from_static(NO_END),
        range_end: Bytes::from_static(NO_END),
        start_revision,
        fragment: true,
        ..WatchCreateRequest::default()
    };
    watch::begin(connection, create).await
}

/// HashKV at a revision. The inner error is the server's refusal.
pub(crate) async fn hash_kv(
    connection: &Connection,
    revision: i64,
) -> Result<Result<HashKvResponse, Status>, Failure> {
    let send = async |request| connection.maintenance().hash_kv(request).await;
    let message = HashKvRequest { revision };
    connection
        .attempt_within(HASH_TIME_MAX, message, send)
        .await
}

/// The ids of all leases, and the header of the answer.
pub(crate) async fn lease_ids(
    connection: &Connection,
) -> Result<(BTreeSet<i64>, ResponseHeader), Failure> {
    let send = async |request| connection.lease().lease_leases(request).await;
    let answer = connection.call(LeaseLeasesRequest {}, send).await?;
    let ids = answer.leases.iter().map(|lease| lease.id).collect();
    Ok((ids, answer.header.unwrap_or_default()))
}

/// The seconds that each lease was granted; 0 for one that has ended.
pub(crate) async fn granted_seconds(
    connection: &Connection,
    ids: impl IntoIterator<Item = i64>,
) -> Result<BTreeMap<i64, i64>, Failure> {
    let questions = ids.into_iter().map(|id| async move {
        let request = LeaseTimeToLiveRequest { id, keys: false };
        let send = async |request| connection.lease().lease_time_to_live(request).await;
        match connection.attempt(request, send).await? {
            Ok(answer) => Ok((id, answer.granted_ttl)),
            Err(status) if status.code() == tonic::Code::NotFound => Ok((id, 0)),
            Err(status) => Err(connection.refused(&status)),
        }
    });
    let answers = futures_util::stream::iter(questions).buffer_unordered(QUESTIONS);
    let answers: Vec<Result<_, Failure>> = answers.collect().await;
    answers.into_iter().collect()
}

/// Whether users are checked, and the revision of users and roles.
pub(crate) async fn auth_status(connection: &Connection) -> Result<AuthStatusResponse, Failure> {
    let send = async |request| connection.auth().auth_status(request).await;
    connection.call(AuthStatusRequest {}, send).await
}
