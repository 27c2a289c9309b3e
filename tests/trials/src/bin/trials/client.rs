//! Calls of etcd's API as the history has them: requests, and what came of each.

use std::time::Duration;

use etcd_api::EncodedKeyValue;
use etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, HashKvRequest, HashKvResponse,
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseRevokeRequest, PutRequest, RangeRequest, ResponseHeader, TxnRequest, WatchCreateRequest,
    WatchRequest, WatchResponse, compare, kv_client::KvClient, lease_client::LeaseClient,
    maintenance_client::MaintenanceClient, request_op, response_op::Response,
    watch_client::WatchClient, watch_request::RequestUnion,
};
use etcd_api::mvccpb::{Event, event::EventType};
use history::{Answer, Change, Entry, Outcome as Known, Request, Version};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

use crate::{process::Outcome, requests, values};

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

/// Header of an answer, whether it succeeded, what it shows, and seconds of a lease.
type Parts = (Option<ResponseHeader>, bool, Vec<Version>, i64);

/// A connection to a member.
pub struct Connection {
    channel: Channel,
    /// The stream of the last renewals, all of one lease.
    renewals: Option<Renewals>,
}

struct Renewals {
    lease: i64,
    requests: mpsc::Sender<LeaseKeepAliveRequest>,
    answers: Streaming<LeaseKeepAliveResponse>,
}

impl Connection {
    pub fn over(channel: Channel) -> Connection {
        Connection {
            channel,
            renewals: None,
        }
    }

    /// Sends a request once, and waits no longer than `patience`.
    pub async fn ask(&mut self, request: &Request, patience: Duration) -> Known {
        match timeout(patience, self.send(request)).await {
            Ok(Ok(answer)) => Known::Done(answer),
            Ok(Err(status)) => failed(&status),
            Err(_) => Known::unknown(format!("no answer in {} ms", patience.as_millis())),
        }
    }

    /// Sends a request once.
    pub async fn send(&mut self, request: &Request) -> Result<Answer, Status> {
        let channel = self.channel.clone();
        let (header, succeeded, versions, seconds) = match request {
            Request::Renew { lease } => self.renew(*lease).await?,
            Request::Grant { .. } | Request::Revoke { .. } => lease(channel, request).await?,
            Request::Swap { .. } | Request::Batch { .. } => txn(channel, request).await?,
            _ => single(channel, request).await?,
        };
        let header = header.ok_or_else(|| Status::data_loss("an answer without a header"))?;
        Ok(Answer {
            revision: header.revision,
            succeeded,
            versions,
            seconds,
        })
    }

    /// Renews a lease on the stream of its last renewal, or on a new one. A renewal that fails or
    /// is abandoned ends the stream, so that no late answer is taken for that of the next one.
    async fn renew(&mut self, lease: i64) -> Result<Parts, Status> {
        let request = LeaseKeepAliveRequest { id: lease };
        let mut stream = match self.renewals.take().filter(|it| it.lease == lease) {
            Some(stream) => {
                // The answers say why a stream has ended.
                let _ = stream.requests.try_send(request);
                stream
            }
            None => {
                let (requests, receiver) = mpsc::channel(1);
                let _ = requests.try_send(request);
                let mut client = LeaseClient::new(self.channel.clone());
                let answers = client.lease_keep_alive(ReceiverStream::new(receiver));
                Renewals {
                    lease,
                    requests,
                    answers: answers.await?.into_inner(),
                }
            }
        };
        let answer = stream.answers.message().await?;
        let answer = answer.ok_or_else(|| Status::unavailable("the stream ended"))?;
        self.renewals = Some(stream);
        Ok((answer.header, answer.ttl > 0, Vec::new(), answer.ttl))
    }
}

/// A request to the key-value service that is no transaction.
async fn single(channel: Channel, request: &Request) -> Result<Parts, Status> {
    let seen = |kvs: &[EncodedKeyValue]| kvs.iter().map(values::version).collect();
    let mut kv = kv(channel);
    match request {
        Request::Put {
            key,
            value,
            lease,
            previous,
        } => {
            let put = PutRequest {
                lease: *lease,
                prev_kv: *previous,
                ..requests::put(key.clone(), values::whole(value))
            };
            let answer = kv.put(put).await?.into_inner();
            Ok((answer.header, true, seen(answer.prev_kv.as_slice()), 0))
        }
        Request::Delete { key } => {
            let delete = DeleteRangeRequest {
                prev_kv: true,
                ..requests::delete(key.clone())
            };
            let answer = kv.delete_range(delete).await?.into_inner();
            let versions = seen(&answer.prev_kvs);
            Ok((answer.header, answer.deleted > 0, versions, 0))
        }
        Request::Get {
            key,
            end,
            revision,
            serializable,
        } => {
            let range = RangeRequest {
                range_end: end.clone().into(),
                revision: *revision,
                serializable: *serializable,
                ..requests::range(key.clone())
            };
            let answer = kv.range(range).await?.into_inner();
            Ok((answer.header, true, seen(&answer.kvs), 0))
        }
        Request::Compact { revision } => {
            let request = CompactionRequest {
                revision: *revision,
                physical: false,
            };
            let answer = kv.compact(request).await?.into_inner();
            Ok((answer.header, true, Vec::new(), 0))
        }
        other => unreachable!("{other:?} is a transaction or about a lease"),
    }
}

