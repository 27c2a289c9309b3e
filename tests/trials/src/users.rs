//! Runs the same calls of the same users on Inkstone and on etcd, and compares each answer: its
//! code, its text, and what can be read of users and roles.
//!
//! A round begins with fresh servers, makes users and roles at random, switches them on, and goes on
//! with calls of all services by callers with a fresh token, an old one, a bad one or none:
//! keys and ranges with open ends, transactions inside of transactions, previous values, leases,
//! alarms, members, users and roles themselves. Users are switched off and on in between.
//!
//! One thing is left out: two permissions of a role with the same first key and another end (etcd
//! forgets to replace the second one).

use std::collections::BTreeMap;
use std::time::Instant;

use environment::randomness::Random;
use etcd_api::authpb::{Permission, UserAddOptions};
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::*;
use harness::Member;
use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::servers::{Servers, channel, folder};
use crate::{Length, Outcome, Report, Subject};

/// Calls after which both servers begin again.
const CALLS: usize = 2_000;
const KEYS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "k", "k\0", "z"];
const USERS: [&str; 5] = ["root", "alice", "bob", "carol", ""];
const ROLES: [&str; 5] = ["root", "r", "s", "t", ""];
const PASSWORDS: [&str; 2] = ["one", "two"];

/// Plays rounds until the time has passed.
pub async fn run(subject: &Subject, length: Length) -> Outcome<Report> {
    let deadline = Instant::now() + length.lasting;
    let mut totals: BTreeMap<String, u64> = BTreeMap::new();
    let mut seed = length.seed;
    while seed == length.seed || Instant::now() < deadline {
        let mut round = Round::begin(subject, seed).await?;
        for call in 0..length.operations.unwrap_or(CALLS) {
            let played = round.play().await;
            round.ours.check()?;
            played.map_err(|error| {
                format!(
                    "{error}\ncall {call} of seed {seed}: cargo trials fuzz users --seed {seed}"
                )
            })?;
        }
        for (outcome, count) in round.outcomes {
            *totals.entry(outcome).or_default() += count;
        }
        seed += 1;
    }
    let mut report = Report::default();
    let all: u64 = totals.values().sum();
    report.add("decisions compared", all);
    for (outcome, count) in totals {
        report.add(&outcome, count);
    }
    report.add("differences", 0);
    Ok(report)
}

/// A caller's token at each server.
#[derive(Clone, Debug, PartialEq)]
struct Tokens {
    user: String,
    theirs: String,
    ours: String,
}

struct Round {
    random: Random,
    _etcd: Servers,
    ours: Servers,
    their_channel: Channel,
    our_channel: Channel,
    /// Tokens that were given out, however old.
    tokens: Vec<Tokens>,
    /// Ids of the leases that were asked for.
    leases: Vec<i64>,
    outcomes: BTreeMap<String, u64>,
}

/// A call, encoded, with its path.
struct Call {
    path: &'static str,
    shown: String,
    bytes: Vec<u8>,
}

fn call<M: Message + std::fmt::Debug>(path: &'static str, message: &M) -> Call {
    Call {
        path,
        shown: format!("{path} {message:?}"),
        bytes: message.encode_to_vec(),
    }
}

/// Any message, as its bytes.
#[derive(Clone, Debug, Default)]
struct Raw(Vec<u8>);

