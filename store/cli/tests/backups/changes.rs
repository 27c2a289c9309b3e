//! A server with random changes, and its hash at each revision.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use backup::ClusterHash;
use environment::randomness::Random;
use etcd_api::etcdserverpb::auth_client::AuthClient;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::lease_client::LeaseClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::*;
use harness::{Member, MemberConfig, Program};
use tonic::transport::Channel;

use crate::process::{inkstone, output, text};

/// A program that serves a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Inkstone,
    Etcd,
}

/// etcd, if it is on this machine.
pub fn etcd() -> Option<PathBuf> {
    harness::etcd_binary(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

pub struct Store {
    member: Member,
    channel: Channel,
    random: Random,
    granted: Vec<i64>,
    /// The server's HashKV of each revision when it was the newest.
    pub said: BTreeMap<i64, ClusterHash>,
}

impl Store {
    pub async fn start(kind: Kind, folder: &Path, seed: u64) -> Store {
        let binary = match kind {
            Kind::Inkstone => PathBuf::from(env!("CARGO_BIN_EXE_inkstone")),
            Kind::Etcd => etcd().unwrap(),
        };
        let config = MemberConfig::on_reserved_ports("source", folder).unwrap();
        let config = MemberConfig {
            initial_cluster: harness::initial_cluster([&config]),
            ..config
        };
        let mut member = Member::new(Program::new(binary), config);
        member.start_and_wait().unwrap();
        let channel = connect(&member).await;
        Store {
            member,
            channel,
            random: Random::from_seed(seed),
            granted: Vec::new(),
            said: BTreeMap::new(),
        }
    }

    /// The flag that names the server.
    pub fn endpoint(&self) -> String {
        format!("--endpoint={}", self.member.client_url())
    }

    fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone())
    }

    fn lease_client(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    pub async fn revision(&self) -> i64 {
        let range = RangeRequest {
            key: "none".into(),
            ..RangeRequest::default()
        };
        let answer = self.kv().range(range).await.unwrap().into_inner();
        answer.header.unwrap().revision
    }

    /// Ids and seconds of all leases, ascending.
    pub async fn leases(&self) -> Vec<(i64, i64)> {
        let request = LeaseLeasesRequest {};
        let listed = self.lease_client().lease_leases(request).await.unwrap();
        let mut leases = Vec::new();
        for lease in listed.into_inner().leases {
            let request = LeaseTimeToLiveRequest {
                id: lease.id,
                keys: false,
            };
            let answer = self.lease_client().lease_time_to_live(request).await;
            leases.push((lease.id, answer.unwrap().into_inner().granted_ttl));
        }
        leases.sort_unstable();
        leases
    }

    /// One random change, and the hash behind it.
    pub async fn change(&mut self) {
        match self.random.below(100) {
            0..4 => self.grant().await,
            4..7 => self.revoke().await,
            7..25 => {
                let (key, range_end) = match self.random.chance(1, 3) {
                    true => ("key/1".to_owned(), "key/2"),
                    false => (self.key(), ""),
                };
                let request = DeleteRangeRequest {
                    key: key.into(),
                    range_end: range_end.into(),
                    prev_kv: false,
                };
                self.kv().delete_range(request).await.unwrap();
            }
            25..45 => self.transact().await,
            _ => {
                let put = self.put();
                self.kv().put(put).await.unwrap();
            }
        }
        self.ask().await;
    }

    /// A put, and the hash behind it.
    pub async fn put_one(&mut self) {
        let put = self.put();
        self.kv().put(put).await.unwrap();
        self.ask().await;
    }

    /// Asks for the hash of the newest revision.
    async fn ask(&mut self) {
        let revision = self.revision().await;
        let mut maintenance = MaintenanceClient::new(self.channel.clone());
        let answer = maintenance.hash_kv(HashKvRequest { revision }).await;
        let answer = answer.unwrap().into_inner();
        let hash = ClusterHash {
            revision,
            compacted: answer.compact_revision,
            hash: answer.hash,
        };
        self.said.insert(revision, hash);
    }

    fn key(&mut self) -> String {
        format!("key/{}", self.random.below(30))
    }

    fn put(&mut self) -> PutRequest {
        let lease = match self.random.below(4) {
            0 if !self.granted.is_empty() => *self.random.pick(&self.granted),
            _ => 0,
        };
        let bytes = match self.random.below(40) {
            0 => self.random.below(100_000),
            _ => self.random.below(300),
        };
        PutRequest {
            key: self.key().into(),
            value: vec![b'v'; bytes as usize].into(),
            lease,
            ..PutRequest::default()
        }
    }

    async fn transact(&mut self) {
        let mut puts = BTreeMap::new();
        for _ in 0..1 + self.random.below(5) {
            let put = self.put();
            puts.insert(put.key.clone(), put);
        }
        let deletion = DeleteRangeRequest {
            key: "other".into(),
            ..DeleteRangeRequest::default()
        };
        let puts = puts.into_values().map(Operation::RequestPut);
        let operations = [Operation::RequestDeleteRange(deletion)].into_iter();
        let success = operations.chain(puts).map(|request| RequestOp {
            request: Some(request),
        });
        let request = TxnRequest {
            success: success.collect(),
            ..TxnRequest::default()
        };
        self.kv().txn(request).await.unwrap();
    }

    async fn grant(&mut self) {
        let ttl = 10_000 + self.random.below(100) as i64;
        let request = LeaseGrantRequest { id: 0, ttl };
        let granted = self.lease_client().lease_grant(request).await.unwrap();
        self.granted.push(granted.into_inner().id);
    }

    async fn revoke(&mut self) {
        if self.granted.len() > 1 {
            let id = self.granted.remove(0);
            let request = LeaseRevokeRequest { id };
            self.lease_client().lease_revoke(request).await.unwrap();
        }
    }

    pub async fn compact(&mut self, revision: i64) {
        let request = CompactionRequest {
            revision,
            physical: true,
        };
        // Refused if it is compacted already.
        let _ = self.kv().compact(request).await;
        self.ask().await;
    }

    pub async fn add_user(&self, name: &str) {
        let request = AuthUserAddRequest {
            name: name.to_owned(),
            password: "secret".to_owned(),
            ..AuthUserAddRequest::default()
        };
        let mut users = AuthClient::new(self.channel.clone());
        users.user_add(request).await.unwrap();
    }

    /// Saves a snapshot.
    pub fn save(&self, file: &Path) {
        let words = ["snapshot", "save", file.to_str().unwrap()];
        let saved = output(inkstone().args(words).arg(self.endpoint()));
        assert!(saved.status.success(), "{}", text(&saved.stderr));
    }

    /// Replaces the store by what a file has, with the same cluster id.
    pub async fn go_back_to(&mut self, file: &Path) {
        self.member.kill().unwrap();
        self.member.remove_data().unwrap();
        let config = &self.member.config;
        let words = ["snapshot", "restore", file.to_str().unwrap()];
        let restored = output(
            inkstone()
                .args(words)
                .arg(format!("--name={}", config.name))
                .arg(format!("--initial-cluster={}", config.initial_cluster))
                .arg(format!(
                    "--initial-advertise-peer-urls={}",
                    config.peer_url()
                ))
                .arg(format!("--data-dir={}", config.data.display())),
        );
        assert!(restored.status.success(), "{}", text(&restored.stderr));
        self.member.start_and_wait().unwrap();
        self.channel = connect(&self.member).await;
        self.granted.clear();
        self.ask().await;
        let newest = self.revision().await;
        self.said.retain(|revision, _| *revision <= newest);
    }
}

async fn connect(member: &Member) -> Channel {
    let endpoint = Channel::from_shared(member.client_url()).unwrap();
    endpoint.connect().await.unwrap()
}
