//! Load on servers with etcd's API: many clients run as tasks on few threads.
//!
//! ```text
//!   thread ── runtime of its own ─┬─ connection ─┬─ client (task)
//!                                 │              ├─ client ...
//!                                 └─ connection ─┴─ client ...
//! ```
//!
//! All tasks of a thread share its recorder, so recording takes no lock.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb::{
    PutRequest, PutResponse, RangeRequest, RangeResponse, RequestOp, StatusRequest, TxnRequest,
    kv_client::KvClient, maintenance_client::MaintenanceClient, request_op::Request,
};
use futures_util::{StreamExt as _, stream};
use tokio::task::LocalSet;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};

use super::access::Access;
use super::batches::{Batch, BatchLimits, OnBatch};
use super::connection::{
    CONNECT_TIMEOUT, Connection, MESSAGE_BYTES_MAX, REQUEST_TIMEOUT, with_causes,
};
use super::threads::{Ended, Measured, run_threads};
use super::timer::{Timer, wake_precisely};
use super::{Client, Due, Edges, OperationResult, Plan, Recorder};
use crate::record::Kind;
use crate::targets::Failure;
use crate::verify::{ClientWrites, Ledger};

/// Pause of a client after an error, so that a target that refuses every request is not
/// flooded.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(10);
/// Below etcd's default limits of a transaction.
pub const REMOTE_BATCH: BatchLimits = BatchLimits {
    entries: 64,
    bytes: 512 << 10,
};
/// Concurrent requests of a preload and of reading back.
const BULK_AT_ONCE: usize = 32;

/// The servers of a target, and the connections and threads of the clients.
#[derive(Clone, Debug)]
pub struct Remote {
    /// URLs of the servers; connections are assigned to them in turn.
    pub urls: Vec<String>,
    /// Number of connections to all servers together.
    pub connections: u32,
    /// Threads that the clients share.
    pub threads: u32,
    pub access: Access,
}

/// A token that goes along with each request; `None` without users.
type Token = Option<MetadataValue<Ascii>>;

impl Remote {
    /// Runs the plan with its clients spread over the connections.
    pub fn run(&self, plan: &Arc<Plan>, edges: &mut dyn Edges) -> Result<Measured, Failure> {
        let count = self.threads.min(self.connections).min(plan.clients).max(1);
        let thread = |thread| move |recorder| self.run_thread(plan, (thread, count), recorder);
        let mut measured = run_threads(plan, edges, (0..count).map(thread).collect())?;
        measured.0.generator_threads = count;
        Ok(measured)
    }

    /// Runs the clients of one of `count` threads.
    fn run_thread(
        &self,
        plan: &Arc<Plan>,
        (thread, count): (u32, u32),
        recorder: Recorder,
    ) -> Result<Ended, Failure> {
        wake_precisely();
        let runtime = runtime()?;
        let clients = self.clients(plan, (thread, count), recorder);
        let outcome = LocalSet::new().block_on(&runtime, clients);
        if outcome.is_err() {
            // Without this, the other threads and the coordinator would run on for a
            // load that lacks this thread's clients.
            plan.end();
        }
        outcome
    }

    async fn clients(
        &self,
        plan: &Arc<Plan>,
        (thread, count): (u32, u32),
        recorder: Recorder,
    ) -> Result<Ended, Failure> {
        let recorder = Rc::new(RefCell::new(recorder));
        let connections = self.connections.min(plan.clients);
        let mut tasks = Vec::new();
        let (_, token) = self.open().await?;
        for connection in (thread..connections).step_by(count as usize) {
            let url = &self.urls[connection as usize % self.urls.len()];
            let opened = Connection::open(url, &self.access, token.as_ref()).await?;
            for number in (connection..plan.clients).step_by(connections as usize) {
                let client = Client::new(plan, number);
                let task = drive(client, opened.clone(), Rc::clone(&recorder));
                tasks.push(tokio::task::spawn_local(task));
            }
        }
        let mut acknowledged = Vec::new();
        for task in tasks {
            acknowledged.push(task.await??);
        }
        let recorder = Rc::into_inner(recorder).expect("all tasks have ended");
        Ok((recorder.into_inner().into_recorded(), acknowledged))
    }