/// A comparison with puts, or puts and deletes.
async fn txn(channel: Channel, request: &Request) -> Result<Parts, Status> {
    let (compared, puts, deletes) = match request {
        Request::Swap {
            key,
            expected,
            puts,
        } => (Some((key, *expected)), puts, &[][..]),
        Request::Batch { puts, deletes } => (None, puts, &deletes[..]),
        other => unreachable!("{other:?} is no transaction"),
    };
    let puts = puts.iter().map(|(key, value)| {
        let put = requests::put(key.clone(), values::whole(value));
        request_op::Request::RequestPut(put)
    });
    let deletes = deletes.iter().cloned().map(requests::delete);
    let deletes = deletes.map(request_op::Request::RequestDeleteRange);
    let read = compared.map(|(key, _)| requests::range(key.clone()));
    let read = read.map(request_op::Request::RequestRange);
    let compare = compared.map(|(key, expected)| Compare {
        result: compare::CompareResult::Equal.into(),
        target: compare::CompareTarget::Mod.into(),
        key: key.clone().into(),
        target_union: Some(compare::TargetUnion::ModRevision(expected)),
        ..Compare::default()
    });
    let txn = TxnRequest {
        compare: compare.into_iter().collect(),
        success: puts.chain(deletes).map(requests::operation).collect(),
        failure: read.into_iter().map(requests::operation).collect(),
    };
    let answer = kv(channel).txn(txn).await?.into_inner();
    let responses = answer.responses.iter();
    let versions = responses.flat_map(|it| match &it.response {
        Some(Response::ResponseRange(range)) => range.kvs.iter().map(values::version).collect(),
        _ => Vec::new(),
    });
    Ok((answer.header, answer.succeeded, versions.collect(), 0))
}

/// The beginning or the end of a lease.
async fn lease(channel: Channel, request: &Request) -> Result<Parts, Status> {
    let mut client = LeaseClient::new(channel);
    match *request {
        Request::Grant { lease, seconds } => {
            let grant = LeaseGrantRequest {
                ttl: seconds,
                id: lease,
            };
            let answer = client.lease_grant(grant).await?.into_inner();
            if answer.id != lease {
                return Err(Status::data_loss("another lease was granted"));
            }
            Ok((answer.header, true, Vec::new(), answer.ttl))
        }
        Request::Revoke { lease } => {
            let revoke = LeaseRevokeRequest { id: lease };
            let answer = client.lease_revoke(revoke).await?.into_inner();
            Ok((answer.header, true, Vec::new(), 0))
        }
        _ => unreachable!("only what is about leases comes here"),
    }
}

/// How many leases there are.
pub async fn leases(channel: Channel) -> Result<usize, Status> {
    let answer = LeaseClient::new(channel)
        .lease_leases(LeaseLeasesRequest {})
        .await?;
    Ok(answer.into_inner().leases.len())
}

/// A linearizable read of all keys at a revision; 0: the newest.
pub fn read_of_all(revision: i64) -> Request {
    read(FIRST_KEY, END_KEY, revision)
}

/// A linearizable read of a range at a revision; 0: the newest.
pub fn read(key: &str, end: &str, revision: i64) -> Request {
    Request::Get {
        key: key.to_owned(),
        end: end.to_owned(),
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

/// A stream with watches.
pub struct Stream {
    requests: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
}

impl Stream {
    /// Opens a stream, and requests a watch on each range: key, end and first revision.
    pub async fn open(channel: Channel, ranges: &[(&str, &str, i64)]) -> Outcome<Stream> {
        let (requests, receiver) = mpsc::channel(ranges.len() + 4);
        let mut client = WatchClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        for &(key, end, first) in ranges {
            let create = RequestUnion::CreateRequest(WatchCreateRequest {
                key: key.to_owned().into(),
                range_end: end.to_owned().into(),
                start_revision: first,
                ..WatchCreateRequest::default()
            });
            let request_union = Some(create);
            requests.send(WatchRequest { request_union }).await?;
        }
        let answers = client.watch(ReceiverStream::new(receiver)).await?;
        let answers = answers.into_inner();
        Ok(Stream { requests, answers })
    }

    /// The next message.
    pub async fn next(&mut self) -> Outcome<WatchResponse> {
        let answer = self.answers.message().await?;
        Ok(answer.ok_or("the server ended the stream")?)
    }

    /// Sends a request on the stream.
    pub fn ask(&self, request: RequestUnion) {
        let request_union = Some(request);
        // A stream that does not read requests ends by itself.
        drop(self.requests.try_send(WatchRequest { request_union }));
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
    let mut stream = Stream::open(channel, &[(FIRST_KEY, END_KEY, first)]).await?;
    let mut seen = first - 1;
    while seen < last {
        let answer = timeout(SILENCE, stream.next()).await;
        let answer = answer.map_err(|_| format!("no event comes after revision {seen}"))??;
        if answer.canceled {
            let (reason, compacted) = (answer.cancel_reason, answer.compact_revision);
            return Err(format!("no watch from {first}: {reason} (compacted: {compacted})").into());
        }
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
