//! Calls of etcd's API as the history has them: requests, and what came of each.

use std::time::Duration;

use bytes::Bytes;
use etcd_api::EncodedKeyValue;
use etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, HashKvRequest, HashKvResponse,
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, PutRequest, RangeRequest,
    RequestOp, ResponseHeader, TxnRequest, TxnResponse, WatchCreateRequest, WatchProgressRequest,
    WatchRequest, WatchResponse, compare, kv_client::KvClient, lease_client::LeaseClient,
    maintenance_client::MaintenanceClient, request_op, response_op::Response,
    watch_client::WatchClient, watch_request::RequestUnion,
};
use etcd_api::mvccpb::{Event, event::EventType};
use history::{Answer, Change, Entry, Operation, Outcome as Known, Request};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

use crate::{process::Outcome, recorder::Recorder, values};

/// The range of all keys that trials write.
pub const FIRST_KEY: &str = "a";
pub const END_KEY: &str = "z";
/// Limit for answers; gRPC's default is smaller.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Time limit for connecting.
const CONNECT_TIME: Duration = Duration::from_secs(1);
/// A watch without a message for this long does not continue.
const SILENCE: Duration = Duration::from_secs(60);

/// Opens a new connection.
pub async fn dial(url: String) -> Outcome<Channel> {
    let endpoint = Channel::from_shared(url)?;
    let endpoint = endpoint.connect_timeout(CONNECT_TIME).tcp_nodelay(true);
    Ok(timeout(CONNECT_TIME, endpoint.connect()).await??)
}

fn kv(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX)
}

/// Sends a request once, waits no longer than `patience`, and returns what came of it.
pub async fn outcome(channel: Channel, request: &Request, patience: Duration) -> Known {
    match timeout(patience, send(channel, request)).await {
        Ok(Ok(answer)) => Known::Done(answer),
        Ok(Err(status)) => failed(&status),
        Err(_) => Known::unknown(format!("no answer in {} ms", patience.as_millis())),
    }
}

/// Outcome of a failed call. These codes promise that nothing was done; after others
/// the outcome is unknown.
fn failed(status: &Status) -> Known {
    let text = format!("{:?}: {}", status.code(), status.message());
    match status.code() {
        Code::InvalidArgument
        | Code::NotFound
        | Code::FailedPrecondition
        | Code::ResourceExhausted
        | Code::OutOfRange => Known::refused(text),
        _ => Known::unknown(text),
    }
}

