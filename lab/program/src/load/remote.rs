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
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd_api::etcdserverpb::{
    PutRequest, RangeRequest, RequestOp, StatusRequest, TxnRequest, kv_client::KvClient,
    maintenance_client::MaintenanceClient, request_op::Request,
};
use tokio::task::LocalSet;
use tonic::transport::{Channel, Endpoint};

use super::recorder::ThreadCounters;
use super::sessions::with_errors;
use super::timer::{Timer, wake_precisely};
use super::{Client, Due, Edges, OperationResult, Plan, Recorded, Recorder, coordinate};
use crate::record::{Kind, LoadResult, Steadiness};
use crate::targets::Failure;
use crate::verify::{Acknowledged, Ledger};
use crate::workload::Stamp;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A request that takes longer has failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause of a client after an error, so that a target that refuses every request is not
/// flooded.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(10);
/// Largest answer that is accepted: greater than etcd's default, because values may be.
const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Most puts and bytes of one transaction of a preload, below etcd's default limits.
const LOAD_OPERATIONS: usize = 64;
const LOAD_BYTES: usize = 512 << 10;
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
}

type Ended = (Recorded, Vec<Acknowledged>);

impl Remote {
    /// Runs the plan with its clients spread over the connections.
    pub fn run(
        &self,
        plan: &Arc<Plan>,
        edges: &mut dyn Edges,
    ) -> Result<(LoadResult, Vec<Acknowledged>, Steadiness), Failure> {
        let threads = self.threads.min(self.connections).min(plan.clients).max(1);
        let progress: Vec<Arc<ThreadCounters>> = (0..threads).map(|_| Arc::default()).collect();
        let (ended, steadiness) = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads)
                .map(|thread| {
                    let share = Share {
                        remote: self,
                        plan,
                        thread,
                        threads,
                        progress: Arc::clone(&progress[thread as usize]),
                    };
                    let builder = std::thread::Builder::new().name(format!("clients-{thread}"));
                    builder.spawn_scoped(scope, move || share.run())
                })
                .collect();
            let steadiness = coordinate(plan, &progress, edges);
            let ended: Vec<Result<Ended, Failure>> = handles.into_iter().map(joined).collect();
            (ended, steadiness)
        });
        let ended = ended.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (recorded, acknowledged): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
        let mut load = Recorded::merge(plan, recorded);
        load.generator_threads = threads;
        let steadiness = steadiness.map_err(|what| with_errors(&what, &load.errors))?;
        Ok((
            load,
            acknowledged.into_iter().flatten().collect(),
            steadiness,
        ))
    }
}

impl Remote {
    /// The version that the servers report (the last one's). Fails where a server does not
    /// answer; the error names it.
    pub fn version(&self) -> Result<String, Failure> {
        runtime()?.block_on(async {
            let mut version = String::new();
            for url in &self.urls {
                let mut client = MaintenanceClient::new(connect(url).await?);
                let status = client.status(StatusRequest::default()).await;
                let status = status.map_err(|status| {
                    Failure(format!("endpoint {url}: {}", status_text(&status)))
                })?;
                version = status.into_inner().version;
            }
            Ok(version)
        })
    }
}

fn joined(
    handle: std::io::Result<std::thread::ScopedJoinHandle<'_, Result<Ended, Failure>>>,
) -> Result<Ended, Failure> {
    let ended = handle.map_err(Failure::of)?.join();
    ended.unwrap_or_else(|_| Err(Failure("a thread of clients has panicked".into())))
}

/// The part of the clients that one thread runs.
struct Share<'a> {
    remote: &'a Remote,
    plan: &'a Arc<Plan>,
    thread: u32,
    threads: u32,
    progress: Arc<ThreadCounters>,
}

