//! The service Auth, and the permissions of all others.

use etcd_api::Error;
use etcd_api::authpb::permission::Type;
use etcd_api::authpb::{Permission, UserAddOptions};
use etcd_api::etcdserverpb::auth_client::AuthClient;
use etcd_api::etcdserverpb::lease_client::LeaseClient;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::*;
use prost::Message;
use tokio::task::JoinSet;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::serving::{Serving, bytes, get, put, serving};

/// A client with or without a token.
struct As {
    channel: Channel,
    token: Option<String>,
}

impl As {
    async fn anyone(serving: &Serving) -> As {
        As {
            channel: serving.channel().await,
            token: None,
        }
    }

    async fn user(serving: &Serving, name: &str, password: &str) -> As {
        let token = authenticate(serving, name, password).await.unwrap();
        As::token(serving, token).await
    }

    async fn token(serving: &Serving, token: String) -> As {
        As {
            channel: serving.channel().await,
            token: Some(token),
        }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            let metadata = request.metadata_mut();
            metadata.insert("token", token.parse().unwrap());
        }
        request
    }

    /// Calls any method that answers with one message.
    async fn call<Q, A>(&self, path: &str, message: Q) -> Result<A, Status>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        let path = match path.starts_with("inkstonepb.") {
            true => format!("/{path}"),
            false => format!("/etcdserverpb.{path}"),
        };
        let path = PathAndQuery::try_from(path).unwrap();
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(self.request(message), path, codec).await?;
        Ok(answer.into_inner())
    }

    /// The text with which a call is refused; `ok` if it is not.
    async fn refusal<Q: Message + Default + 'static>(&self, path: &str, message: Q) -> String {
        match self.call::<Q, AuthEnableResponse>(path, message).await {
            Ok(_) => "ok".to_owned(),
            Err(status) => status.message().to_owned(),
        }
    }

    async fn put(&self, key: &str) -> String {
        self.refusal("KV/Put", put(key, "1")).await
    }

    async fn get(&self, key: &str) -> String {
        self.refusal("KV/Range", get(key)).await
    }

    async fn user_add(&self, name: &str, password: &str) -> String {
        let request = AuthUserAddRequest {
            name: name.into(),
            password: password.into(),
            ..Default::default()
        };
        self.refusal("Auth/UserAdd", request).await
    }

    async fn user_grant(&self, user: &str, role: &str) -> String {
        let (user, role) = (user.into(), role.into());
        let request = AuthUserGrantRoleRequest { user, role };
        self.refusal("Auth/UserGrantRole", request).await
    }

    async fn role_grant(&self, role: &str, kind: Type, key: &str, range_end: &str) -> String {
        let name = role.to_owned();
        self.refusal("Auth/RoleAdd", AuthRoleAddRequest { name: name.clone() })
            .await;
        let permission = Permission {
            perm_type: kind as i32,
            key: bytes(key),
            range_end: bytes(range_end),
        };
        let perm = Some(permission);
        let request = AuthRoleGrantPermissionRequest { name, perm };
        self.refusal("Auth/RoleGrantPermission", request).await
    }

    async fn change_password(&self, name: &str, password: &str) -> String {
        let request = AuthUserChangePasswordRequest {
            name: name.into(),
            password: password.into(),
            ..Default::default()
        };
        self.refusal("Auth/UserChangePassword", request).await
    }
}

async fn authenticate(serving: &Serving, name: &str, password: &str) -> Result<String, Status> {
    let mut client = AuthClient::new(serving.channel().await);
    let request = AuthenticateRequest {
        name: name.into(),
        password: password.into(),
    };
    Ok(client.authenticate(request).await?.into_inner().token)
}

const EMPTY: &str = "etcdserver: user name is empty";
const DENIED: &str = "etcdserver: permission denied";
const INVALID: &str = "etcdserver: invalid auth token";