/// Sends a request once.
pub async fn send(channel: Channel, request: &Request) -> Result<Answer, Status> {
    match request {
        Request::Put {
            key,
            value,
            lease,
            previous,
        } => {
            let answer = kv(channel)
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
            let answer = kv(channel)
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
        Request::Batch { puts, deletes } => batch(channel, puts, deletes).await,
        Request::Compact { revision: at } => {
            let request = CompactionRequest {
                revision: *at,
                physical: false,
            };
            let answer = kv(channel).compact(request).await?.into_inner();
            Ok(Answer {
                revision: revision(answer.header)?,
                succeeded: true,
                ..Answer::default()
            })
        }
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
    let answer = kv(channel)
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
    let success = puts.iter().map(put);
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
    let answer = kv(channel).txn(txn).await?.into_inner();
    Ok(Answer {
        revision: revision(answer.header)?,
        succeeded: answer.succeeded,
        versions: seen(&answer),
        seconds: 0,
    })
}

async fn batch(
    channel: Channel,
    puts: &[(String, String)],
    deletes: &[String],
) -> Result<Answer, Status> {
    let delete = |key: &String| RequestOp {
        request: Some(request_op::Request::RequestDeleteRange(
            DeleteRangeRequest {
                key: key.clone().into(),
                ..DeleteRangeRequest::default()
            },
        )),
    };
    let success = puts.iter().map(put).chain(deletes.iter().map(delete));
    let txn = TxnRequest {
        success: success.collect(),
        ..TxnRequest::default()
    };
    let answer = kv(channel).txn(txn).await?.into_inner();
    Ok(Answer {
        revision: revision(answer.header)?,
        succeeded: true,
        ..Answer::default()
    })
}

fn put((key, value): &(String, String)) -> RequestOp {
    let put = PutRequest {
        key: key.clone().into(),
        value: values::whole(value),
        ..PutRequest::default()
    };
    RequestOp {
        request: Some(request_op::Request::RequestPut(put)),
    }
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

/// Sends a request for a client that stays with one member, and records it.
pub async fn ask(
    (client, member): (u32, u32),
    channel: &Channel,
    request: Request,
    patience: Duration,
    recorder: &Recorder,
) -> Operation {
    let called = recorder.moment();
    let outcome = outcome(channel.clone(), &request, patience).await;
    let operation = Operation {
        client,
        member,
        life: None,
        called,
        returned: recorder.moment(),
        request,
        outcome,
    };
    recorder.record(operation.clone());
    operation
}

/// A linearizable read of all keys at a revision; 0: the newest.
pub fn read_of_all(revision: i64) -> Request {
    Request::Get {
        key: FIRST_KEY.to_owned(),
        end: END_KEY.to_owned(),
        revision,
        serializable: false,
    }
}

/// HashKV at a revision; 0: the newest.
pub async fn hash(channel: Channel, revision: i64) -> Result<HashKvResponse, Status> {
    let mut maintenance = MaintenanceClient::new(channel);
    let answer = maintenance.hash_kv(HashKvRequest { revision }).await?;
    Ok(answer.into_inner())
}

/// An open watch.
pub struct Stream {
    requests: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
}

/// Opens a watch. Returns it with the revision at which it was created.
pub async fn watch(channel: Channel, key: &str, end: &str, first: i64) -> Outcome<(Stream, i64)> {
    let create = WatchCreateRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        range_end: Bytes::copy_from_slice(end.as_bytes()),
        start_revision: first,
        ..WatchCreateRequest::default()
    };
    let (requests, receiver) = mpsc::channel(4);
    let create = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    requests.send(create).await?;
    let mut client = WatchClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    let answers = client.watch(ReceiverStream::new(receiver)).await?;
    let answers = answers.into_inner();
    let mut stream = Stream { requests, answers };
    let created = stream.next().await?;
    if !created.created || created.canceled {
        let (reason, compacted) = (created.cancel_reason, created.compact_revision);
        return Err(format!("no watch from {first}: {reason} (compacted: {compacted})").into());
    }
    let header = created.header.ok_or("an answer without a header")?;
    Ok((stream, header.revision))
}

impl Stream {
    /// The next message.
    pub async fn next(&mut self) -> Outcome<WatchResponse> {
        let answer = self.answers.message().await?;
        Ok(answer.ok_or("the watch ended")?)
    }

    pub async fn ask_for_progress(&mut self) {
        let ask = WatchRequest {
            request_union: Some(RequestUnion::ProgressRequest(WatchProgressRequest {})),
        };
        // A stream that does not read requests ends by itself.
        drop(self.requests.try_send(ask));
    }
}

/// An event for the history.
pub fn change(event: &Event) -> Change {
    let nothing = EncodedKeyValue::default();
    let version = values::version(event.kv.as_ref().unwrap_or(&nothing));
    match event.r#type() {
        EventType::Put => Change::Put(version),
        EventType::Delete => Change::Delete {
            key: version.key,
            modified: version.modified,
        },
    }
}

/// Every revision from `first` to `last` that a watch of all keys shows. Missing ones are for
/// the judge to find.
pub async fn revisions(channel: Channel, first: i64, last: i64) -> Outcome<Vec<Entry>> {
    let mut ledger: Vec<Entry> = Vec::new();
    if first > last {
        return Ok(ledger);
    }
    let (mut stream, _) = watch(channel, FIRST_KEY, END_KEY, first).await?;
    let mut seen = first - 1;
    while seen < last {
        let answer = timeout(SILENCE, stream.next()).await;
        let answer = answer.map_err(|_| format!("no event comes after revision {seen}"))??;
        for change in answer.events.iter().map(change) {
            seen = change.modified();
            match ledger.last_mut() {
                Some(entry) if entry.revision == seen => entry.changes.push(change),
                _ => ledger.push(Entry {
                    revision: seen,
                    changes: vec![change],
                }),
            }
        }
    }
    Ok(ledger)
}

/// The end of the range of all keys that begin with an ASCII `prefix`.
pub fn end_of(prefix: &str) -> Bytes {
    let mut end = prefix.as_bytes().to_vec();
    let last = end.last_mut().expect("a prefix is not empty");
    assert!(*last < u8::MAX, "an ASCII byte has a successor");
    *last += 1;
    end.into()
}