    /// The version that the servers report (the last one's). Fails where a server does not
    /// answer; the error names it.
    pub fn version(&self) -> Result<String, Failure> {
        runtime()?.block_on(async {
            let mut version = String::new();
            for url in &self.urls {
                let mut client = MaintenanceClient::new(self.connect(url).await?);
                let status = client.status(StatusRequest::default()).await;
                let status =
                    status.map_err(|status| format!("endpoint {url}: {}", status_text(&status)))?;
                version = status.into_inner().version;
            }
            Ok(version)
        })
    }

    /// Creates the users of servers that have none yet, if clients need one.
    pub fn create_users(&self) -> Result<(), Failure> {
        runtime()?.block_on(async {
            let channel = self.connect(&self.urls[0]).await?;
            self.access.create_users(channel).await
        })
    }

    /// A connection to the first server, with a token for it and the others.
    async fn open(&self) -> Result<(Channel, Token), Failure> {
        let channel = self.connect(&self.urls[0]).await?;
        let token = self.access.token(channel.clone()).await?;
        Ok((channel, token))
    }

    async fn connect(&self, url: &str) -> Result<Channel, Failure> {
        let endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(|error| format!("endpoint {url}: {error}; write http://HOST:PORT"))?;
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .tcp_nodelay(true);
        let connected = self.access.connect(endpoint).await;
        Ok(connected.map_err(|error| format!("endpoint {url}: {}", with_causes(&error)))?)
    }
}

fn with_token<T>(message: T, token: &Token) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("token", token.clone());
    }
    request
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}

async fn drive(
    mut client: Client,
    mut connection: Connection,
    recorder: Rc<RefCell<Recorder>>,
) -> Result<ClientWrites, Failure> {
    let plan = Arc::clone(recorder.borrow().plan());
    let timer = Timer::new()?;
    loop {
        let due = client.due();
        if due == Due::Over {
            recorder.borrow_mut().client_ended(client.operations);
            return Ok(client.acknowledged);
        }
        client.draw();
        if let Due::At(at) = due {
            timer.sleep(plan.left_until(at)).await?;
        }
        let request = Asked::of(&client, &plan);
        let begun = plan.now();
        let answer = request.send(&mut connection).await;
        let times = (begun, plan.now());
        client.ended(&mut recorder.borrow_mut(), due, times, &answer);
        if answer.failure.is_some() {
            tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
        }
    }
}

/// Requests that are built before the clock starts.
enum Asked {
    Put(PutRequest),
    Range(RangeRequest, Kind),
    ReadModifyWrite(RangeRequest, PutRequest),
}

impl Asked {
    fn of(client: &Client, plan: &Plan) -> Asked {
        match client.kind {
            Kind::Put => Asked::Put(put(client)),
            Kind::Get => Asked::Range(get(client, plan), Kind::Get),
            Kind::Range => {
                let range = RangeRequest {
                    range_end: Bytes::from_static(&[0]),
                    limit: client.limit as i64,
                    ..get(client, plan)
                };
                Asked::Range(range, Kind::Range)
            }
            Kind::ReadModifyWrite => Asked::ReadModifyWrite(get(client, plan), put(client)),
        }
    }

    async fn send(self, connection: &mut Connection) -> OperationResult {
        let mut answer = OperationResult::default();
        let outcome = match self {
            Asked::Put(put) => send_put(connection, put, &mut answer).await,
            Asked::Range(range, kind) => send_range(connection, range, kind, &mut answer).await,
            Asked::ReadModifyWrite(get, put) => {
                match send_range(connection, get, Kind::Get, &mut answer).await {
                    Ok(()) => send_put(connection, put, &mut answer).await,
                    failed => failed,
                }
            }
        };
        answer.failure = outcome.err().map(|status| status_text(&status));
        answer
    }
}

