//! One request to one member, recorded in the history.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest,
    PutRequest, RangeRequest, RequestOp, ResponseHeader, TxnRequest, TxnResponse, compare,
    kv_client::KvClient, lease_client::LeaseClient, request_op, response_op::Response,
};
use history::{Answer, Operation, Outcome as Known, Request};
use tonic::{Code, Status, transport::Channel};

use super::{
    member::{self, Member},
    recorder::Recorder,
    values,
};

/// Time limit for connecting.
const CONNECT_TIME: Duration = Duration::from_secs(1);

/// A client, which is connected to one member at a time.
pub struct Caller {
    client: u32,
    members: Vec<Arc<Member>>,
    recorder: Arc<Recorder>,
    /// Index into `members`, and the connection to it.
    connection: Option<(usize, Channel)>,
    /// Number of the only member in the history, for a client that stays with one.
    only: Option<usize>,
}

impl Caller {
    pub fn new(client: u32, members: &[Arc<Member>], recorder: &Arc<Recorder>) -> Caller {
        Caller {
            client,
            members: members.to_vec(),
            recorder: Arc::clone(recorder),
            connection: None,
            only: None,
        }
    }

    /// A client that stays with one member.
    pub fn to_one(
        client: u32,
        index: usize,
        member: &Arc<Member>,
        recorder: &Arc<Recorder>,
    ) -> Caller {
        Caller {
            only: Some(index),
            ..Caller::new(client, std::slice::from_ref(member), recorder)
        }
    }

    /// Sends a request once, waits no longer than `patience`, and records the outcome.
    /// Returns `None` if there was no connection, so that nothing was sent.
    pub async fn call(
        &mut self,
        request: Request,
        patience: Duration,
        random: &mut Random,
    ) -> Option<Operation> {
        // Clients sometimes change to another member.
        if random.chance(1, 50) {
            self.connection = None;
        }
        let (member, channel) = self.connect(random).await?;
        let life = self.members[member].life();
        let called = self.recorder.moment();
        let outcome = tokio::time::timeout(patience, send(channel, &request)).await;
        let returned = self.recorder.moment();
        let life = (life == self.members[member].life()).then_some(life);
        let outcome = match outcome {
            Ok(Ok(answer)) => Known::Done(answer),
            Ok(Err(status)) => judge(&status),
            Err(_) => Known::Unknown(format!("no answer in {} ms", patience.as_millis())),
        };
        // Half of the failed calls make the client change to another member.
        if !matches!(outcome, Known::Done(_)) && random.chance(1, 2) {
            self.connection = None;
        }
        let operation = Operation {
            client: self.client,
            member: self.only.unwrap_or(member) as u32,
            life,
            called,
            returned,
            request,
            outcome,
        };
        self.recorder.record(operation.clone());
        Some(operation)
    }

    async fn connect(&mut self, random: &mut Random) -> Option<(usize, Channel)> {
        if self.connection.is_none() {
            let member = member::any_present(&self.members, random)?;
            let channel = dial(&self.members[member]).await?;
            self.connection = Some((member, channel));
        }
        self.connection.clone()
    }
}

/// Opens a new connection; `None` if the member does not accept one.
pub async fn dial(member: &Member) -> Option<Channel> {
    let endpoint = Channel::from_shared(member.url()).ok()?;
    let endpoint = endpoint.connect_timeout(CONNECT_TIME).tcp_nodelay(true);
    let connect = tokio::time::timeout(CONNECT_TIME, endpoint.connect());
    connect.await.ok()?.ok()
}

/// Outcome of a failed call. These codes promise that nothing was done; after others
/// the outcome is unknown.
fn judge(status: &Status) -> Known {
    let text = format!("{:?}: {}", status.code(), status.message());
    match status.code() {
        Code::InvalidArgument
        | Code::NotFound
        | Code::FailedPrecondition
        | Code::ResourceExhausted
        | Code::OutOfRange => Known::Refused(text),
        _ => Known::Unknown(text),
    }
}

