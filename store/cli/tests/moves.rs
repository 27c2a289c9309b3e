//! Stores that move by a snapshot: between Inkstone and etcd in both directions, and from Inkstone to
//! Inkstone. Everything must be there afterwards.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use environment::randomness::Random;
use etcd_api::authpb::Permission;
use etcd_api::etcdserverpb::auth_client::AuthClient;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::lease_client::LeaseClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::*;
use harness::{Member, MemberConfig, Program};
use tonic::transport::Channel;

/// Operations of one move; the variable INKSTONE_MOVE_OPERATIONS sets another number.
const OPERATIONS: u64 = 1_500;

/// A program that serves a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Inkstone,
    Etcd,
}

/// etcd and etcdutl, if they are on this machine.
fn etcd() -> Option<PathBuf> {
    harness::etcd_binary(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

fn inkstone() -> Command {
    Command::new(env!("CARGO_BIN_EXE_inkstone"))
}

struct Store {
    member: Member,
    channel: Channel,
}

impl Store {
    async fn start(kind: Kind, config: MemberConfig) -> Store {
        let binary = match kind {
            Kind::Inkstone => PathBuf::from(env!("CARGO_BIN_EXE_inkstone")),
            Kind::Etcd => etcd().unwrap(),
        };
        let mut member = Member::new(Program::new(binary), config);
        member.start_and_wait().unwrap();
        let endpoint = Channel::from_shared(member.client_url()).unwrap();
        let channel = endpoint.connect().await.unwrap();
        Store { member, channel }
    }

    fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone())
    }

    fn leases(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    fn users(&self) -> AuthClient<Channel> {
        AuthClient::new(self.channel.clone())
    }

    /// HashKV at a revision, with the compaction; an error if it is compacted.
    async fn hash(&self, revision: i64) -> Option<(u32, i64)> {
        let mut maintenance = MaintenanceClient::new(self.channel.clone());
        let answer = maintenance.hash_kv(HashKvRequest { revision }).await.ok()?;
        let answer = answer.into_inner();
        Some((answer.hash, answer.compact_revision))
    }

    async fn revision(&self) -> i64 {
        let range = RangeRequest {
            key: "none".into(),
            ..RangeRequest::default()
        };
        let answer = self.kv().range(range).await.unwrap().into_inner();
        answer.header.unwrap().revision
    }

    /// Users with their roles, and roles with their permissions.
    async fn accounts(&self) -> Vec<(String, Vec<String>, Vec<Permission>)> {
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
    async fn all_leases(&self) -> BTreeSet<(i64, i64, Vec<Vec<u8>>)> {
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

/// Random changes, the same ones for a seed.
struct Changes {
    random: Random,
    leases: Vec<i64>,
    accounts: u64,
}

impl Changes {
    fn key(&mut self) -> String {
        format!("key/{}", self.random.below(60))
    }

    fn put(&mut self) -> PutRequest {
        let lease = match self.random.below(5) {
            0 if !self.leases.is_empty() => {
                self.leases[self.random.below(self.leases.len() as u64) as usize]
            }
            _ => 0,
        };
        let bytes = match self.random.below(40) {
            0 => self.random.below(200_000),
            _ => self.random.below(400),
        };
        PutRequest {
            key: self.key().into(),
            value: vec![b'v'; bytes as usize].into(),
            lease,
            ..PutRequest::default()
        }
    }

    fn deletion(&mut self) -> DeleteRangeRequest {
        let key = self.key();
        let range_end = match self.random.below(4) {
            0 => format!("{key}~"),
            _ => String::new(),
        };
        DeleteRangeRequest {
            key: key.into(),
            range_end: range_end.into(),
            prev_kv: false,
        }
    }

    /// Deletions first, then puts of other keys or of the same.
    fn transaction(&mut self) -> TxnRequest {
        let mut keys = BTreeSet::new();
        let mut success = Vec::new();
        for _ in 0..self.random.below(3) {
            let range = DeleteRangeRequest {
                range_end: "".into(),
                ..self.deletion()
            };
            if keys.insert(range.key.clone()) {
                success.push(Operation::RequestDeleteRange(range));
            }
        }
        for _ in 0..1 + self.random.below(4) {
            let put = self.put();
            if keys.insert(put.key.clone()) {
                success.push(Operation::RequestPut(put));
            }
        }
        let operation = |request| RequestOp {
            request: Some(request),
        };
        TxnRequest {
            success: success.into_iter().map(operation).collect(),
            ..TxnRequest::default()
        }
    }

    async fn make_one(&mut self, store: &Store) {
        match self.random.below(200) {
            0..10 => self.change_lease(store).await,
            10..16 => self.change_accounts(store).await,
            16 => {
                let revision = store.revision().await;
                let back = self.random.below(300) as i64;
                let request = CompactionRequest {
                    revision: revision - back,
                    physical: true,
                };
                // Refused if it is compacted already.
                let _ = store.kv().compact(request).await;
            }
            17..60 => {
                store.kv().delete_range(self.deletion()).await.unwrap();
            }
            60..100 => {
                store.kv().txn(self.transaction()).await.unwrap();
            }
            _ => {
                store.kv().put(self.put()).await.unwrap();
            }
        }
    }

    async fn change_lease(&mut self, store: &Store) {
        if self.leases.len() > 5 {
            let id = self.leases.remove(0);
            let revoke = LeaseRevokeRequest { id };
            store.leases().lease_revoke(revoke).await.unwrap();
            return;
        }
        let grant = LeaseGrantRequest {
            id: 0,
            ttl: 10_000 + self.random.below(100) as i64,
        };
        let granted = store.leases().lease_grant(grant).await.unwrap();
        self.leases.push(granted.into_inner().id);
    }

    async fn change_accounts(&mut self, store: &Store) {
        let number = self.accounts;
        self.accounts += 1;
        let (user, role) = (format!("user{number}"), format!("role{number}"));
        let add = AuthUserAddRequest {
            name: user.clone(),
            password: "secret".to_owned(),
            ..AuthUserAddRequest::default()
        };
        store.users().user_add(add).await.unwrap();
        let add = AuthRoleAddRequest { name: role.clone() };
        store.users().role_add(add).await.unwrap();
        let permission = Permission {
            perm_type: self.random.below(3) as i32,
            key: self.key().into(),
            range_end: "z".into(),
        };
        let grant = AuthRoleGrantPermissionRequest {
            name: role.clone(),
            perm: Some(permission),
        };
        store.users().role_grant_permission(grant).await.unwrap();
        let grant = AuthUserGrantRoleRequest { user, role };
        store.users().user_grant_role(grant).await.unwrap();
    }
}

/// Fills a store at random.
async fn fill(store: &Store, seed: u64) {
    let operations = std::env::var("INKSTONE_MOVE_OPERATIONS");
    let operations = operations.map_or(OPERATIONS, |text| text.parse().unwrap());
    let mut changes = Changes {
        random: Random::from_seed(seed),
        leases: Vec::new(),
        accounts: 0,
    };
    for _ in 0..operations {
        changes.make_one(store).await;
    }
    changes.change_lease(store).await;
    changes.change_accounts(store).await;
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
}

/// Makes the data directory of a member from a file.
fn restore(kind: Kind, file: &Path, config: &MemberConfig) {
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

fn config(name: &str, folder: &Path) -> MemberConfig {
    let config = MemberConfig::on_reserved_ports(name, folder).unwrap();
    MemberConfig {
        initial_cluster: harness::initial_cluster([&config]),
        ..config
    }
}

/// Fills a store, moves it, and compares everything.
async fn move_store(from: Kind, to: Kind, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let source = Store::start(from, config("source", folder.path())).await;
    fill(&source, seed).await;
    let file = folder.path().join("moved.db");
    let endpoint = format!("--endpoint={}", source.member.client_url());
    run(inkstone().args(["snapshot", "save", &endpoint]).arg(&file));
    let target_config = config("target", folder.path());
    restore(to, &file, &target_config);
    let target = Store::start(to, target_config).await;
    compare(&source, &target).await;
    // Both go on in the same way.
    for store in [&source, &target] {
        let mut changes = Changes {
            random: Random::from_seed(seed + 1),
            leases: Vec::new(),
            accounts: 0,
        };
        for _ in 0..50 {
            store.kv().txn(changes.transaction()).await.unwrap();
        }
    }
    compare(&source, &target).await;
}

async fn compare(source: &Store, target: &Store) {
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

#[tokio::test]
async fn a_store_moves_from_inkstone_to_inkstone() {
    move_store(Kind::Inkstone, Kind::Inkstone, 1).await;
}

#[tokio::test]
async fn a_store_moves_from_inkstone_to_etcd() {
    if etcd().is_none() {
        eprintln!("SKIPPED: there is no etcd to move to; `cargo xtask etcd` builds one");
        return;
    }
    move_store(Kind::Inkstone, Kind::Etcd, 2).await;
}

#[tokio::test]
async fn a_store_moves_from_etcd_to_inkstone() {
    if etcd().is_none() {
        eprintln!("SKIPPED: there is no etcd to move from; `cargo xtask etcd` builds one");
        return;
    }
    move_store(Kind::Etcd, Kind::Inkstone, 3).await;
}
