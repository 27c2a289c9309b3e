//! `inkstone serve` as a child process, observed over gRPC and
//! through /proc.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{
    AlarmMember, AlarmRequest, CompactionRequest, DefragmentRequest, PutRequest, RangeRequest,
    WatchCreateRequest, WatchRequest, WatchResponse,
};
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
pub struct Served {
    child: Child,
    pub port: u16,
}

impl Served {
    pub fn start(data: &Path, words: &[&str]) -> Served {
        Served::launch(Command::new(PROGRAM), data, words)
    }

    /// Starts a server with `command`, which may run the program through another one.
    pub fn launch(mut command: Command, data: &Path, words: &[&str]) -> Served {
        let mut child = command
            .arg("serve")
            .arg(format!("--data-dir={}", data.display()))
            .arg("--listen-client-urls=http://127.0.0.1:0")
            .arg("--advertise-client-urls=http://127.0.0.1:0")
            .args(words)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("ready to serve client requests") {
            let read = log.read_line(&mut said).unwrap();
            assert!(read > 0, "it ended before it was ready: {said}");
        }
        // The rest of the log is read, too, or the server would block on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let port = port_in(&said);
        Served { child, port }
    }

    /// A server that may allocate `memory_bytes` of memory.
    pub fn start_within(memory_bytes: u64, data: &Path) -> Served {
        let mut command = Command::new("sh");
        let kibibytes = memory_bytes >> 10;
        let script = format!("ulimit -d {kibibytes} && exec \"$0\" \"$@\"");
        command.args(["-c", &script, PROGRAM]);
        Served::launch(command, data, &["--segment-bytes=16777216"])
    }

    /// Kills the server as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sets the limit of its open files; returns the limit before.
    pub fn set_open_files_max(&self, files: u64) -> u64 {
        let pid = Pid::from_child(&self.child);
        let before = self.open_files_max();
        let limit = Rlimit {
            current: Some(files),
            maximum: getrlimit(Resource::Nofile).maximum,
        };
        prlimit(Some(pid), Resource::Nofile, limit).unwrap();
        before
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::from_shared(format!("http://127.0.0.1:{}", self.port)).unwrap()
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
        let status = self.look("status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kibibytes * 1024
    }

    pub fn open_files(&self) -> usize {
        let files = format!("/proc/{}/fd", self.child.id());
        std::fs::read_dir(files).unwrap().count()
    }

    /// The limit of its open files.
    pub fn open_files_max(&self) -> u64 {
        let limits = self.look("limits");
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"))
            .unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    fn look(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port at which a server serves clients, read from its log.
fn port_in(log: &str) -> u16 {
    let mut lines = log.lines();
    let open = lines.find(|line| line.contains("serving client traffic"));
    let line: serde_json::Value = serde_json::from_str(open.unwrap()).unwrap();
    let (_, port) = line["address"].as_str().unwrap().rsplit_once(':').unwrap();
    port.parse().unwrap()
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