/// A server with the users `root` and `alice`; the role of `alice` permits `a` to `b`.
async fn with_users(words: &[&str]) -> Serving {
    let words = [&["--bcrypt-cost=4"], words].concat();
    let serving = serving(&words);
    let anyone = As::anyone(&serving).await;
    for outcome in [
        anyone.user_add("root", "toor").await,
        anyone.user_grant("root", "root").await,
        anyone.user_add("alice", "secret").await,
        anyone.role_grant("r", Type::Readwrite, "a", "b").await,
        anyone.user_grant("alice", "r").await,
        anyone.put("a").await,
        anyone.put("z").await,
        anyone
            .refusal("Auth/AuthEnable", AuthEnableRequest {})
            .await,
    ] {
        assert_eq!(outcome, "ok");
    }
    serving
}

#[tokio::test]
async fn users_reach_what_their_roles_permit_and_nothing_else() {
    let serving = with_users(&[]).await;
    let alice = As::user(&serving, "alice", "secret").await;
    assert_eq!(alice.put("a1").await, "ok");
    assert_eq!(alice.get("a1").await, "ok");
    assert_eq!(alice.put("b").await, DENIED);
    assert_eq!(alice.get("z").await, DENIED);
    let open = RangeRequest {
        range_end: bytes("\0"),
        ..get("a")
    };
    assert_eq!(alice.refusal("KV/Range", open).await, DENIED);
    let root = As::user(&serving, "root", "toor").await;
    assert_eq!(root.put("b").await, "ok");
    assert_eq!(root.get("z").await, "ok");
    let anyone = As::anyone(&serving).await;
    assert_eq!(anyone.put("a").await, EMPTY);
    assert_eq!(anyone.get("a").await, EMPTY);
}

/// CVE-2026-33413 and its kin: calls that forgot to ask for an identity.
#[tokio::test]
async fn no_call_but_the_open_ones_is_served_without_an_identity() {
    let serving = with_users(&[]).await;
    let anyone = As::anyone(&serving).await;
    for path in [
        "KV/Compact",
        "Lease/LeaseGrant",
        "Lease/LeaseRevoke",
        "Lease/LeaseTimeToLive",
        "Lease/LeaseLeases",
        "Cluster/MemberList",
        "Cluster/MemberRemove",
        "Cluster/MemberUpdate",
        "Cluster/MemberPromote",
        "Maintenance/Alarm",
        "Maintenance/Status",
        "Maintenance/Defragment",
        "Maintenance/Hash",
        "Maintenance/HashKV",
        "Maintenance/MoveLeader",
        "Maintenance/Downgrade",
        "Maintenance/Snapshot",
        "inkstonepb.Follow/Change",
        "inkstonepb.Follow/Source",
        "inkstonepb.Snapshots/Compressed",
        "inkstonepb.View/Overview",
        "Auth/AuthEnable",
        "Auth/AuthDisable",
        "Auth/UserAdd",
        "Auth/UserList",
        "Auth/UserDelete",
        "Auth/UserChangePassword",
        "Auth/UserGrantRole",
        "Auth/UserRevokeRole",
        "Auth/RoleAdd",
        "Auth/RoleGet",
        "Auth/RoleList",
        "Auth/RoleDelete",
        "Auth/RoleGrantPermission",
        "Auth/RoleRevokePermission",
    ] {
        assert_eq!(
            anyone.refusal(path, AuthStatusRequest {}).await,
            EMPTY,
            "{path}"
        );
    }
    let urls = MemberAddRequest {
        peer_ur_ls: vec!["http://a:1".into()],
        is_learner: true,
    };
    assert_eq!(anyone.refusal("Cluster/MemberAdd", urls).await, EMPTY);
    let delete = DeleteRangeRequest {
        key: bytes("a"),
        ..Default::default()
    };
    assert_eq!(anyone.refusal("KV/DeleteRange", delete).await, EMPTY);
    let of_stranger = anyone
        .refusal("Auth/UserGet", AuthUserGetRequest { name: "x".into() })
        .await;
    assert_eq!(of_stranger, EMPTY);
    let reads = TxnRequest {
        success: vec![RequestOp {
            request: Some(request_op::Request::RequestRange(get("a"))),
        }],
        ..Default::default()
    };
    assert_eq!(anyone.refusal("KV/Txn", reads).await, EMPTY);
    assert_eq!(
        anyone
            .refusal("Auth/AuthStatus", AuthStatusRequest {})
            .await,
        "ok"
    );
}

