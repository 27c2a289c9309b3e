//! An operation that is sent to both servers, and its answer in comparable form.

use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::lease_client::LeaseClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, HashKvRequest, LeaseGrantRequest, LeaseLeasesRequest,
    LeaseRevokeRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest, RangeResponse,
    ResponseHeader, ResponseOp, TxnRequest, TxnResponse, response_op::Response as Branch,
};
use harness::Member;
use tonic::transport::Channel;

use crate::Outcome;
use crate::servers::channel;

/// An operation of a client.
#[derive(Clone, Debug)]
pub enum Operation {
    Put(PutRequest),
    DeleteRange(DeleteRangeRequest),
    Range(RangeRequest),
    Txn(TxnRequest),
    Compact(CompactionRequest),
    LeaseGrant(LeaseGrantRequest),
    LeaseRevoke(LeaseRevokeRequest),
    LeaseTimeToLive(LeaseTimeToLiveRequest),
    LeaseLeases,
    /// HashKV at this revision; 0 is the newest.
    HashKv(i64),
}

impl Operation {
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Put(_) => "put",
            Operation::DeleteRange(_) => "delete",
            Operation::Range(_) => "range",
            Operation::Txn(_) => "txn",
            Operation::Compact(_) => "compact",
            Operation::LeaseGrant(_) => "lease grant",
            Operation::LeaseRevoke(_) => "lease revoke",
            Operation::LeaseTimeToLive(_) => "lease time-to-live",
            Operation::LeaseLeases => "lease list",
            Operation::HashKv(_) => "hash",
        }
    }
}

/// An answer without the parts that may differ (ids, terms, remaining time).
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The header's revision; `None` for an error.
    pub revision: Option<i64>,
    /// Everything else, as text.
    pub text: String,
}

/// A client of one of the two servers.
pub struct Peer {
    name: &'static str,
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
    maintenance: MaintenanceClient<Channel>,
}

impl Peer {
    pub async fn connect(name: &'static str, server: &Member) -> Outcome<Peer> {
        let channel = channel(server).await?;
        Ok(Peer {
            name,
            kv: KvClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            lease: LeaseClient::new(channel.clone()),
            maintenance: MaintenanceClient::new(channel),
        })
    }

    /// Sends the operation; fails if the connection to the server is lost.
    pub async fn run(&mut self, operation: &Operation) -> Outcome<Answer> {
        let outcome = match operation.clone() {
            Operation::HashKv(revision) => self.hash_kv(revision).await,
            Operation::LeaseGrant(_)
            | Operation::LeaseRevoke(_)
            | Operation::LeaseTimeToLive(_)
            | Operation::LeaseLeases => self.run_lease(operation.clone()).await,
            keys => self.run_keys(keys).await,
        };
        match outcome {
            Ok((revision, text)) => Ok(Answer {
                revision: Some(revision),
                text,
            }),
            Err(status) if has_gone(&status) => {
                Err(format!("{} has gone away: {status}", self.name).into())
            }
            Err(status) => Ok(Answer {
                revision: None,
                text: format!("{:?}: {}", status.code(), status.message()),
            }),
        }
    }

    async fn run_keys(&mut self, operation: Operation) -> Result<(i64, String), tonic::Status> {
        match operation {
            Operation::Put(put) => self.kv.put(put).await.map(|response| {
                let mut response = response.into_inner();
                (take(&mut response.header), format!("{response:?}"))
            }),
            Operation::DeleteRange(delete) => self.kv.delete_range(delete).await.map(|response| {
                let mut response = response.into_inner();
                (take(&mut response.header), format!("{response:?}"))
            }),
            Operation::Range(range) => {
                let by_its_key = range.sort_target == 0;
                self.kv.range(range).await.map(|response| {
                    let mut response = response.into_inner();
                    if !by_its_key {
                        by_key(&mut response);
                    }
                    (take(&mut response.header), format!("{response:?}"))
                })
            }
            Operation::Txn(txn) => self.kv.txn(txn).await.map(|response| {
                let mut response = response.into_inner();
                let revision = take(&mut response.header);
                without_headers(&mut response);
                (revision, format!("{response:?}"))
            }),
            Operation::Compact(compact) => self
                .kv
                .compact(compact)
                .await
                .map(|response| (take(&mut response.into_inner().header), String::new())),
            other => unreachable!("{other:?} reads and writes no keys"),
        }
    }

    async fn run_lease(&mut self, operation: Operation) -> Result<(i64, String), tonic::Status> {
        match operation {
            Operation::LeaseGrant(grant) => self.lease.lease_grant(grant).await.map(|response| {
                let mut response = response.into_inner();
                (take(&mut response.header), format!("{response:?}"))
            }),
            Operation::LeaseRevoke(revoke) => self
                .lease
                .lease_revoke(revoke)
                .await
                .map(|response| (take(&mut response.into_inner().header), String::new())),
            Operation::LeaseTimeToLive(lease) => {
                self.lease.lease_time_to_live(lease).await.map(|response| {
                    let mut response = response.into_inner();
                    let revision = take(&mut response.header);
                    response.ttl = response.ttl.signum();
                    response.keys.sort();
                    (revision, format!("{response:?}"))
                })
            }
            _ => self
                .lease
                .lease_leases(LeaseLeasesRequest {})
                .await
                .map(|response| {
                    let mut response = response.into_inner();
                    let mut ids: Vec<i64> = response.leases.iter().map(|lease| lease.id).collect();
                    ids.sort_unstable();
                    (take(&mut response.header), format!("{ids:?}"))
                }),
        }
    }

    /// HashKV with all fields of its answer.
    async fn hash_kv(&mut self, revision: i64) -> Result<(i64, String), tonic::Status> {
        let response = self.maintenance.hash_kv(HashKvRequest { revision }).await?;
        let mut response = response.into_inner();
        let header = take(&mut response.header);
        Ok((header, format!("{response:?}")))
    }
}

/// Whether the connection failed, so that the status is no answer of the server.
fn has_gone(status: &tonic::Status) -> bool {
    use std::error::Error;
    status.code() == tonic::Code::Unavailable || status.source().is_some()
}

/// Sorts by key, because pairs with equal sort keys may be in any order.
fn by_key(response: &mut RangeResponse) {
    response
        .kvs
        .sort_by(|left, right| left.key().cmp(right.key()));
}

fn take(header: &mut Option<ResponseHeader>) -> i64 {
    header.take().unwrap_or_default().revision
}

/// Headers inside a transaction's answers keep their revision only.
fn without_headers(response: &mut TxnResponse) {
    for ResponseOp { response } in &mut response.responses {
        match response {
            Some(Branch::ResponseRange(range)) => {
                plain(&mut range.header);
                by_key(range);
            }
            Some(Branch::ResponsePut(put)) => plain(&mut put.header),
            Some(Branch::ResponseDeleteRange(delete)) => plain(&mut delete.header),
            Some(Branch::ResponseTxn(nested)) => {
                plain(&mut nested.header);
                without_headers(nested);
            }
            None => {}
        }
    }
}

fn plain(header: &mut Option<ResponseHeader>) {
    if let Some(header) = header {
        let revision = header.revision;
        *header = ResponseHeader {
            revision,
            ..Default::default()
        };
    }
}