fn put(client: &Client) -> PutRequest {
    PutRequest {
        key: Bytes::copy_from_slice(&client.key),
        value: Bytes::copy_from_slice(&client.value),
        ..PutRequest::default()
    }
}

fn get(client: &Client, plan: &Plan) -> RangeRequest {
    RangeRequest {
        key: Bytes::copy_from_slice(&client.key),
        serializable: plan.workload.mix.serializable,
        ..RangeRequest::default()
    }
}

async fn send_put(
    connection: &mut Connection,
    put: PutRequest,
    answer: &mut OperationResult,
) -> Result<(), tonic::Status> {
    let bytes = (put.key.len() + put.value.len()) as u64;
    let _: PutResponse = connection.call("/etcdserverpb.KV/Put", &put).await?;
    answer.user_bytes += bytes;
    answer.user_bytes_written += bytes;
    Ok(())
}

async fn send_range(
    connection: &mut Connection,
    range: RangeRequest,
    kind: Kind,
    answer: &mut OperationResult,
) -> Result<(), tonic::Status> {
    let answered = connection.call("/etcdserverpb.KV/Range", &range).await;
    let RangeResponse { kvs: pairs, .. } = answered?;
    match kind {
        Kind::Range => answer.keys_returned = pairs.len() as u64,
        _ => answer.not_found = pairs.is_empty(),
    }
    let bytes = pairs.iter().map(|pair| pair.0.len() as u64);
    answer.user_bytes += bytes.sum::<u64>();
    Ok(())
}

pub(super) fn status_text(status: &tonic::Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

/// Writes batches, each as one transaction.
pub fn write_remote(
    plan: &Plan,
    remote: &Remote,
    batches: impl Iterator<Item = Batch>,
    on_batch: &mut OnBatch<'_>,
) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let (channel, token) = remote.open().await?;
        let kv = KvClient::new(channel);
        let mut answers = stream::iter(batches)
            .map(|mut batch| {
                let mut kv = kv.clone();
                let transaction = with_token(transaction(&mut batch), &token);
                async move {
                    let begun = plan.now();
                    let answer = kv.txn(transaction).await;
                    (answer, batch, (begun, plan.now()))
                }
            })
            .buffered(BULK_AT_ONCE);
        while let Some((answer, batch, times)) = answers.next().await {
            answer.map_err(|status| format!("preload: {}", status_text(&status)))?;
            on_batch(&batch, times)?;
        }
        Ok(())
    })
}

/// A transaction with the puts of a batch. The batch has no entries afterwards.
fn transaction(batch: &mut Batch) -> TxnRequest {
    let puts = batch.entries.drain(..).map(|(key, value)| {
        let put = PutRequest {
            key: key.into(),
            value: value.into(),
            ..PutRequest::default()
        };
        RequestOp {
            request: Some(Request::RequestPut(put)),
        }
    });
    TxnRequest {
        success: puts.collect(),
        ..TxnRequest::default()
    }
}

/// Reads the keys of these numbers and passes their values to the ledger.
pub fn read_back_remote(
    plan: &Plan,
    remote: &Remote,
    ledger: &mut Ledger,
    numbers: &[u64],
) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let (channel, token) = remote.open().await?;
        let kv = KvClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let mut answers = stream::iter(numbers)
            .map(|number| {
                let mut key = Vec::new();
                plan.keys.write(*number, &mut key);
                let request = RangeRequest {
                    key: key.into(),
                    ..RangeRequest::default()
                };
                let mut kv = kv.clone();
                let request = with_token(request, &token);
                async move { (*number, kv.range(request).await) }
            })
            .buffered(BULK_AT_ONCE);
        while let Some((number, answer)) = answers.next().await {
            let answer =
                answer.map_err(|status| format!("reading back: {}", status_text(&status)))?;
            let pair = answer.into_inner().kvs.into_iter().next();
            let found = pair.map(|pair| pair.fields().value.to_vec());
            ledger.check(&plan.values, number, found.as_ref());
        }
        Ok(())
    })
}