#[tokio::test]
async fn calls_of_administrators_are_refused_to_users() {
    let serving = with_users(&[]).await;
    let alice = As::user(&serving, "alice", "secret").await;
    for path in [
        "KV/Compact",
        "Cluster/MemberRemove",
        "Cluster/MemberUpdate",
        "Cluster/MemberPromote",
        "Maintenance/Defragment",
        "Maintenance/Hash",
        "Maintenance/HashKV",
        "Maintenance/MoveLeader",
        "Maintenance/Downgrade",
        "Maintenance/Snapshot",
        "inkstonepb.Follow/Change",
        "inkstonepb.Follow/Source",
        "inkstonepb.Snapshots/Compressed",
        "Auth/AuthEnable",
        "Auth/AuthDisable",
        "Auth/UserAdd",
        "Auth/UserList",
        "Auth/UserDelete",
        "Auth/UserChangePassword",
        "Auth/UserGrantRole",
        "Auth/UserRevokeRole",
        "Auth/RoleAdd",
        "Auth/RoleGet",
        "Auth/RoleList",
        "Auth/RoleDelete",
        "Auth/RoleGrantPermission",
        "Auth/RoleRevokePermission",
    ] {
        assert_eq!(
            alice.refusal(path, AuthStatusRequest {}).await,
            DENIED,
            "{path}"
        );
    }
    for path in [
        "Cluster/MemberList",
        "Maintenance/Status",
        "Maintenance/Alarm",
        "Lease/LeaseLeases",
    ] {
        assert_eq!(
            alice.refusal(path, AuthStatusRequest {}).await,
            "ok",
            "{path}"
        );
    }
    let raise = AlarmRequest {
        action: alarm_request::AlarmAction::Activate as i32,
        alarm: AlarmType::Nospace as i32,
        ..Default::default()
    };
    assert_eq!(alice.refusal("Maintenance/Alarm", raise).await, DENIED);
    for (name, refusal) in [("alice", "ok"), ("root", DENIED), ("none", DENIED)] {
        let request = AuthUserGetRequest { name: name.into() };
        assert_eq!(
            alice.refusal("Auth/UserGet", request).await,
            refusal,
            "{name}"
        );
    }
    for (role, refusal) in [("r", "ok"), ("root", DENIED)] {
        let request = AuthRoleGetRequest { role: role.into() };
        assert_eq!(
            alice.refusal("Auth/RoleGet", request).await,
            refusal,
            "{role}"
        );
    }
}

#[tokio::test]
async fn a_bad_token_is_refused_whatever_the_call() {
    let serving = with_users(&[]).await;
    let good = authenticate(&serving, "alice", "secret").await.unwrap();
    let mut changed = good.clone().into_bytes();
    changed[20] ^= 1;
    let changed = String::from_utf8(changed).unwrap();
    for bad in ["", "x", &good[1..], &changed, "aaaaaaaaaaaaaaaa.12"] {
        let caller = As::token(&serving, bad.to_owned()).await;
        for path in [
            "Maintenance/Status",
            "Auth/UserList",
            "Auth/AuthStatus",
            "Lease/LeaseLeases",
        ] {
            let refused = caller
                .call::<_, AuthStatusResponse>(path, AuthStatusRequest {})
                .await;
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), Code::Unauthenticated, "{path} {bad}");
            assert_eq!(refused.message(), INVALID, "{path} {bad}");
        }
        assert_eq!(caller.put("a").await, INVALID);
        assert_eq!(caller.get("a").await, INVALID);
    }
    let bearer = As::token(&serving, format!("Bearer {good}")).await;
    assert_eq!(bearer.get("a").await, "ok");
}

