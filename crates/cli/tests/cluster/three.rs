//! Three processes of `inkstone serve` that are one cluster.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use etcd_api::etcdserverpb::cluster_client::ClusterClient;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::{
    HashKvRequest, HashKvResponse, Member, MemberListRequest, PutRequest, RangeRequest,
    StatusRequest, StatusResponse,
};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

const PROGRAM: &str = env!("CARGO_BIN_EXE_inkstone");
pub const NAMES: [&str; 3] = ["a", "b", "c"];

/// Looks every 50 ms; the patience is for a machine under load.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS_MAX: u32 = 1_200;

/// A cluster; its processes are killed when it is dropped.
pub struct Three {
    place: tempfile::TempDir,
    client_ports: [u16; 3],
    peer_ports: [u16; 3],
    processes: [Option<Child>; 3],
}

impl Three {
    /// Starts all of them. They look for a leader after this returns.
    pub fn start() -> Three {
        let mut three = Three {
            place: tempfile::tempdir().unwrap(),
            client_ports: std::array::from_fn(|_| free_port()),
            peer_ports: std::array::from_fn(|_| free_port()),
            processes: [const { None }; 3],
        };
        (0..3).for_each(|number| three.launch(number));
        three
    }

    pub fn client_url(&self, number: usize) -> String {
        format!("http://127.0.0.1:{}", self.client_ports[number])
    }

    pub fn peer_url(&self, number: usize) -> String {
        format!("http://127.0.0.1:{}", self.peer_ports[number])
    }

    fn directory(&self, number: usize) -> PathBuf {
        self.place.path().join(NAMES[number])
    }

    /// Starts one, again after a kill.
    pub fn launch(&mut self, number: usize) {
        let listed = (0..3).map(|other| format!("{}={}", NAMES[other], self.peer_url(other)));
        let listed: Vec<String> = listed.collect();
        let (client, peer) = (self.client_url(number), self.peer_url(number));
        let mut command = Command::new(PROGRAM);
        command
            .arg("serve")
            .arg(format!("--name={}", NAMES[number]))
            .arg(format!("--data-dir={}", self.directory(number).display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={}", listed.join(",")))
            .args(["--initial-cluster-token=three", "--segment-bytes=8388608"])
            .arg("--log-level=error")
            .stdin(Stdio::null());
        self.processes[number] = Some(command.spawn().unwrap());
    }

    /// kill -9.
    pub fn kill(&mut self, number: usize) {
        let mut process = self.processes[number].take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    fn channel(&self, number: usize) -> Channel {
        let endpoint = Endpoint::from_shared(self.client_url(number)).unwrap();
        endpoint.connect_lazy()
    }

    pub fn kv(&self, number: usize) -> KvClient<Channel> {
        KvClient::new(self.channel(number))
    }

    /// Puts, again as long as nobody leads: the revision.
    pub async fn put(&self, number: usize, key: &str, value: &str) -> i64 {
        let mut kv = self.kv(number);
        for _ in 0..LOOKS_MAX {
            match kv.put(put(key, value)).await {
                Ok(response) => return response.into_inner().header.unwrap().revision,
                Err(status) => again(status).await,
            }
        }
        panic!("no leader took the put");
    }

    /// A linearizable get.
    pub async fn get(&self, number: usize, key: &str) -> Option<String> {
        let request = RangeRequest {
            key: key.to_owned().into(),
            ..RangeRequest::default()
        };
        let mut kv = self.kv(number);
        for _ in 0..LOOKS_MAX {
            match kv.range(request.clone()).await {
                Ok(response) => {
                    let found = response.into_inner();
                    let value = found.kvs.first().map(|kv| kv.value().to_vec());
                    return value.map(|value| String::from_utf8(value).unwrap());
                }
                Err(status) => again(status).await,
            }
        }
        panic!("nobody answered the get");
    }

    pub async fn status(&self, number: usize) -> Result<StatusResponse, Status> {
        let mut maintenance = MaintenanceClient::new(self.channel(number));
        let status = maintenance.status(StatusRequest {}).await?;
        Ok(status.into_inner())
    }

    /// Which of them leads, as this one says once it knows.
    pub async fn leader(&self, asked: usize) -> usize {
        let members = self.members(asked).await;
        for _ in 0..LOOKS_MAX {
            let leader = self.status(asked).await.unwrap().leader;
            if let Some(leader) = members.iter().find(|member| member.id == leader) {
                let url = &leader.peer_ur_ls[0];
                return (0..3)
                    .find(|&number| self.peer_url(number) == *url)
                    .unwrap();
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("nobody leads");
    }

    /// The member list of one, which it need not have agreed on.
    pub async fn members(&self, number: usize) -> Vec<Member> {
        let mut cluster = ClusterClient::new(self.channel(number));
        let request = MemberListRequest {
            linearizable: false,
        };
        for _ in 0..LOOKS_MAX {
            match cluster.member_list(request).await {
                Ok(response) => return response.into_inner().members,
                Err(status) => again(status).await,
            }
        }
        panic!("nobody answered");
    }

    /// The list once every member has told its name.
    pub async fn named_members(&self, number: usize) -> Vec<Member> {
        for _ in 0..LOOKS_MAX {
            let members = self.members(number).await;
            if members.iter().all(|member| !member.name.is_empty()) {
                return members;
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("a member has not told its name");
    }

    /// The hash at a revision, once the member has it.
    pub async fn hash(&self, number: usize, revision: i64) -> HashKvResponse {
        let mut maintenance = MaintenanceClient::new(self.channel(number));
        for _ in 0..LOOKS_MAX {
            match maintenance.hash_kv(HashKvRequest { revision }).await {
                Ok(response) => return response.into_inner(),
                Err(status) => again(status).await,
            }
        }
        panic!("member {number} does not get to revision {revision}");
    }
}

impl Drop for Three {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().flatten() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A server that is not there yet, an election, or a revision that comes soon:
/// to be waited for. Anything else is a failure.
async fn again(status: Status) {
    assert!(
        matches!(status.code(), Code::Unavailable | Code::OutOfRange),
        "{status}"
    );
    tokio::time::sleep(LOOK).await;
}

pub fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..PutRequest::default()
    }
}

/// Below the ports that the system gives to clients: one of them would take it
/// before the server does.
fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 10_000) as u16;
    loop {
        let port = 20_000 + (first + TAKEN.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
