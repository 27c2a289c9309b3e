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
use prost::Message;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::servers::channel;
use crate::{Outcome, requests};

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
    HashKv(HashKvRequest),
}

impl Operation {
    /// Service and method, and the encoded request.
    pub fn call(&self) -> (&'static str, Vec<u8>) {
        match self {
            Operation::Put(put) => ("KV/Put", put.encode_to_vec()),
            Operation::DeleteRange(delete) => ("KV/DeleteRange", delete.encode_to_vec()),
            Operation::Range(range) => ("KV/Range", range.encode_to_vec()),
            Operation::Txn(txn) => ("KV/Txn", txn.encode_to_vec()),
            Operation::Compact(compact) => ("KV/Compact", compact.encode_to_vec()),
            Operation::LeaseGrant(grant) => ("Lease/LeaseGrant", grant.encode_to_vec()),
            Operation::LeaseRevoke(revoke) => ("Lease/LeaseRevoke", revoke.encode_to_vec()),
            Operation::LeaseTimeToLive(it) => ("Lease/LeaseTimeToLive", it.encode_to_vec()),
            Operation::LeaseLeases => ("Lease/LeaseLeases", Vec::new()),
            Operation::HashKv(hash) => ("Maintenance/HashKV", hash.encode_to_vec()),
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
        match self.send(operation.clone()).await {
            Ok(answer) => Ok(answer),
            Err(status) if has_gone(&status) => {
                Err(format!("{} has gone away: {status}", self.name).into())
            }
            Err(status) => Ok(Answer {
                revision: None,
                text: requests::refusal(&status),
            }),
        }
    }

    async fn send(&mut self, operation: Operation) -> Result<Answer, Status> {
        let (kv, lease) = (&mut self.kv, &mut self.lease);
        Ok(match operation {
            Operation::Put(put) => answer(kv.put(put).await?, |it| &mut it.header),
            Operation::DeleteRange(delete) => {
                answer(kv.delete_range(delete).await?, |it| &mut it.header)
            }
            Operation::Range(range) => {
                let by_its_key = range.sort_target == 0;
                let mut response = kv.range(range).await?;
                if !by_its_key {
                    by_key(response.get_mut());
                }
                answer(response, |it| &mut it.header)
            }
            Operation::Txn(txn) => {
                let mut response = kv.txn(txn).await?;
                without_headers(response.get_mut());
                answer(response, |it| &mut it.header)
            }
            Operation::Compact(compact) => answer(kv.compact(compact).await?, |it| &mut it.header),
            Operation::LeaseGrant(grant) => {
                answer(lease.lease_grant(grant).await?, |it| &mut it.header)
            }
            Operation::LeaseRevoke(revoke) => {
                answer(lease.lease_revoke(revoke).await?, |it| &mut it.header)
            }
            Operation::LeaseTimeToLive(question) => {
                let mut response = lease.lease_time_to_live(question).await?;
                let told = response.get_mut();
                told.ttl = told.ttl.signum();
                told.keys.sort();
                answer(response, |it| &mut it.header)
            }
            Operation::LeaseLeases => {
                let mut response = lease.lease_leases(LeaseLeasesRequest {}).await?;
                response.get_mut().leases.sort_by_key(|lease| lease.id);
                answer(response, |it| &mut it.header)
            }
            Operation::HashKv(hash) => {
                answer(self.maintenance.hash_kv(hash).await?, |it| &mut it.header)
            }
        })
    }
}

/// All of a response but its header, of which only the revision is comparable.
fn answer<R: std::fmt::Debug>(
    response: Response<R>,
    header: impl Fn(&mut R) -> &mut Option<ResponseHeader>,
) -> Answer {
    let mut response = response.into_inner();
    let header = header(&mut response).take().unwrap_or_default();
    Answer {
        revision: Some(header.revision),
        text: format!("{response:?}"),
    }
}

/// Whether the connection failed, so that the status is no answer of the server.
fn has_gone(status: &Status) -> bool {
    use std::error::Error;
    status.code() == tonic::Code::Unavailable || status.source().is_some()
}

/// Sorts by key, because pairs with equal sort keys may be in any order.
fn by_key(response: &mut RangeResponse) {
    let kvs = &mut response.kvs;
    kvs.sort_by(|left, right| left.key().cmp(right.key()));
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