#[tokio::test]
async fn a_token_outlives_a_restart_and_ends_with_its_password() {
    let mut serving = with_users(&[]).await;
    let token = authenticate(&serving, "alice", "secret").await.unwrap();
    let root = authenticate(&serving, "root", "toor").await.unwrap();
    serving.stop();
    serving.start();
    let alice = As::token(&serving, token.clone()).await;
    let root = As::token(&serving, root).await;
    assert_eq!(alice.get("a").await, "ok");
    // Changes of others, and of its roles, do not end it.
    assert_eq!(root.user_add("bob", "b").await, "ok");
    assert_eq!(root.user_grant("bob", "r").await, "ok");
    assert_eq!(alice.get("a").await, "ok");
    assert_eq!(root.change_password("alice", "other").await, "ok");
    assert_eq!(alice.get("a").await, INVALID);
    assert!(authenticate(&serving, "alice", "secret").await.is_err());
    let alice = As::user(&serving, "alice", "other").await;
    assert_eq!(alice.get("a").await, "ok");
    let name = "alice".to_owned();
    let deleted = root
        .refusal("Auth/UserDelete", AuthUserDeleteRequest { name })
        .await;
    assert_eq!(deleted, "ok");
    assert_eq!(alice.get("a").await, INVALID);
    // A user of the same name is another one.
    assert_eq!(root.user_add("alice", "other").await, "ok");
    assert_eq!(alice.get("a").await, INVALID);
}

#[tokio::test]
async fn switching_users_off_opens_everything_and_ends_all_tokens() {
    let mut serving = with_users(&[]).await;
    let root = As::user(&serving, "root", "toor").await;
    let anyone = As::anyone(&serving).await;
    assert_eq!(
        root.refusal("Auth/AuthDisable", AuthDisableRequest {})
            .await,
        "ok"
    );
    assert_eq!(anyone.put("z").await, "ok");
    let refused = authenticate(&serving, "root", "toor").await.unwrap_err();
    assert_eq!(refused.message(), Error::AuthNotEnabled.message());
    assert_eq!(
        anyone
            .refusal("Auth/AuthEnable", AuthEnableRequest {})
            .await,
        "ok"
    );
    assert_eq!(root.get("a").await, INVALID);
    serving.stop();
    serving.start();
    let anyone = As::anyone(&serving).await;
    assert_eq!(
        anyone.put("a").await,
        EMPTY,
        "users are still checked after a restart"
    );
    assert_eq!(
        As::user(&serving, "root", "toor").await.put("a").await,
        "ok"
    );
}

#[tokio::test]
async fn logins_are_refused_in_etcds_words() {
    let serving = with_users(&[]).await;
    let root = As::user(&serving, "root", "toor").await;
    let bot = AuthUserAddRequest {
        name: "bot".into(),
        password: "ignored".into(),
        options: Some(UserAddOptions { no_password: true }),
        ..Default::default()
    };
    assert_eq!(root.refusal("Auth/UserAdd", bot).await, "ok");
    let failed = (Code::InvalidArgument, Error::AuthFailed.message());
    let no_password = "auth: authentication failed, password was given for no password user";
    let cut = "x".repeat(73);
    for (name, password, refusal) in [
        ("alice", "wrong", failed),
        ("alice", "", failed),
        ("stranger", "secret", failed),
        ("alice", &cut, failed),
        ("bot", "ignored", (Code::Unknown, no_password)),
    ] {
        let refused = authenticate(&serving, name, password).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.message()),
            refusal,
            "{name} {password}"
        );
    }
    let long = root.user_add("long", &cut).await;
    assert_eq!(long, "bcrypt: password length exceeds 72 bytes");
    assert_eq!(root.user_add("empty", "").await, "ok");
    assert!(authenticate(&serving, "empty", "").await.is_ok());
}

/// CVE-2021-28235.
#[tokio::test]
async fn no_password_is_in_the_data_directory() {
    let mut serving = with_users(&[]).await;
    let root = As::user(&serving, "root", "toor").await;
    for (name, no_password) in [("carol", false), ("bot", true)] {
        let add = AuthUserAddRequest {
            name: name.into(),
            password: "open-sesame".into(),
            options: Some(UserAddOptions { no_password }),
            ..Default::default()
        };
        assert_eq!(root.refusal("Auth/UserAdd", add).await, "ok");
    }
    assert_eq!(root.change_password("bot", "open-sesame-2").await, "ok");
    authenticate(&serving, "carol", "open-sesame")
        .await
        .unwrap();
    serving.stop();
    let mut directories = vec![serving.directory().to_owned()];
    let mut hashes = 0;
    while let Some(directory) = directories.pop() {
        #[expect(
            clippy::disallowed_methods,
            reason = "the test looks at the server's files"
        )]
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let has = |text: &[u8]| bytes.windows(text.len()).any(|it| it == text);
            assert!(!has(b"open-sesame"), "{}", path.display());
            hashes += usize::from(has(b"$2a$04$"));
        }
    }
    assert!(hashes > 0, "the hashes are in some file");
}

