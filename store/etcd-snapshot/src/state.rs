//! Everything that a file holds besides the versions of keys.

use bolt::DatabaseFile;
use bytes::Bytes;
use etcd_api::authpb::{Role, User};
use etcd_api::etcdserverpb::{AlarmMember, Member};
use prost::Message;
use serde::{Deserialize, Serialize};

use crate::entries::{each, number};
use crate::row::RowKey;
use crate::{Error, meta};

/// Names of the buckets, as etcd's `server/storage/schema/bucket.go` has them.
pub(crate) mod bucket {
    pub const ALARM: &str = "alarm";
    pub const AUTH: &str = "auth";
    pub const CLUSTER: &str = "cluster";
    pub const LEASE: &str = "lease";
    pub const MEMBERS: &str = "members";
    pub const MEMBERS_REMOVED: &str = "members_removed";
    pub const META: &str = "meta";
    pub const ROLES: &str = "authRoles";
    pub const USERS: &str = "authUsers";
}

const AUTH_ENABLED: &[u8] = b"authEnabled";
const AUTH_REVISION: &[u8] = b"authRevision";
const DOWNGRADE: &[u8] = b"downgrade";

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Never 0.
    pub id: i64,
    /// The granted time to live, in seconds.
    pub ttl_seconds: i64,
}

/// The state of a store besides its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct FileState {
    /// The newest compaction; -1: none.
    pub compacted: i64,
    /// Raft's index up to which everything is applied.
    pub index: u64,
    /// Raft's term of that entry.
    pub term: u64,
    pub leases: Vec<LeaseRecord>,
    pub alarms: Vec<AlarmMember>,
    pub members: Vec<Member>,
    /// Ids of members that the cluster has removed.
    pub removed_members: Vec<u64>,
    /// Whether calls are checked for users.
    pub has_auth: bool,
    /// 1 before the first change of users and roles.
    pub auth_revision: u64,
    pub users: Vec<User>,
    pub roles: Vec<Role>,
    /// The version that a downgrade goes to, while one is enabled.
    pub downgrade: Option<String>,
}

impl Default for FileState {
    fn default() -> FileState {
        FileState {
            compacted: -1,
            index: 0,
            term: 0,
            leases: Vec::new(),
            alarms: Vec::new(),
            members: Vec::new(),
            removed_members: Vec::new(),
            has_auth: false,
            auth_revision: 1,
            users: Vec::new(),
            roles: Vec::new(),
            downgrade: None,
        }
    }
}

/// `leasepb.Lease`.
#[derive(Clone, PartialEq, Message)]
struct StoredLease {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(int64, tag = "2")]
    ttl: i64,
    #[prost(int64, tag = "3")]
    remaining: i64,
}