impl Message for Raw {
    fn encode_raw(&self, buffer: &mut impl bytes::BufMut) {
        buffer.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: prost::encoding::WireType,
        buffer: &mut impl bytes::Buf,
        context: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buffer, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

async fn send(channel: &Channel, token: Option<&str>, call: &Call) -> Result<(), Status> {
    let mut request = Request::new(Raw(call.bytes.clone()));
    if let Some(token) = token {
        let token = token.parse().map_err(|_| Status::internal("no metadata"))?;
        request.metadata_mut().insert("token", token);
    }
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready()
        .await
        .map_err(|error| Status::internal(error.to_string()))?;
    let path = PathAndQuery::try_from(format!("/etcdserverpb.{}", call.path));
    let path = path.map_err(|error| Status::internal(error.to_string()))?;
    let codec = ProstCodec::<Raw, Raw>::default();
    grpc.unary(request, path, codec).await.map(drop)
}

fn text(outcome: &Result<(), Status>) -> String {
    match outcome {
        Ok(()) => "OK".to_owned(),
        Err(status) => format!("{:?}: {}", status.code(), status.message()),
    }
}

async fn start(
    binary: &std::path::Path,
    member: fn(&Servers) -> &Member,
) -> Outcome<(Servers, Channel)> {
    let flags = [
        "--log-level=error",
        "--bcrypt-cost=4",
        "--auth-token-ttl=3600",
    ];
    let servers = Servers::start_in(folder(None)?, binary, 1, &flags)?;
    let channel = channel(member(&servers)).await?;
    Ok((servers, channel))
}

impl Round {
    async fn begin(subject: &Subject, seed: u64) -> Outcome<Round> {
        let (etcd, their_channel) = start(subject.etcd()?, Servers::first).await?;
        let (ours, our_channel) = start(&subject.inkstone, Servers::first).await?;
        let mut round = Round {
            random: Random::from_seed(seed),
            _etcd: etcd,
            ours,
            their_channel,
            our_channel,
            tokens: Vec::new(),
            leases: Vec::new(),
            outcomes: BTreeMap::new(),
        };
        for _ in 0..60 {
            let change = round.change_of_users();
            round.compare(None, &change).await?;
        }
        for change in [
            call("Auth/UserAdd", &user("root", "one", false)),
            call(
                "Auth/UserGrantRole",
                &AuthUserGrantRoleRequest {
                    user: "root".into(),
                    role: "root".into(),
                },
            ),
            call(
                "Auth/UserChangePassword",
                &AuthUserChangePasswordRequest {
                    name: "root".into(),
                    password: "one".into(),
                    ..Default::default()
                },
            ),
            call("Auth/AuthEnable", &AuthEnableRequest {}),
        ] {
            round.compare(None, &change).await?;
        }
        Ok(round)
    }

    /// Makes one call, and now and then compares everything that can be read.
    async fn play(&mut self) -> Outcome {
        match self.random.below(20) {
            0 => self.log_in().await,
            1 => self.compare_all().await,
            _ => {
                let call = self.any_call();
                let tokens = self.caller();
                self.compare(tokens.as_ref(), &call).await
            }
        }
    }

    async fn compare(&mut self, tokens: Option<&Tokens>, call: &Call) -> Outcome {
        let theirs = tokens.map(|tokens| tokens.theirs.as_str());
        let ours = tokens.map(|tokens| tokens.ours.as_str());
        let theirs = text(&send(&self.their_channel, theirs, call).await);
        let ours = text(&send(&self.our_channel, ours, call).await);
        if theirs != ours {
            let caller = tokens.map_or("no token", |tokens| &tokens.user);
            let shown = &call.shown;
            return Err(format!("{shown} of {caller}\n  etcd: {theirs}\n  ours: {ours}").into());
        }
        *self.outcomes.entry(ours).or_default() += 1;
        Ok(())
    }

    async fn log_in(&mut self) -> Outcome {
        let (name, password) = (*self.random.pick(&USERS), *self.random.pick(&PASSWORDS));
        let log_in = async |channel: &Channel| {
            let mut client = auth_client::AuthClient::new(channel.clone());
            let request = AuthenticateRequest {
                name: name.into(),
                password: password.into(),
            };
            client
                .authenticate(request)
                .await
                .map(|it| it.into_inner().token)
        };
        let theirs = log_in(&self.their_channel).await;
        let ours = log_in(&self.our_channel).await;
        let shown = |outcome: &Result<String, Status>| text(&outcome.clone().map(drop));
        if shown(&theirs) != shown(&ours) {
            let (theirs, ours) = (shown(&theirs), shown(&ours));
            return Err(format!("login of {name}\n  etcd: {theirs}\n  ours: {ours}").into());
        }
        *self
            .outcomes
            .entry(format!("login {}", shown(&ours)))
            .or_default() += 1;
        if let (Ok(theirs), Ok(ours)) = (theirs, ours) {
            let user = name.to_owned();
            self.tokens.push(Tokens { user, theirs, ours });
        }
        Ok(())
    }

    /// Compares status, users, roles and the hash of all keys.
    async fn compare_all(&mut self) -> Outcome {
        let root = self
            .tokens
            .iter()
            .rev()
            .find(|tokens| tokens.user == "root")
            .cloned();
        let tokens = root.as_ref();
        let (theirs, ours) = (self.their_channel.clone(), self.our_channel.clone());
        let theirs = state(&theirs, tokens.map(|it| it.theirs.as_str())).await;
        let ours = state(&ours, tokens.map(|it| it.ours.as_str())).await;
        match theirs == ours {
            true => Ok(()),
            false => Err(format!("state\n  etcd: {theirs:?}\n  ours: {ours:?}").into()),
        }
    }

    /// The tokens of a caller: mostly the newest ones.
    fn caller(&mut self) -> Option<Tokens> {
        let bad = || Tokens {
            user: "stranger".into(),
            theirs: "bad".into(),
            ours: "bad".into(),
        };
        let count = self.tokens.len() as u64;
        match self.random.below(20) {
            0 => None,
            1 => Some(bad()),
            _ if count == 0 => None,
            2..=12 => {
                let back = self.random.below(count.min(4));
                Some(self.tokens[(count - 1 - back) as usize].clone())
            }
            _ => {
                let place = self.random.below(count) as usize;
                Some(self.tokens[place].clone())
            }
        }
    }

    fn any_call(&mut self) -> Call {
        match self.random.below(20) {
            0..=2 => call("KV/Range", &self.range()),
            3..=5 => call("KV/Put", &self.put()),
            6..=7 => call("KV/DeleteRange", &self.delete()),
            8..=11 => call("KV/Txn", &self.txn(0)),
            12..=13 => self.call_of_leases(),
            14..=15 => self.call_of_administrators(),
            _ => self.change_of_users(),
        }
    }

    fn keys(&mut self) -> (bytes::Bytes, bytes::Bytes) {
        let key = *self.random.pick(&KEYS);
        let end = match self.random.below(6) {
            0 => "\0",
            1 | 2 => *self.random.pick(&KEYS),
            _ => "",
        };
        (key.into(), end.into())
    }

    fn range(&mut self) -> RangeRequest {
        let (key, range_end) = self.keys();
        RangeRequest {
            key,
            range_end,
            serializable: self.random.chance(1, 3),
            ..Default::default()
        }
    }

    fn lease(&mut self) -> i64 {
        match self.leases.is_empty() || self.random.chance(2, 3) {
            true => 0,
            false => *self.random.pick(&self.leases),
        }
    }

    fn put(&mut self) -> PutRequest {
        PutRequest {
            key: self.keys().0,
            value: "v".into(),
            lease: self.lease(),
            prev_kv: self.random.chance(1, 3),
            ..Default::default()
        }
    }

    fn delete(&mut self) -> DeleteRangeRequest {
        let (key, range_end) = self.keys();
        DeleteRangeRequest {
            key,
            range_end,
            prev_kv: self.random.chance(1, 3),
        }
    }

    fn txn(&mut self, depth: u32) -> TxnRequest {
        let compare = (0..self.random.below(3)).map(|_| {
            let (key, range_end) = self.keys();
            Compare {
                key,
                range_end,
                result: compare::CompareResult::Greater as i32,
                target: compare::CompareTarget::Version as i32,
                target_union: None,
            }
        });
        TxnRequest {
            compare: compare.collect(),
            success: self.operations(depth),
            failure: self.operations(depth),
        }
    }

    fn operations(&mut self, depth: u32) -> Vec<RequestOp> {
        // More of them would often change a key twice.
        let count = self.random.below(3);
        let mut operations = Vec::new();
        for _ in 0..count {
            let request = match self.random.below(5) {
                0 | 1 => Operation::RequestRange(self.range()),
                2 => Operation::RequestPut(self.put()),
                3 if depth < 2 => Operation::RequestTxn(self.txn(depth + 1)),
                _ => Operation::RequestDeleteRange(self.delete()),
            };
            operations.push(RequestOp {
                request: Some(request),
            });
        }
        operations
    }

    fn call_of_leases(&mut self) -> Call {
        let id = match self.leases.is_empty() || self.random.chance(1, 4) {
            true => 1 + self.random.below(9) as i64,
            false => *self.random.pick(&self.leases),
        };
        match self.random.below(5) {
            0 | 1 => {
                self.leases.push(id);
                call("Lease/LeaseGrant", &LeaseGrantRequest { id, ttl: 3_600 })
            }
            2 => call("Lease/LeaseRevoke", &LeaseRevokeRequest { id }),
            3 => {
                let keys = self.random.chance(2, 3);
                call(
                    "Lease/LeaseTimeToLive",
                    &LeaseTimeToLiveRequest { id, keys },
                )
            }
            _ => call("Lease/LeaseLeases", &LeaseLeasesRequest {}),
        }
    }

    fn call_of_administrators(&mut self) -> Call {
        match self.random.below(8) {
            0 => call("Maintenance/Status", &StatusRequest {}),
            1 => call("Maintenance/HashKV", &HashKvRequest { revision: 0 }),
            2 => call("Maintenance/Alarm", &AlarmRequest::default()),
            3 => {
                let clear = AlarmRequest {
                    action: alarm_request::AlarmAction::Deactivate as i32,
                    alarm: AlarmType::Nospace as i32,
                    ..Default::default()
                };
                call("Maintenance/Alarm", &clear)
            }
            4 => call("Cluster/MemberList", &MemberListRequest::default()),
            5 => {
                let compact = CompactionRequest {
                    revision: 1 + self.random.below(20) as i64,
                    physical: false,
                };
                call("KV/Compact", &compact)
            }
            6 => call("Auth/AuthStatus", &AuthStatusRequest {}),
            _ => call("Maintenance/Hash", &HashRequest {}),
        }
    }

    fn change_of_users(&mut self) -> Call {
        let name = (*self.random.pick(&USERS)).to_owned();
        let role = (*self.random.pick(&ROLES)).to_owned();
        match self.random.below(16) {
            0 | 1 => {
                let password = *self.random.pick(&PASSWORDS);
                let no_password = self.random.chance(1, 5);
                call("Auth/UserAdd", &user(&name, password, no_password))
            }
            2 | 3 => call(
                "Auth/UserGrantRole",
                &AuthUserGrantRoleRequest { user: name, role },
            ),
            4 => call(
                "Auth/UserRevokeRole",
                &AuthUserRevokeRoleRequest { name, role },
            ),
            5 if self.random.chance(1, 3) => {
                call("Auth/UserDelete", &AuthUserDeleteRequest { name })
            }
            6 => {
                let password = (*self.random.pick(&PASSWORDS)).to_owned();
                let change = AuthUserChangePasswordRequest {
                    name,
                    password,
                    ..Default::default()
                };
                call("Auth/UserChangePassword", &change)
            }
            7 | 8 => call("Auth/RoleAdd", &AuthRoleAddRequest { name: role }),
            9 if self.random.chance(1, 3) => {
                call("Auth/RoleDelete", &AuthRoleDeleteRequest { role })
            }
            10 => {
                let (key, range_end) = self.permission_keys();
                let revoke = AuthRoleRevokePermissionRequest {
                    role,
                    key,
                    range_end,
                };
                call("Auth/RoleRevokePermission", &revoke)
            }
            11 => call("Auth/UserGet", &AuthUserGetRequest { name }),
            12 => call("Auth/RoleGet", &AuthRoleGetRequest { role }),
            13 => match self.random.below(12) {
                0 => call("Auth/AuthDisable", &AuthDisableRequest {}),
                1..=4 => call("Auth/AuthEnable", &AuthEnableRequest {}),
                5..=8 => call("Auth/UserList", &AuthUserListRequest {}),
                _ => call("Auth/RoleList", &AuthRoleListRequest {}),
            },
            _ => call("Auth/RoleGrantPermission", &self.grant(role)),
        }
    }

    fn grant(&mut self, name: String) -> AuthRoleGrantPermissionRequest {
        let (key, range_end) = self.permission_keys();
        let permission = Permission {
            perm_type: self.random.below(3) as i32,
            key,
            range_end,
        };
        let perm = Some(permission).filter(|_| !self.random.chance(1, 20));
        AuthRoleGrantPermissionRequest { name, perm }
    }

    /// A key always with the same end (see the top of this file).
    fn permission_keys(&mut self) -> (bytes::Bytes, bytes::Bytes) {
        let place = self.random.below(KEYS.len() as u64) as usize;
        let end = ["c", "", "e", "f", "", "\0", "k", "", "a"][place];
        (KEYS[place].into(), end.into())
    }
}

fn user(name: &str, password: &str, no_password: bool) -> AuthUserAddRequest {
    AuthUserAddRequest {
        name: name.into(),
        password: password.into(),
        options: Some(UserAddOptions { no_password }),
        ..Default::default()
    }
}

/// Everything that can be read with a token, as text.
async fn state(channel: &Channel, token: Option<&str>) -> Vec<String> {
    let mut texts = Vec::new();
    macro_rules! read {
        ($client:ident :: $type:ident . $method:ident ( $request:expr ), $show:expr) => {{
            let mut request = Request::new($request);
            if let Some(token) = token.and_then(|token| token.parse().ok()) {
                request.metadata_mut().insert("token", token);
            }
            let mut client = $client::$type::new(channel.clone());
            texts.push(match client.$method(request).await {
                Ok(answer) => ($show)(answer.into_inner()),
                Err(status) => format!("{:?}: {}", status.code(), status.message()),
            });
        }};
    }
    read!(
        auth_client::AuthClient.auth_status(AuthStatusRequest {}),
        |it: AuthStatusResponse| {
            let revision = it.header.map_or(0, |header| header.revision);
            format!("{} {} at {revision}", it.enabled, it.auth_revision)
        }
    );
    read!(
        auth_client::AuthClient.user_list(AuthUserListRequest {}),
        |it: AuthUserListResponse| { format!("{:?}", it.users) }
    );
    read!(
        auth_client::AuthClient.role_list(AuthRoleListRequest {}),
        |it: AuthRoleListResponse| { format!("{:?}", it.roles) }
    );
    for name in USERS {
        let request = AuthUserGetRequest { name: name.into() };
        read!(
            auth_client::AuthClient.user_get(request),
            |it: AuthUserGetResponse| { format!("{:?}", it.roles) }
        );
    }
    for role in ROLES {
        let request = AuthRoleGetRequest { role: role.into() };
        read!(
            auth_client::AuthClient.role_get(request),
            |it: AuthRoleGetResponse| { format!("{:?}", it.perm) }
        );
    }
    let hash = HashKvRequest { revision: 0 };
    read!(
        maintenance_client::MaintenanceClient.hash_kv(hash),
        |it: HashKvResponse| { format!("{} {}", it.hash, it.hash_revision) }
    );
    texts
}