impl Share<'_> {
    fn run(self) -> Result<Ended, Failure> {
        wake_precisely();
        let runtime = runtime()?;
        let outcome = LocalSet::new().block_on(&runtime, self.clients());
        if outcome.is_err() {
            // Without this, the other threads and the coordinator would run on for a
            // load that lacks this thread's clients.
            self.plan.end();
        }
        outcome
    }

    async fn clients(&self) -> Result<Ended, Failure> {
        let recorder = Recorder::new(self.plan, Arc::clone(&self.progress));
        let recorder = Rc::new(RefCell::new(recorder));
        let connections = self.remote.connections.min(self.plan.clients);
        let mut tasks = Vec::new();
        for connection in (self.thread..connections).step_by(self.threads as usize) {
            let urls = &self.remote.urls;
            let channel = connect(&urls[connection as usize % urls.len()]).await?;
            for number in (connection..self.plan.clients).step_by(connections as usize) {
                let client = Client::new(self.plan, number);
                let task = drive(client, KvClient::new(channel.clone()), Rc::clone(&recorder));
                tasks.push(tokio::task::spawn_local(task));
            }
        }
        let mut acknowledged = Vec::new();
        for task in tasks {
            acknowledged.push(task.await.map_err(Failure::of)??);
        }
        let recorder = Rc::into_inner(recorder).expect("all tasks have ended");
        Ok((recorder.into_inner().into_recorded(), acknowledged))
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)
}

async fn connect(url: &str) -> Result<Channel, Failure> {
    let endpoint = Endpoint::from_shared(url.to_owned())
        .map_err(|error| Failure(format!("endpoint {url}: {error}; write http://HOST:PORT")))?;
    let endpoint = endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        .tcp_nodelay(true);
    endpoint
        .connect()
        .await
        .map_err(|error| Failure(format!("endpoint {url}: {}", with_causes(&error))))
}

/// The error with all its sources: tonic's own text does not say what happened.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

async fn drive(
    mut client: Client,
    kv: KvClient<Channel>,
    recorder: Rc<RefCell<Recorder>>,
) -> Result<Acknowledged, Failure> {
    let mut kv = kv.max_decoding_message_size(MESSAGE_BYTES_MAX);
    let plan = Arc::clone(recorder.borrow().plan());
    let timer = Timer::new().map_err(Failure::of)?;
    let mut operations = 0;
    loop {
        let due = client.due();
        if due == Due::Over {
            recorder.borrow_mut().client_ended(operations);
            return Ok(client.acknowledged);
        }
        client.draw();
        if let Due::At(at) = due {
            let left = plan.instant(at).saturating_duration_since(Instant::now());
            timer.sleep(left).await.map_err(Failure::of)?;
        }
        let request = Asked::of(&client, &plan);
        let begun = plan.now();
        let answer = request.send(&mut kv).await;
        let ended = plan.now();
        if client.kind == Kind::Put {
            client.put_ended(begun, ended, answer.failure.is_none());
        }
        let due = match due {
            Due::At(at) => at,
            Due::Now | Due::Over => begun,
        };
        let counts = recorder
            .borrow_mut()
            .note(client.kind, due, begun, ended, &answer);
        operations += u64::from(counts);
        if answer.failure.is_some() {
            tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
        }
    }
}

/// A request that is built before the clock starts.
enum Asked {
    Put(PutRequest),
    Range(RangeRequest, Kind),
}

impl Asked {
    fn of(client: &Client, plan: &Plan) -> Asked {
        let mix = &plan.workload.mix;
        let key = Bytes::copy_from_slice(&client.key);
        match client.kind {
            Kind::Put => Asked::Put(PutRequest {
                key,
                value: Bytes::copy_from_slice(&client.value),
                ..PutRequest::default()
            }),
            Kind::Get => Asked::Range(
                RangeRequest {
                    key,
                    serializable: mix.serializable,
                    ..RangeRequest::default()
                },
                Kind::Get,
            ),
            Kind::Range => Asked::Range(
                RangeRequest {
                    key,
                    range_end: Bytes::from_static(&[0]),
                    limit: mix.range.limit as i64,
                    serializable: mix.serializable,
                    ..RangeRequest::default()
                },
                Kind::Range,
            ),
        }
    }