#[tokio::test]
async fn a_watch_that_is_not_permitted_is_created_and_canceled() {
    let serving = with_users(&[]).await;
    let alice = As::user(&serving, "alice", "secret").await;
    let anyone = As::anyone(&serving).await;
    let stranger = As::token(&serving, "stranger".to_owned()).await;
    let text = |code: &str, text: &str| format!("rpc error: code = {code} desc = {text}");
    let denied = || text("PermissionDenied", DENIED);
    for (caller, key, range_end, reason) in [
        (&alice, "a", "", String::new()),
        (&alice, "a", "b", String::new()),
        (&alice, "z", "", denied()),
        // GHSA-xg4h-6gfc-h4m8: all keys from one on.
        (&alice, "a", "\0", denied()),
        (&alice, "", "", denied()),
        (&anyone, "a", "", text("InvalidArgument", EMPTY)),
        (&stranger, "a", "", text("Unauthenticated", INVALID)),
    ] {
        let mut client = WatchClient::new(caller.channel.clone());
        let create = WatchCreateRequest {
            key: bytes(key),
            range_end: bytes(range_end),
            watch_id: 5,
            ..Default::default()
        };
        let request = WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(create)),
        };
        let requests = tokio_stream::iter([request]);
        let responses = client.watch(caller.request(requests)).await.unwrap();
        let response = responses.into_inner().message().await.unwrap().unwrap();
        assert!(response.created);
        assert_eq!(response.cancel_reason, reason, "{key:?} {range_end:?}");
        assert_eq!(response.canceled, !reason.is_empty());
        assert_eq!(response.watch_id, if reason.is_empty() { 5 } else { -1 });
    }
}

#[tokio::test]
async fn leases_are_guarded_by_their_keys() {
    let serving = with_users(&[]).await;
    let root = As::user(&serving, "root", "toor").await;
    let alice = As::user(&serving, "alice", "secret").await;
    for (id, key) in [(1, "z"), (2, "a")] {
        let grant = LeaseGrantRequest { id, ttl: 600 };
        assert_eq!(root.refusal("Lease/LeaseGrant", grant).await, "ok");
        let put = PutRequest {
            lease: id,
            ..put(key, "1")
        };
        assert_eq!(root.refusal("KV/Put", put).await, "ok");
    }
    let time_to_live = |id, keys| LeaseTimeToLiveRequest { id, keys };
    for (request, refusal) in [
        (time_to_live(1, false), "ok"),
        (time_to_live(1, true), DENIED),
        (time_to_live(2, true), "ok"),
        (time_to_live(3, true), "ok"),
    ] {
        assert_eq!(
            alice.refusal("Lease/LeaseTimeToLive", request).await,
            refusal
        );
    }
    let keep_alive = async |caller: &As, id| {
        let mut client = LeaseClient::new(caller.channel.clone());
        let requests = tokio_stream::iter([LeaseKeepAliveRequest { id }]);
        let answers = client
            .lease_keep_alive(caller.request(requests))
            .await
            .unwrap();
        match answers.into_inner().message().await {
            Ok(answer) => format!("{}", answer.unwrap().ttl),
            Err(status) => status.message().to_owned(),
        }
    };
    assert_eq!(keep_alive(&alice, 1).await, DENIED);
    assert_eq!(keep_alive(&alice, 2).await, "600");
    assert_eq!(keep_alive(&root, 1).await, "600");
    assert_eq!(keep_alive(&As::anyone(&serving).await, 2).await, EMPTY);
    assert_eq!(
        alice
            .refusal("Lease/LeaseLeases", LeaseLeasesRequest {})
            .await,
        DENIED
    );
    assert_eq!(
        root.refusal("Lease/LeaseLeases", LeaseLeasesRequest {})
            .await,
        "ok"
    );
    // CVE-2026-44283: attaching a key to a lease is also the power to end its other keys.
    let attach = PutRequest {
        lease: 1,
        ..put("a", "1")
    };
    assert_eq!(alice.refusal("KV/Put", attach.clone()).await, DENIED);
    let txn = TxnRequest {
        success: vec![RequestOp {
            request: Some(request_op::Request::RequestPut(attach)),
        }],
        ..Default::default()
    };
    assert_eq!(alice.refusal("KV/Txn", txn).await, DENIED);
    assert_eq!(
        alice
            .refusal("Lease/LeaseRevoke", LeaseRevokeRequest { id: 1 })
            .await,
        DENIED
    );
    assert_eq!(
        alice
            .refusal("Lease/LeaseRevoke", LeaseRevokeRequest { id: 2 })
            .await,
        "ok"
    );
}