async fn send(channel: Channel, request: &Request) -> Result<Answer, Status> {
    match request {
        Request::Put {
            key,
            value,
            lease,
            previous,
        } => {
            let answer = KvClient::new(channel)
                .put(PutRequest {
                    key: key.clone().into(),
                    value: values::whole(value),
                    lease: *lease,
                    prev_kv: *previous,
                    ..PutRequest::default()
                })
                .await?
                .into_inner();
            Ok(Answer {
                revision: revision(answer.header)?,
                succeeded: true,
                versions: answer.prev_kv.iter().map(values::version).collect(),
                seconds: 0,
            })
        }
        Request::Delete { key } => {
            let answer = KvClient::new(channel)
                .delete_range(DeleteRangeRequest {
                    key: key.clone().into(),
                    prev_kv: true,
                    ..DeleteRangeRequest::default()
                })
                .await?
                .into_inner();
            Ok(Answer {
                revision: revision(answer.header)?,
                succeeded: answer.deleted > 0,
                versions: answer.prev_kvs.iter().map(values::version).collect(),
                seconds: 0,
            })
        }
        Request::Get { .. } => get(channel, request).await,
        Request::Swap { .. } => swap(channel, request).await,
        Request::Grant { .. } | Request::Revoke { .. } | Request::Renew { .. } => {
            lease(channel, request).await
        }
    }
}

async fn get(channel: Channel, request: &Request) -> Result<Answer, Status> {
    let Request::Get {
        key,
        end,
        revision: at,
        serializable,
    } = request
    else {
        unreachable!("only reads come here");
    };
    let answer = KvClient::new(channel)
        .range(RangeRequest {
            key: key.clone().into(),
            range_end: end.clone().into(),
            revision: *at,
            serializable: *serializable,
            ..RangeRequest::default()
        })
        .await?
        .into_inner();
    Ok(Answer {
        revision: revision(answer.header)?,
        succeeded: true,
        versions: answer.kvs.iter().map(values::version).collect(),
        seconds: 0,
    })
}

async fn swap(channel: Channel, request: &Request) -> Result<Answer, Status> {
    let Request::Swap {
        key,
        expected,
        puts,
    } = request
    else {
        unreachable!("only swaps come here");
    };
    let key: Bytes = key.clone().into();
    let success = puts.iter().map(|(key, value)| PutRequest {
        key: key.clone().into(),
        value: values::whole(value),
        ..PutRequest::default()
    });
    let success = success.map(|put| RequestOp {
        request: Some(request_op::Request::RequestPut(put)),
    });
    let read = RangeRequest {
        key: key.clone(),
        ..RangeRequest::default()
    };
    let txn = TxnRequest {
        compare: vec![Compare {
            result: compare::CompareResult::Equal.into(),
            target: compare::CompareTarget::Mod.into(),
            key,
            target_union: Some(compare::TargetUnion::ModRevision(*expected)),
            ..Compare::default()
        }],
        success: success.collect(),
        failure: vec![RequestOp {
            request: Some(request_op::Request::RequestRange(read)),
        }],
    };
    let answer = KvClient::new(channel).txn(txn).await?.into_inner();
    Ok(Answer {
        revision: revision(answer.header)?,
        succeeded: answer.succeeded,
        versions: seen(&answer),
        seconds: 0,
    })
}

/// The versions that the transaction's reads found.
fn seen(answer: &TxnResponse) -> Vec<history::Version> {
    let mut versions = Vec::new();
    for response in &answer.responses {
        if let Some(Response::ResponseRange(range)) = &response.response {
            versions.extend(range.kvs.iter().map(values::version));
        }
    }
    versions
}

async fn lease(channel: Channel, request: &Request) -> Result<Answer, Status> {
    let mut client = LeaseClient::new(channel);
    let (header, succeeded, seconds) = match *request {
        Request::Grant { lease, seconds } => {
            let grant = LeaseGrantRequest {
                ttl: seconds,
                id: lease,
            };
            let answer = client.lease_grant(grant).await?.into_inner();
            if answer.id != lease {
                return Err(Status::data_loss("another lease was granted"));
            }
            (answer.header, true, answer.ttl)
        }
        Request::Revoke { lease } => {
            let revoke = LeaseRevokeRequest { id: lease };
            let answer = client.lease_revoke(revoke).await?.into_inner();
            (answer.header, true, 0)
        }
        Request::Renew { lease } => {
            let renew = tokio_stream::once(LeaseKeepAliveRequest { id: lease });
            let mut answers = client.lease_keep_alive(renew).await?.into_inner();
            let answer = answers.message().await?;
            let answer = answer.ok_or_else(|| Status::unavailable("the stream ended"))?;
            (answer.header, answer.ttl > 0, answer.ttl)
        }
        _ => unreachable!("only what is about leases comes here"),
    };
    Ok(Answer {
        revision: revision(header)?,
        succeeded,
        versions: Vec::new(),
        seconds,
    })
}

fn revision(header: Option<ResponseHeader>) -> Result<i64, Status> {
    let header = header.ok_or_else(|| Status::data_loss("an answer without a header"))?;
    Ok(header.revision)
}