/// JSON of a member.
#[derive(Deserialize, Serialize)]
struct StoredMember {
    id: u64,
    #[serde(rename = "peerURLs", default)]
    peer_urls: Option<Vec<String>>,
    #[serde(rename = "isLearner", default, skip_serializing_if = "is_false")]
    is_learner: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(
        rename = "clientURLs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    client_urls: Option<Vec<String>>,
}

/// JSON of Raft's configuration.
#[derive(Serialize)]
struct StoredConfiguration {
    voters: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    learners: Vec<u64>,
    auto_leave: bool,
}

/// JSON of a downgrade.
#[derive(Deserialize, Serialize)]
struct StoredDowngrade {
    #[serde(rename = "target-version")]
    target: String,
    enabled: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("numbers and texts have a form in JSON")
}

/// Keys and values of a bucket.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
/// A bucket.
pub(crate) type NamedPairs = (&'static str, Pairs);

impl FileState {
    /// The first name of a user or role that is longer than a key of the format can be.
    pub fn name_too_long(&self) -> Option<&[u8]> {
        let users = self.users.iter().map(|user| &user.name[..]);
        let mut names = users.chain(self.roles.iter().map(|role| &role.name[..]));
        names.find(|name| name.len() as u64 > bolt::format::KEY_BYTES_MAX)
    }

    /// All buckets but that of keys, ascending by name, with their entries ascending.
    pub(crate) fn to_buckets(&self) -> Vec<NamedPairs> {
        let alarms = self
            .alarms
            .iter()
            .map(|it| (it.encode_to_vec(), Vec::new()));
        let roles = self
            .roles
            .iter()
            .map(|it| (it.name.to_vec(), it.encode_to_vec()));
        let users = self
            .users
            .iter()
            .map(|it| (it.name.to_vec(), it.encode_to_vec()));
        let members = self
            .members
            .iter()
            .map(|it| (hexadecimal(it.id), member(it)));
        let removed = self.removed_members.iter();
        let removed = removed.map(|&id| (hexadecimal(id), b"removed".to_vec()));
        let mut buckets = vec![
            (bucket::ALARM, alarms.collect()),
            (bucket::AUTH, self.auth()),
            (bucket::ROLES, roles.collect()),
            (bucket::USERS, users.collect()),
            (bucket::CLUSTER, self.cluster()),
            (bucket::LEASE, self.leases()),
            (bucket::MEMBERS, members.collect()),
            (bucket::MEMBERS_REMOVED, removed.collect()),
            (bucket::META, self.meta()),
        ];
        for (_, pairs) in &mut buckets {
            let pairs: &mut Pairs = pairs;
            // An alarm of type 0 of member 0 has no bytes, and bbolt no empty keys.
            pairs.retain(|(key, _)| !key.is_empty());
            pairs.sort();
        }
        buckets
    }

    fn auth(&self) -> Pairs {
        vec![
            (AUTH_ENABLED.to_vec(), vec![u8::from(self.has_auth)]),
            (
                AUTH_REVISION.to_vec(),
                self.auth_revision.to_be_bytes().to_vec(),
            ),
        ]
    }

    fn cluster(&self) -> Pairs {
        let version = etcd_api::STORAGE_VERSION.as_bytes().to_vec();
        let mut pairs = vec![(b"clusterVersion".to_vec(), version)];
        if let Some(target) = &self.downgrade {
            let downgrade = StoredDowngrade {
                target: target.clone(),
                enabled: true,
            };
            pairs.push((DOWNGRADE.to_vec(), json(&downgrade)));
        }
        pairs
    }

    fn leases(&self) -> Pairs {
        let stored = |lease: &LeaseRecord| {
            let message = StoredLease {
                id: lease.id,
                ttl: lease.ttl_seconds,
                remaining: 0,
            };
            (lease.id.to_be_bytes().to_vec(), message.encode_to_vec())
        };
        self.leases.iter().map(stored).collect()
    }

    fn meta(&self) -> Pairs {
        let (learners, voters): (Vec<&Member>, Vec<&Member>) =
            self.members.iter().partition(|member| member.is_learner);
        let ids = |members: Vec<&Member>| members.iter().map(|member| member.id).collect();
        let configuration = StoredConfiguration {
            voters: ids(voters),
            learners: ids(learners),
            auto_leave: false,
        };
        let version = etcd_api::STORAGE_VERSION.as_bytes().to_vec();
        let mut pairs = vec![
            (b"confState".to_vec(), json(&configuration)),
            (
                b"consistent_index".to_vec(),
                self.index.to_be_bytes().to_vec(),
            ),
            (b"storageVersion".to_vec(), version),
            (b"term".to_vec(), self.term.to_be_bytes().to_vec()),
        ];
        if self.compacted >= 0 {
            let revision = RowKey {
                main: self.compacted,
                sub: 0,
                is_deletion: false,
            };
            for name in ["finishedCompactRev", "scheduledCompactRev"] {
                pairs.push((name.as_bytes().to_vec(), revision.encode()));
            }
        }
        pairs
    }

    /// Reads the state of a file. Buckets that it does not have are empty.
    pub fn read(file: &DatabaseFile) -> Result<FileState, Error> {
        let meta = meta::read(file)?;
        let mut state = FileState {
            compacted: meta.compacted,
            index: meta.index,
            term: meta.term,
            ..FileState::default()
        };
        state.read_leases(file)?;
        each(file, bucket::ALARM, |key, _| {
            state
                .alarms
                .push(message(bucket::ALARM, &key, key.clone())?);
            Ok(())
        })?;
        state.read_members(file)?;
        state.read_auth(file)?;
        each(file, bucket::CLUSTER, |key, value| {
            if key == DOWNGRADE {
                let downgrade: StoredDowngrade = from_json(bucket::CLUSTER, &key, &value)?;
                let target = downgrade.enabled.then_some(downgrade.target);
                state.downgrade = target.filter(|target| !target.is_empty());
            }
            Ok(())
        })?;
        Ok(state)
    }

    fn read_leases(&mut self, file: &DatabaseFile) -> Result<(), Error> {
        each(file, bucket::LEASE, |key, value| {
            let lease: StoredLease = message(bucket::LEASE, &key, value)?;
            if lease.id == 0 || key != lease.id.to_be_bytes()[..] {
                return Err(Error::entry(bucket::LEASE, &key, "it is of another lease"));
            }
            self.leases.push(LeaseRecord {
                id: lease.id,
                ttl_seconds: lease.ttl,
            });
            Ok(())
        })
    }

    fn read_members(&mut self, file: &DatabaseFile) -> Result<(), Error> {
        each(file, bucket::MEMBERS, |key, value| {
            let member: StoredMember = from_json(bucket::MEMBERS, &key, &value)?;
            self.members.push(Member {
                id: member.id,
                name: member.name,
                peer_ur_ls: member.peer_urls.unwrap_or_default(),
                client_ur_ls: member.client_urls.unwrap_or_default(),
                is_learner: member.is_learner,
            });
            Ok(())
        })?;
        each(file, bucket::MEMBERS_REMOVED, |key, _| {
            let text = std::str::from_utf8(&key).unwrap_or_default();
            let id = u64::from_str_radix(text, 16);
            let id = id.map_err(|_| {
                Error::entry(bucket::MEMBERS_REMOVED, &key, "it is no id of a member")
            })?;
            self.removed_members.push(id);
            Ok(())
        })
    }

    fn read_auth(&mut self, file: &DatabaseFile) -> Result<(), Error> {
        each(file, bucket::AUTH, |key, value| {
            match &key[..] {
                AUTH_ENABLED => self.has_auth = value[..] == [1],
                AUTH_REVISION => self.auth_revision = number(bucket::AUTH, &key, &value)?,
                _ => {}
            }
            Ok(())
        })?;
        each(file, bucket::USERS, |key, value| {
            let user: User = message(bucket::USERS, &key, value)?;
            check_name(bucket::USERS, &key, &user.name)?;
            self.users.push(user);
            Ok(())
        })?;
        each(file, bucket::ROLES, |key, value| {
            let role: Role = message(bucket::ROLES, &key, value)?;
            check_name(bucket::ROLES, &key, &role.name)?;
            self.roles.push(role);
            Ok(())
        })
    }
}

fn member(member: &Member) -> Vec<u8> {
    json(&StoredMember {
        id: member.id,
        peer_urls: Some(member.peer_ur_ls.clone()),
        is_learner: member.is_learner,
        name: member.name.clone(),
        client_urls: Some(member.client_ur_ls.clone()).filter(|urls| !urls.is_empty()),
    })
}

fn hexadecimal(id: u64) -> Vec<u8> {
    format!("{id:x}").into_bytes()
}

fn check_name(bucket: &'static str, key: &Bytes, name: &Bytes) -> Result<(), Error> {
    match key == name {
        true => Ok(()),
        false => Err(Error::entry(bucket, key, "it has another name inside")),
    }
}

fn message<M: Message + Default>(
    bucket: &'static str,
    key: &[u8],
    value: Bytes,
) -> Result<M, Error> {
    M::decode(value).map_err(|error| Error::entry(bucket, key, error.to_string()))
}

fn from_json<T: for<'de> Deserialize<'de>>(
    bucket: &'static str,
    key: &[u8],
    value: &[u8],
) -> Result<T, Error> {
    let read = serde_json::from_slice(value);
    read.map_err(|error| Error::entry(bucket, key, error.to_string()))
}
