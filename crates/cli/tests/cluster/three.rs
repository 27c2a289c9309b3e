//! Three processes of `inkstone serve` that are one cluster, and those that join.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
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
pub const LOOK: Duration = Duration::from_millis(50);
pub const LOOKS_MAX: u32 = 1_200;

/// A cluster; its processes are killed when it is dropped. It begins with three
/// members, and more may come.
pub struct Three {
    place: tempfile::TempDir,
    /// For every member.
    flags: Vec<String>,
    /// Files that each of them may open; `None`: as many as this test.
    files_max: Option<u32>,
    members: Vec<Place>,
}

/// One member's.
struct Place {
    name: String,
    client_port: u16,
    peer_port: u16,
    /// Who is listed as the cluster, and whether that runs already.
    listed: Vec<usize>,
    joins: bool,
    /// For this member, behind those for all.
    flags: Vec<String>,
    /// The command by which its program is started; empty: by itself.
    entrance: Vec<String>,
    process: Option<Child>,
}

impl Place {
    fn new(name: &str, listed: Vec<usize>, joins: bool) -> Place {
        Place {
            name: name.to_owned(),
            client_port: free_ports::reserve_one().unwrap(),
            peer_port: free_ports::reserve_one().unwrap(),
            listed,
            joins,
            flags: Vec::new(),
            entrance: Vec::new(),
            process: None,
        }
    }
}

impl Three {
    /// Starts all of them. They look for a leader after this returns.
    pub fn start() -> Three {
        Three::start_with(&[])
    }

    /// The same, with more flags.
    pub fn start_with(flags: &[&str]) -> Three {
        Three::begin(&NAMES, flags)
    }

    /// Starts the first only, which is a cluster.
    pub fn alone() -> Three {
        Three::begin(&NAMES[..1], &[])
    }

    /// Starts none of them yet.
    pub fn prepared() -> Three {
        Three::prepare_all(&NAMES, &[])
    }

    /// Each process may open so many files.
    pub fn limit_files(&mut self, files_max: u32) {
        self.files_max = Some(files_max);
    }

    /// Whether its process has not ended.
    pub fn is_running(&mut self, number: usize) -> bool {
        let process = self.members[number].process.as_mut();
        process.is_some_and(|it| it.try_wait().unwrap().is_none())
    }

    /// [`Three::start`], where each process may open so many files.
    pub fn start_with_files(files_max: u32) -> Three {
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

    /// Members that are not started yet.
    pub fn prepare_all(names: &[&str], flags: &[&str]) -> Three {
        let listed: Vec<usize> = (0..names.len()).collect();
        let members = names
            .iter()
            .map(|name| Place::new(name, listed.clone(), false));
        Three {
            place: tempfile::tempdir().unwrap(),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            files_max: None,
            members: members.collect(),
        }
    }

    /// Room for one more, which will join those listed: its number.
    pub fn prepare(&mut self, name: &str, others: &[usize]) -> usize {
        let number = self.members.len();
        let listed = others.iter().copied().chain([number]).collect();
        self.members.push(Place::new(name, listed, true));
        number
    }

    /// The last flag of a name counts.
    pub fn add_flag(&mut self, number: usize, flag: &str) {
        self.members[number].flags.push(flag.to_owned());
    }

    /// The member is started by way of this command.
    pub fn enter(&mut self, number: usize, entrance: &[String]) {
        self.members[number].entrance = entrance.to_vec();
    }

    pub fn client_url(&self, number: usize) -> String {
        format!("http://127.0.0.1:{}", self.members[number].client_port)
    }

    pub fn peer_url(&self, number: usize) -> String {
        format!("http://127.0.0.1:{}", self.members[number].peer_port)
    }

    pub fn directory(&self, number: usize) -> PathBuf {
        self.place.path().join(number.to_string())
    }

    /// The process of one that runs.
    pub fn process_id(&self, number: usize) -> u32 {
        self.members[number].process.as_ref().unwrap().id()
    }

    fn program(&self, number: usize) -> Command {
        let mut words = self.members[number].entrance.clone();
        if let Some(files_max) = self.files_max {
            let limited = format!("ulimit -n {files_max}; exec \"$0\" \"$@\"");
            words.extend(["sh".to_owned(), "-c".to_owned(), limited]);
        }
        words.push(PROGRAM.to_owned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    fn command(&self, number: usize) -> Command {
        let member = &self.members[number];
        let listed = member.listed.iter().map(|&other| {
            let name = &self.members[other].name;
            format!("{name}={}", self.peer_url(other))
        });
        let listed: Vec<String> = listed.collect();
        let (client, peer) = (self.client_url(number), self.peer_url(number));
        let state = if member.joins { "existing" } else { "new" };
        let mut command = self.program(number);
        command
            .arg("serve")
            .arg(format!("--name={}", member.name))
            .arg(format!("--data-dir={}", self.directory(number).display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={}", listed.join(",")))
            .arg(format!("--initial-cluster-state={state}"))
            .args(["--initial-cluster-token=three", "--segment-bytes=8388608"])
            .arg("--log-level=error")
            .args(&self.flags)
            .args(&member.flags)
            .stdin(Stdio::null());
        command
    }

    /// Starts one, again after a kill.
    pub fn launch(&mut self, number: usize) {
        self.members[number].process = Some(self.command(number).spawn().unwrap());
    }

    /// Starts one that must not begin: its exit code, and what it says.
    pub fn refusal(&self, number: usize) -> (Option<i32>, String) {
        let output = self.command(number).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), told)
    }

    /// kill -9.
    pub fn kill(&mut self, number: usize) {
        let mut process = self.members[number].process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// What an operator does: tells it to stop, and waits for the end.
    pub async fn stop(&mut self, number: usize) {
        let process = self.members[number].process.as_ref().unwrap();
        let id = process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(sent.unwrap().success());
        assert_eq!(self.end(number).await, Some(0));
    }

    /// Waits until one ends by itself: its exit code. Others go on meanwhile.
    pub async fn end(&mut self, number: usize) -> Option<i32> {
        let mut process = self.members[number].process.take().unwrap();
        for _ in 0..LOOKS_MAX {
            if let Some(status) = process.try_wait().unwrap() {
                return status.code();
            }
            tokio::time::sleep(LOOK).await;
        }
        process.kill().unwrap();
        process.wait().unwrap();
        panic!("member {number} did not end");
    }

    pub fn channel(&self, number: usize) -> Channel {
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
                return (0..self.members.len())
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
        let processes = self.members.iter_mut().map(|member| &mut member.process);
        for process in processes.flatten() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A server that is not there yet, an election, or a revision that comes soon:
/// to be waited for. Anything else is a failure.
pub async fn again(status: Status) {
    assert!(
        matches!(status.code(), Code::Unavailable | Code::OutOfRange),
        "{status}"
    );
    tokio::time::sleep(LOOK).await;
}

/// The member of that name.
pub fn named<'a>(members: &'a [Member], name: &str) -> &'a Member {
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