    async fn send(self, kv: &mut KvClient<Channel>) -> OperationResult {
        let mut answer = OperationResult::default();
        let outcome = match self {
            Asked::Put(put) => {
                answer.user_bytes = (put.key.len() + put.value.len()) as u64;
                kv.put(put).await.map(drop)
            }
            Asked::Range(range, kind) => kv.range(range).await.map(|response| {
                let pairs = response.into_inner().kvs;
                answer.not_found = kind == Kind::Get && pairs.is_empty();
                answer.keys_returned = match kind {
                    Kind::Range => pairs.len() as u64,
                    Kind::Get | Kind::Put => 0,
                };
                let bytes = pairs.iter().map(|pair| pair.0.len() as u64);
                answer.user_bytes = bytes.sum();
            }),
        };
        answer.failure = outcome.err().map(|status| status_text(&status));
        answer
    }
}

fn status_text(status: &tonic::Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

/// Writes every key once, many in one transaction. `on_share` receives the share done; its
/// error ends the preload.
pub fn preload_remote(
    plan: &Plan,
    remote: &Remote,
    on_share: &mut dyn FnMut(f64) -> Result<(), String>,
) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let channel = connect(&remote.urls[0]).await?;
        let keys = plan.workload.load.keys;
        let mut next = 0;
        let mut under_way: VecDeque<tokio::task::JoinHandle<Result<(), Failure>>> = VecDeque::new();
        while next < keys || !under_way.is_empty() {
            if next < keys && under_way.len() < BULK_AT_ONCE {
                let (transaction, end) = load_transaction(plan, next);
                let mut kv = KvClient::new(channel.clone());
                under_way.push_back(tokio::spawn(async move {
                    let answer = kv.txn(transaction).await;
                    answer
                        .map(drop)
                        .map_err(|status| Failure(format!("preload: {}", status_text(&status))))
                }));
                next = end;
            } else if let Some(oldest) = under_way.pop_front() {
                oldest.await.map_err(Failure::of)??;
                on_share(next as f64 / keys as f64).map_err(Failure)?;
            }
        }
        Ok(())
    })
}

/// A transaction with puts of the keys from `first` on, as many as fit, and the number of
/// the first key behind them.
fn load_transaction(plan: &Plan, first: u64) -> (TxnRequest, u64) {
    let mut transaction = TxnRequest::default();
    let mut bytes = 0;
    let mut next = first;
    let keys = plan.workload.load.keys;
    while next < keys && transaction.success.len() < LOAD_OPERATIONS && bytes < LOAD_BYTES {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        plan.keys.write(next, &mut key);
        plan.values.write(next, Stamp::PRELOAD, &mut value);
        bytes += key.len() + value.len();
        let put = PutRequest {
            key: key.into(),
            value: value.into(),
            ..PutRequest::default()
        };
        transaction.success.push(RequestOp {
            request: Some(Request::RequestPut(put)),
        });
        next += 1;
    }
    (transaction, next)
}

/// Reads the keys of these numbers and passes their values to the ledger.
pub fn read_back_remote(
    plan: &Plan,
    remote: &Remote,
    ledger: &mut Ledger,
    numbers: &[u64],
) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let channel = connect(&remote.urls[0]).await?;
        let mut numbers = numbers.iter().copied();
        let mut under_way = VecDeque::new();
        loop {
            while under_way.len() < BULK_AT_ONCE
                && let Some(number) = numbers.next()
            {
                let task = tokio::spawn(look_up(channel.clone(), plan_key(plan, number)));
                under_way.push_back((number, task));
            }
            let Some((number, task)) = under_way.pop_front() else {
                return Ok(());
            };
            let found = task.await.map_err(Failure::of)??;
            ledger.check(&plan.values, number, found.as_ref());
        }
    })
}

fn plan_key(plan: &Plan, number: u64) -> Bytes {
    let mut key = Vec::new();
    plan.keys.write(number, &mut key);
    key.into()
}

async fn look_up(channel: Channel, key: Bytes) -> Result<Option<Vec<u8>>, Failure> {
    let request = RangeRequest {
        key,
        ..RangeRequest::default()
    };
    let mut kv = KvClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let answer = kv.range(request).await;
    let answer =
        answer.map_err(|status| Failure(format!("reading back: {}", status_text(&status))))?;
    let pair = answer.into_inner().kvs.into_iter().next();
    Ok(pair.map(|pair| pair.fields().value.to_vec()))
}