#[tokio::test]
async fn a_signed_token_ends_with_the_next_change_of_users() {
    let place = tempfile::tempdir().unwrap();
    let key = place.path().join("key");
    #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
    std::fs::write(&key, [0xff; 40]).unwrap();
    let flag = format!(
        "--auth-token=jwt,sign-method=HS256,priv-key={}",
        key.display()
    );
    let serving = with_users(&[&flag]).await;
    let alice = As::user(&serving, "alice", "secret").await;
    assert_eq!(alice.token.as_ref().unwrap().split('.').count(), 3);
    let root = As::user(&serving, "root", "toor").await;
    assert_eq!(alice.put("a").await, "ok");
    assert_eq!(alice.get("a").await, "ok");
    assert_eq!(root.user_add("bob", "b").await, "ok");
    let old = Error::AuthOldRevision.message();
    assert_eq!(alice.put("a").await, old);
    assert_eq!(alice.get("a").await, old);
    // An administrator's revision does not count.
    assert_eq!(root.user_add("carol", "c").await, "ok");
    assert_eq!(root.get("a").await, old);
    assert_eq!(
        As::user(&serving, "alice", "secret").await.get("a").await,
        "ok"
    );
}

#[tokio::test]
async fn without_tokens_no_login_succeeds() {
    let serving = with_users(&["--auth-token="]).await;
    let refused = authenticate(&serving, "root", "toor").await.unwrap_err();
    assert_eq!(refused.message(), Error::AuthFailed.message());
    let anyone = As::token(&serving, "x".to_owned()).await;
    assert_eq!(anyone.get("a").await, INVALID);
}

#[tokio::test]
async fn a_connection_with_too_many_logins_is_refused_and_others_are_served() {
    let serving = with_users(&[]).await;
    let root = As::user(&serving, "root", "toor").await;
    // Each login takes long now.
    let slow = AuthUserChangePasswordRequest {
        name: "alice".into(),
        // OpenWall's vector with a cost of 12 in place of 5: no password matches it.
        hashed_password:
            "JDJhJDEyJENDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQy5FNVlQTzlrbXl1Ukd5aDBYb3VRWWI0WU1KS3Z5T2VX"
                .into(),
        ..Default::default()
    };
    assert_eq!(root.refusal("Auth/UserChangePassword", slow).await, "ok");
    let flood = serving.channel().await;
    let mut logins = JoinSet::new();
    for _ in 0..100 {
        let mut client = AuthClient::new(flood.clone());
        logins.spawn(async move {
            let request = AuthenticateRequest {
                name: "alice".into(),
                password: "x".into(),
            };
            client.authenticate(request).await
        });
    }
    // 64 wait and a few are compared; on a busy machine some are through before the last arrive.
    let mut refused = 0;
    while refused < 20 {
        let login = logins.join_next().await;
        let failed = login.expect("some are refused").unwrap().unwrap_err();
        if failed.message() != Error::AuthFailed.message() {
            assert_eq!(failed.message(), Error::TooManyRequests.message());
            refused += 1;
            assert_eq!(root.get("a").await, "ok");
        }
    }
    assert!(authenticate(&serving, "root", "toor").await.is_ok());
}

#[tokio::test]
async fn auth_status_and_the_metric_have_the_revision() {
    let serving = with_users(&[]).await;
    let anyone = As::anyone(&serving).await;
    let status = anyone.call::<_, AuthStatusResponse>("Auth/AuthStatus", AuthStatusRequest {});
    let status = status.await.unwrap();
    assert!(status.enabled);
    assert_eq!(status.auth_revision, 7);
    assert!(status.header.unwrap().revision > 0);
}
