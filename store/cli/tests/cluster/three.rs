//! Three processes of `inkstone serve` that are one cluster, and those that join.

use std::path::PathBuf;
use std::time::Duration;

use etcd_api::etcdserverpb::cluster_client::ClusterClient;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::{
    HashKvRequest, HashKvResponse, Member as Listed, MemberListRequest, PutRequest, RangeRequest,
    StatusRequest, StatusResponse,
};
use harness::{Member, MemberConfig, Program, Signal, initial_cluster};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

const PROGRAM: &str = env!("CARGO_BIN_EXE_inkstone");
pub const NAMES: [&str; 3] = ["a", "b", "c"];

/// Interval of the checks; their number allows for a machine under load.
pub const LOOK: Duration = Duration::from_millis(50);
pub const LOOKS_MAX: u32 = 1_200;

/// A cluster; its processes are killed when it is dropped. It begins with three
/// members, and more may join.
pub struct Three {
    place: tempfile::TempDir,
    program: Program,
    members: Vec<Member>,
}

impl Three {
    /// Starts all members. They may have no leader yet when this returns.
    pub fn start() -> Three {
        Three::start_with(&[])
    }

    /// [`Three::start`] with more flags.
    pub fn start_with(flags: &[&str]) -> Three {
        Three::begin(&NAMES, flags)
    }

    /// Starts only the first, as a cluster of one.
    pub fn alone() -> Three {
        Three::begin(&NAMES[..1], &[])
    }

    /// Prepares three members and starts none.
    pub fn prepared() -> Three {
        Three::prepare_all(&NAMES, &[])
    }

    /// Sets the limit of open files of each process.
    pub fn limit_files(&mut self, files_max: u64) {
        for member in &mut self.members {
            member.program = self.program.clone().with_files_max(files_max);
        }
    }

    /// Whether the member's process runs.
    pub fn is_running(&mut self, number: usize) -> bool {
        self.members[number].is_running()
    }

    /// [`Three::start`] with a limit of open files for each process.
    pub fn start_with_files(files_max: u64) -> Three {
        let mut three = Three::prepare_all(&NAMES, &[]);
        three.limit_files(files_max);
        (0..NAMES.len()).for_each(|number| three.launch(number));
        three
    }

    fn begin(names: &[&str], flags: &[&str]) -> Three {
        let mut three = Three::prepare_all(names, flags);
        (0..names.len()).for_each(|number| three.launch(number));
        three
    }

    /// Prepares members with these names and starts none.
    pub fn prepare_all(names: &[&str], flags: &[&str]) -> Three {
        let own = ["--initial-cluster-token=three", "--segment-bytes=8388608"];
        let program = Program::new(PROGRAM).with(&own);
        let mut three = Three {
            place: tempfile::tempdir().unwrap(),
            program: program.with(&["--log-level=error"]).with(flags),
            members: Vec::new(),
        };
        names.iter().for_each(|name| three.add(name));
        let all = initial_cluster(three.members.iter().map(|it| &it.config));
        for member in &mut three.members {
            member.config.initial_cluster.clone_from(&all);
        }
        three
    }

    /// Adds a member without a cluster; no process is started.
    fn add(&mut self, name: &str) {
        let mut config = MemberConfig::on_reserved_ports(name, self.place.path()).unwrap();
        // Members may have the same name.
        let number = self.members.len();
        config.data = self.place.path().join(number.to_string());
        config.log = config.data.with_extension("log");
        self.members.push(Member::new(self.program.clone(), config));
    }

    /// Prepares a further member, which will join those listed; returns its number.
    pub fn prepare(&mut self, name: &str, others: &[usize]) -> usize {
        let number = self.members.len();
        self.add(name);
        let listed = others.iter().chain([&number]);
        let listed = initial_cluster(listed.map(|&it| &self.members[it].config));
        let config = &mut self.members[number].config;
        config.initial_cluster = listed;
        config.joins = true;
        number
    }

    /// Adds a flag to a member; of several with one name the last counts.
    pub fn add_flag(&mut self, number: usize, flag: &str) {
        self.members[number].program.flags.push(flag.to_owned());
    }

