//! `inkstone serve` as a child process, observed over gRPC and
//! through /proc.

use std::path::Path;
use std::time::Duration;

use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{
    AlarmMember, AlarmRequest, CompactionRequest, DefragmentRequest, PutRequest, RangeRequest,
    WatchCreateRequest, WatchRequest, WatchResponse,
};
use harness::{Member, Program, readings};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_inkstone");

/// Interval of the checks; their number allows for a machine under load.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS_MAX: u32 = 3_000;

/// A server that is ready; killed when dropped.
pub struct Served(Member);

impl Served {
    /// Starts a server that keeps its data in `directory`.
    pub fn start(directory: &Path, flags: &[&str]) -> Served {
        Served::launch(Program::new(PROGRAM).with(flags), directory)
    }

    pub fn launch(program: Program, directory: &Path) -> Served {
        Served(Member::alone(program, directory).unwrap())
    }

    /// A server that may allocate `memory_bytes` of memory.
    pub fn start_within(memory_bytes: u64, directory: &Path) -> Served {
        let program = Program::new(PROGRAM).with_memory_max(memory_bytes);
        Served::launch(program.with(&["--segment-bytes=16777216"]), directory)
    }

    /// Kills the server as `kill -9` does.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
    }

    /// Where clients connect, as `host:port`.
    pub fn address(&self) -> &str {
        self.0.client_address()
    }

    /// Where other members connect, if the server listens for them.
    pub fn peer_address(&mut self) -> String {
        self.0.logged_peer_address().unwrap()
    }

    fn pid(&self) -> u32 {
        self.0.pid().unwrap()
    }

    /// Sets the limit of its open files; returns the limit before.
    pub fn set_open_files_max(&self, files: u64) -> u64 {
        let before = self.open_files_max();
        let limit = Rlimit {
            current: Some(files),
            maximum: getrlimit(Resource::Nofile).maximum,
        };
        prlimit(Pid::from_raw(self.pid() as i32), Resource::Nofile, limit).unwrap();
        before
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::from_shared(self.0.client_url()).unwrap()
    }

    pub async fn connect(&self) -> Client {
        Client(self.endpoint().connect().await.unwrap())
    }

    /// A connection on which the server may send at most `bytes` bytes ahead of what the
    /// client has read.
    pub async fn connect_with_window(&self, bytes: u32) -> Client {
        let endpoint = self
            .endpoint()
            .initial_stream_window_size(bytes)
            .initial_connection_window_size(bytes);
        Client(endpoint.connect().await.unwrap())
    }

    /// Memory of the process that is in RAM.
    pub fn resident_bytes(&self) -> u64 {
        readings::resident_bytes(self.pid()).unwrap()
    }

    pub fn open_files(&self) -> u64 {
        readings::open_files(self.pid()).unwrap()
    }

    /// The limit of its open files.
    pub fn open_files_max(&self) -> u64 {
        readings::open_files_max(self.pid()).unwrap()
    }
}

/// Waits until a condition holds; panics with `what` if it does not in time.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..LOOKS_MAX {
        if holds() {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("still not: {what}");
}

/// One connection.
#[derive(Clone)]
pub struct Client(Channel);

impl Client {
    pub fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.0.clone()).max_decoding_message_size(usize::MAX)
    }

    fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.0.clone())
    }

    /// Puts a key; returns the revision.
    pub async fn put(&self, key: &str, value: Vec<u8>) -> Result<i64, Status> {
        let request = PutRequest {
            key: key.to_owned().into(),
            value: value.into(),
            ..PutRequest::default()
        };
        let response = self.kv().put(request).await?.into_inner();
        Ok(response.header.unwrap().revision)
    }

    pub async fn get(&self, key: &str) -> Option<Vec<u8>> {
        let request = RangeRequest {
            key: key.to_owned().into(),
            ..RangeRequest::default()
        };
        let response = self.kv().range(request).await.unwrap().into_inner();
        response.kvs.first().map(|entry| entry.value().to_vec())
    }

    pub async fn alarms(&self) -> Vec<AlarmMember> {
        let list = AlarmRequest::default();
        self.maintenance()
            .alarm(list)
            .await
            .unwrap()
            .into_inner()
            .alarms
    }

    pub async fn disarm(&self) {
        for alarm in self.alarms().await {
            let request = AlarmRequest {
                action: 2,
                member_id: alarm.member_id,
                alarm: alarm.alarm,
            };
            self.maintenance().alarm(request).await.unwrap();
        }
    }

    /// Compacts to the revision, and waits until that is done.
    pub async fn compact(&self, revision: i64) {
        let request = CompactionRequest {
            revision,
            physical: true,
        };
        self.kv().compact(request).await.unwrap();
        self.maintenance()
            .defragment(DefragmentRequest {})
            .await
            .unwrap();
    }

    pub async fn watch(&self, prefix: &str, end: &str, from: i64) -> Watch {
        let (requests, queue) = mpsc::channel(1);
        let create = WatchCreateRequest {
            key: prefix.to_owned().into(),
            range_end: end.to_owned().into(),
            start_revision: from,
            ..WatchCreateRequest::default()
        };
        let request = WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(create)),
        };
        requests.send(request).await.unwrap();
        let mut client = WatchClient::new(self.0.clone()).max_decoding_message_size(usize::MAX);
        let responses = client.watch(ReceiverStream::new(queue)).await.unwrap();
        let mut watch = Watch {
            _requests: requests,
            responses: responses.into_inner(),
        };
        assert!(watch.next().await.created);
        watch
    }
}

/// A stream with one watch on it.
pub struct Watch {
    _requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Watch {
    pub async fn next(&mut self) -> WatchResponse {
        let response = self.responses.message().await.unwrap();
        response.expect("the stream has another response")
    }
}
