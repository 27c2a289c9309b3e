//! Servers of stores, what they hold, and how one is made from a snapshot of another.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use etcd_api::authpb::Permission;
use etcd_api::etcdserverpb::auth_client::AuthClient;
use etcd_api::etcdserverpb::cluster_client::ClusterClient;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::lease_client::LeaseClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::*;
use harness::{Member, MemberConfig, Program};
use tonic::transport::Channel;

/// A program that serves a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Inkstone,
    Etcd,
}

/// etcd and etcdutl, if they are on this machine.
pub fn etcd() -> Option<PathBuf> {
    harness::etcd_binary(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

pub fn inkstone() -> Command {
    Command::new(env!("CARGO_BIN_EXE_inkstone"))
}

pub struct Store {
    pub member: Member,
    channel: Channel,
}

impl Store {
    pub async fn start(kind: Kind, config: MemberConfig) -> Store {
        Store::start_with(kind, config, &[]).await
    }

    /// Starts it with more flags.
    pub async fn start_with(kind: Kind, config: MemberConfig, flags: &[&str]) -> Store {
        let binary = match kind {
            Kind::Inkstone => PathBuf::from(env!("CARGO_BIN_EXE_inkstone")),
            Kind::Etcd => etcd().unwrap(),
        };
        let mut member = Member::new(Program::new(binary).with(flags), config);
        member.start_and_wait().unwrap();
        let endpoint = Channel::from_shared(member.client_url()).unwrap();
        let channel = endpoint.connect().await.unwrap();
        Store { member, channel }
    }

    /// Kills the server, and starts it again.
    pub async fn restart(&mut self) {
        self.member.kill().unwrap();
        self.member.start_and_wait().unwrap();
        let endpoint = Channel::from_shared(self.member.client_url()).unwrap();
        self.channel = endpoint.connect().await.unwrap();
    }

    /// Discards the history before the newest revision.
    pub async fn compact(&self) {
        let revision = self.revision().await;
        let request = CompactionRequest {
            revision,
            physical: true,
        };
        self.kv().compact(request).await.unwrap();
    }

    pub fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone())
    }

    pub fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone())
    }

    pub fn leases(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    pub fn users(&self) -> AuthClient<Channel> {
        AuthClient::new(self.channel.clone())
    }

    /// HashKV at a revision, with the compaction; an error if it is compacted.
    pub async fn hash(&self, revision: i64) -> Option<(u32, i64)> {
        let mut maintenance = MaintenanceClient::new(self.channel.clone());
        let answer = maintenance.hash_kv(HashKvRequest { revision }).await.ok()?;
        let answer = answer.into_inner();
        Some((answer.hash, answer.compact_revision))
    }

    pub async fn revision(&self) -> i64 {
        let range = RangeRequest {
            key: "none".into(),
            ..RangeRequest::default()
        };
        let answer = self.kv().range(range).await.unwrap().into_inner();
        answer.header.unwrap().revision
    }

    /// Users with their roles, and roles with their permissions.
    pub async fn accounts(&self) -> Vec<(String, Vec<String>, Vec<Permission>)> {
        let mut accounts = Vec::new();
        let users = self.users().user_list(AuthUserListRequest {}).await;
        for name in users.unwrap().into_inner().users {
            let request = AuthUserGetRequest { name: name.clone() };
            let user = self.users().user_get(request).await.unwrap();
            accounts.push((name, user.into_inner().roles, Vec::new()));
        }
        let roles = self.users().role_list(AuthRoleListRequest {}).await;
        for role in roles.unwrap().into_inner().roles {
            let request = AuthRoleGetRequest { role: role.clone() };
            let found = self.users().role_get(request).await.unwrap();
            accounts.push((role, Vec::new(), found.into_inner().perm));
        }
        accounts
    }

    /// Ids, granted seconds and keys of all leases.
    pub async fn all_leases(&self) -> BTreeSet<(i64, i64, Vec<Vec<u8>>)> {
        let listed = self.leases().lease_leases(LeaseLeasesRequest {}).await;
        let mut leases = BTreeSet::new();
        for lease in listed.unwrap().into_inner().leases {
            let request = LeaseTimeToLiveRequest {
                id: lease.id,
                keys: true,
            };
            let lease = self.leases().lease_time_to_live(request).await.unwrap();
            let lease = lease.into_inner();
            let mut keys: Vec<Vec<u8>> = lease.keys.iter().map(|key| key.to_vec()).collect();
            keys.sort();
            leases.insert((lease.id, lease.granted_ttl, keys));
        }
        leases
    }
}

pub fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
}

/// Makes the data directory of a member from a file.
pub fn restore(kind: Kind, file: &Path, config: &MemberConfig) {
    let mut command = match kind {
        Kind::Inkstone => inkstone(),
        Kind::Etcd => Command::new(etcd().unwrap().with_file_name("etcdutl")),
    };
    command.args(["snapshot", "restore"]).arg(file);
    command.arg(format!("--name={}", config.name));
    command.arg(format!("--initial-cluster={}", config.initial_cluster));
    command.arg(format!(
        "--initial-advertise-peer-urls={}",
        config.peer_url()
    ));
    command.arg(format!("--data-dir={}", config.data.display()));
    run(&mut command);
}

pub fn config(name: &str, folder: &Path) -> MemberConfig {
    let config = MemberConfig::on_reserved_ports(name, folder).unwrap();
    MemberConfig {
        initial_cluster: harness::initial_cluster([&config]),
        ..config
    }
}

pub async fn compare(source: &Store, target: &Store) {
    let revision = source.revision().await;
    assert_eq!(target.revision().await, revision);
    let (_, compacted) = source.hash(0).await.unwrap();
    for revision in compacted.max(0) + 1..=revision {
        let (ours, theirs) = (source.hash(revision).await, target.hash(revision).await);
        assert!(ours.is_some(), "{revision}");
        assert_eq!(ours, theirs, "at {revision}");
    }
    assert_eq!(target.all_leases().await, source.all_leases().await);
    assert_eq!(target.accounts().await, source.accounts().await);
}