    /// Sets the command that starts the member's program.
    pub fn enter(&mut self, number: usize, entrance: &[String]) {
        self.members[number].program.prefix = entrance.to_vec();
    }

    pub fn client_address(&self, number: usize) -> &str {
        &self.members[number].config.client
    }

    pub fn client_url(&self, number: usize) -> String {
        format!("http://{}", self.client_address(number))
    }

    pub fn peer_url(&self, number: usize) -> String {
        self.members[number].config.peer_url()
    }

    pub fn directory(&self, number: usize) -> PathBuf {
        self.members[number].config.data.clone()
    }

    /// Process id of a running member.
    pub fn process_id(&self, number: usize) -> u32 {
        self.members[number].pid().unwrap()
    }

    /// Starts a member, also again after a kill.
    pub fn launch(&mut self, number: usize) {
        self.members[number].start().unwrap();
    }

    /// Starts a member that must refuse to start; returns its exit code and its log.
    pub fn refusal(&mut self, number: usize) -> (Option<i32>, String) {
        let (status, log) = self.members[number].refused_start().unwrap();
        (status.code(), log)
    }

    /// Kills a member as `kill -9` does.
    pub fn kill(&mut self, number: usize) {
        self.members[number].kill().unwrap();
    }

    /// Stops a member by a signal, as an operator does, and waits for its end.
    pub async fn stop(&mut self, number: usize) {
        self.members[number].signal(Signal::TERM).unwrap();
        assert_eq!(self.end(number).await, Some(0));
    }

    /// Waits until a member ends by itself; returns its exit code.
    pub async fn end(&mut self, number: usize) -> Option<i32> {
        let member = &mut self.members[number];
        for _ in 0..LOOKS_MAX {
            if let Some(status) = member.status().unwrap() {
                return status.code();
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("member {number} did not end");
    }

    pub fn channel(&self, number: usize) -> Channel {
        let endpoint = Endpoint::from_shared(self.client_url(number)).unwrap();
        endpoint.connect_lazy()
    }

    pub fn kv(&self, number: usize) -> KvClient<Channel> {
        KvClient::new(self.channel(number))
    }

    /// Puts a key, again while there is no leader; returns the revision.
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
        panic!("no member answered the get");
    }

    pub async fn status(&self, number: usize) -> Result<StatusResponse, Status> {
        let mut maintenance = MaintenanceClient::new(self.channel(number));
        let status = maintenance.status(StatusRequest {}).await?;
        Ok(status.into_inner())
    }

    /// Number of the leader, once the asked member knows it.
    pub async fn leader(&self, asked: usize) -> usize {
        let members = self.members(asked).await;
        for _ in 0..LOOKS_MAX {
            let leader = self.status(asked).await.unwrap().leader;
            if let Some(leader) = members.iter().find(|member| member.id == leader) {
                let url = &leader.peer_ur_ls[0];
                return (0..self.members.len())
                    .find(|&number| self.peer_url(number) == *url)
                    .unwrap();
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("there is no leader");
    }

    /// The member list as one member has it (a serializable read).
    pub async fn members(&self, number: usize) -> Vec<Listed> {
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
        panic!("no member answered");
    }

    /// The member list once every member has published its name.
    pub async fn named_members(&self, number: usize) -> Vec<Listed> {
        for _ in 0..LOOKS_MAX {
            let members = self.members(number).await;
            if members.iter().all(|member| !member.name.is_empty()) {
                return members;
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("a member has not published its name");
    }

    /// The hash at a revision, once the member has reached it.
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

/// Waits before a retry after an error that ends by itself: a server that starts, an
/// election, a future revision. Any other error fails the test.
pub async fn again(status: Status) {
    assert!(
        matches!(status.code(), Code::Unavailable | Code::OutOfRange),
        "{status}"
    );
    tokio::time::sleep(LOOK).await;
}

/// The member of that name.
pub fn named<'a>(members: &'a [Listed], name: &str) -> &'a Listed {
    let mut members = members.iter();
    members.find(|member| member.name == name).unwrap()
}

pub fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..PutRequest::default()
    }
}
