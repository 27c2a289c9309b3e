//! The service View, over gRPC and over the gateway.

use etcd_api::authpb::Permission;
use etcd_api::authpb::permission::Type;
use etcd_api::etcdserverpb::*;
use etcd_api::inkstonepb::view_client::ViewClient;
use etcd_api::inkstonepb::{ChildrenRequest, ChildrenResponse, OverviewRequest};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::gateway::client::{ask, post};
use crate::gateway::{address, ok};
use crate::serving::{Serving, bytes, put, serving};

async fn children(serving: &Serving, request: ChildrenRequest) -> Result<ChildrenResponse, Status> {
    let mut client = ViewClient::new(serving.channel().await);
    Ok(client.children(request).await?.into_inner())
}

fn folder(prefix: &str) -> ChildrenRequest {
    ChildrenRequest {
        prefix: bytes(prefix),
        ..ChildrenRequest::default()
    }
}

async fn with_keys(words: &[&str], keys: &[&str]) -> Serving {
    let serving = serving(words);
    let mut kv = serving.kv().await;
    for key in keys {
        kv.put(put(key, "1")).await.unwrap();
    }
    serving
}

#[tokio::test]
async fn children_are_the_same_over_grpc_and_json() {
    let serving = with_keys(&[], &["a/1", "a/2", "b"]).await;
    let response = children(&serving, folder("")).await.unwrap();
    let found: Vec<_> = response.children.iter().collect();
    assert_eq!(found.len(), 2);
    assert_eq!(
        (&found[0].name[..], found[0].is_prefix, found[0].count),
        (&b"a/"[..], true, 2)
    );
    assert_eq!((&found[1].name[..], found[1].mod_revision), (&b"b"[..], 4));
    let header = response.header.unwrap();
    assert_eq!((header.revision, response.revision), (4, 4));
    assert_ne!(header.member_id, 0);
    let json = ok(&serving, "/v3/inkstone/children", json!({})).await;
    assert_eq!(json["children"][0]["name"], "YS8=");
    assert_eq!(json["children"][0]["count"], "2");
    assert_eq!(json["children"][0]["bytes"], found[0].bytes.to_string());
    assert_eq!(json["children"][1].get("is_prefix"), None);
    assert_eq!(json["total_count"], "3");
}

#[tokio::test]
async fn names_that_are_no_text_come_as_they_are() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    let name: &[u8] = b"\xff\xfe\0<script>/\x80";
    let request = PutRequest {
        key: bytes::Bytes::from_static(name),
        ..PutRequest::default()
    };
    kv.put(request).await.unwrap();
    let below = ChildrenRequest {
        prefix: bytes::Bytes::from_static(b"\xff"),
        ..ChildrenRequest::default()
    };
    let found = children(&serving, below).await.unwrap();
    assert_eq!(found.children[0].name, &name[..name.len() - 1]);
    assert_eq!(found.total_count, 1);
}

#[tokio::test]
async fn names_of_a_mebibyte_come_one_answer_after_another() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    for letter in ["a", "b", "c"] {
        kv.put(put(&letter.repeat(1 << 20), "1")).await.unwrap();
    }
    let (mut request, mut found) = (folder(""), Vec::new());
    loop {
        let client = ViewClient::new(serving.channel().await);
        let mut client = client.max_decoding_message_size(8 << 20);
        let response = client.children(request.clone()).await.unwrap().into_inner();
        found.extend(response.children.into_iter().map(|child| child.name[0]));
        if response.next.is_empty() {
            break;
        }
        request.from = response.next;
    }
    assert_eq!(found, b"abc");
}

#[tokio::test]
async fn revisions_and_separators_that_cannot_be_are_refused() {
    let serving = with_keys(&[], &["a", "b", "c"]).await;
    let compact = CompactionRequest {
        revision: 3,
        physical: true,
    };
    serving.kv().await.compact(compact).await.unwrap();
    let at = |revision| ChildrenRequest {
        revision,
        ..folder("")
    };
    for (revision, text) in [
        (2, "etcdserver: mvcc: required revision has been compacted"),
        (
            9,
            "etcdserver: mvcc: required revision is a future revision",
        ),
    ] {
        let refused = children(&serving, at(revision)).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.message()),
            (Code::OutOfRange, text)
        );
    }
    assert_eq!(children(&serving, at(3)).await.unwrap().total_count, 2);
    let long = ChildrenRequest {
        separator: "/".repeat(65),
        ..folder("")
    };
    let refused = children(&serving, long).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_past_revision_shows_the_tree_as_it_was() {
    let serving = with_keys(&[], &["a/1", "a/2", "b/1"]).await;
    let delete = DeleteRangeRequest {
        key: bytes("a/"),
        range_end: bytes("a0"),
        ..DeleteRangeRequest::default()
    };
    serving.kv().await.delete_range(delete).await.unwrap();
    let counts = async |revision| {
        let request = ChildrenRequest {
            revision,
            ..folder("")
        };
        let response = children(&serving, request).await.unwrap();
        let children = response.children.into_iter();
        children.map(|child| child.count).collect::<Vec<_>>()
    };
    assert_eq!(counts(2).await, [1]);
    assert_eq!(counts(4).await, [2, 1]);
    assert_eq!(counts(0).await, [1]);
}

#[tokio::test]
async fn an_overview_has_the_figures_that_the_metrics_have() {
    let serving = with_keys(&[], &["a", "b"]).await;
    let mut client = ViewClient::new(serving.channel().await);
    let overview = client
        .overview(OverviewRequest {})
        .await
        .unwrap()
        .into_inner();
    let (store, load, process) = (
        overview.store.unwrap(),
        overview.load.unwrap(),
        overview.process.unwrap(),
    );
    assert_eq!(
        (store.revision, store.keys, store.compacted_revision),
        (3, 2, 0)
    );
    assert_eq!((load.puts, store.quota_bytes), (2, 2 << 30));
    assert!(load.flushes > 0 && load.flush_seconds > 0.0);
    assert!(
        load.flush_buckets
            .is_sorted_by(|one, other| one.count <= other.count)
    );
    assert!(process.resident_memory_bytes.unwrap() > 0);
    assert!(store.disk_total_bytes >= store.disk_free_bytes);
    let [member] = &overview.members[..] else {
        panic!("{:?}", overview.members)
    };
    assert!(member.is_self && member.is_leader && member.is_connected && !member.is_learner);
    assert_eq!(member.matched_index, Some(store.raft_index));
    assert!(overview.alarms.is_empty() && overview.errors.is_empty());
}

async fn token(serving: &Serving, name: &str) -> String {
    let body = json!({"name": name, "password": "secret"});
    let answer = ok(serving, "/v3/auth/authenticate", body).await;
    answer["token"].as_str().unwrap().to_owned()
}

/// A server with the users `root` and `alice`; `alice` may read below `a/`.
async fn with_users() -> Serving {
    let serving = with_keys(&["--bcrypt-cost=4"], &["a/1", "a/b/2", "a/b/3", "z/1"]).await;
    let permission = Permission {
        perm_type: Type::Read as i32,
        key: bytes("a/"),
        range_end: bytes("a0"),
    };
    let mut auth = auth_client::AuthClient::new(serving.channel().await);
    for (name, role) in [("root", "root"), ("alice", "r")] {
        let user = AuthUserAddRequest {
            name: name.into(),
            password: "secret".into(),
            ..AuthUserAddRequest::default()
        };
        auth.user_add(user).await.unwrap();
        auth.role_add(AuthRoleAddRequest { name: role.into() })
            .await
            .unwrap();
        let (user, role) = (name.into(), role.into());
        auth.user_grant_role(AuthUserGrantRoleRequest { user, role })
            .await
            .unwrap();
    }
    let grant = AuthRoleGrantPermissionRequest {
        name: "r".into(),
        perm: Some(permission),
    };
    auth.role_grant_permission(grant).await.unwrap();
    auth.auth_enable(AuthEnableRequest {}).await.unwrap();
    serving
}

async fn as_user(serving: &Serving, token: &str, path: &str, body: Value) -> (u16, Value) {
    let lines = format!("Authorization: {token}\r\n");
    let mut answer = ask(address(serving), "POST", path, &lines, &body.to_string()).await;
    let text = answer.rest().await;
    (answer.status, serde_json::from_str(&text).unwrap())
}

#[tokio::test]
async fn without_a_token_the_page_is_served_and_its_calls_are_not() {
    let serving = with_users().await;
    let page = crate::http::get(&serving, "/ui/").await;
    assert_eq!(page.status, 200);
    let key = json!({"key": "YS8x"}).to_string();
    for (path, body) in [
        ("/v3/inkstone/children", "{}"),
        ("/v3/inkstone/overview", "{}"),
        ("/v3/kv/range", &key[..]),
        ("/v3/cluster/member/list", "{}"),
        ("/v3/lease/leases", "{}"),
        ("/v3/auth/user/list", "{}"),
        ("/v3/maintenance/snapshot", "{}"),
    ] {
        let (status, text) = post(address(&serving), path, body).await;
        assert_eq!(status, 400, "{path}: {text}");
        assert!(
            text.contains("etcdserver: user name is empty"),
            "{path}: {text}"
        );
    }
    let (status, _) = as_user(&serving, "forged.1", "/v3/inkstone/children", json!({})).await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn a_user_sees_the_children_and_counts_of_permitted_prefixes_only() {
    let serving = with_users().await;
    let token = token(&serving, "alice").await;
    let below = |prefix| {
        as_user(
            &serving,
            &token,
            "/v3/inkstone/children",
            json!({"prefix": prefix}),
        )
    };
    let (status, answer) = below("YS8=").await;
    assert_eq!((status, &answer["total_count"]), (200, &json!("3")));
    assert_eq!(answer["children"][1]["count"], "2");
    let (status, answer) = below("YS9iLw==").await;
    assert_eq!((status, &answer["total_count"]), (200, &json!("2")));
    for prefix in ["", "YQ==", "eg==", "ei8=", "YjE="] {
        let (status, answer) = below(prefix).await;
        assert_eq!(status, 403, "{prefix:?}: {answer}");
        assert_eq!(answer["message"], "etcdserver: permission denied");
        assert_eq!(answer.get("total_count"), None);
    }
    let (status, _) = as_user(&serving, &token, "/v3/inkstone/overview", json!({})).await;
    assert_eq!(status, 200, "as Maintenance.Status");
}

#[tokio::test]
async fn a_user_sees_the_part_of_a_prefix_that_a_range_permits() {
    let serving = with_users().await;
    let token = token(&serving, "alice").await;
    let within = |key: &str, end: &str| {
        let body = json!({"prefix": "YQ==", "key": key, "range_end": end});
        as_user(&serving, &token, "/v3/inkstone/children", body)
    };
    // From "a/" to "a0", and from "a/1" to "a/b/3".
    let (status, answer) = within("YS8=", "YTA=").await;
    assert_eq!((status, &answer["total_count"]), (200, &json!("3")));
    assert_eq!(answer["children"][0]["name"], "YS8=");
    let (status, answer) = within("YS8x", "YS9iLzM=").await;
    assert_eq!((status, &answer["total_count"]), (200, &json!("2")));
    assert_eq!(answer["children"][0]["count"], "2");
    // To "a1", without an end, and from "Z".
    for (key, end) in [("YS8=", "YTE="), ("YS8=", ""), ("Wg==", "YTA=")] {
        let (status, answer) = within(key, end).await;
        assert_eq!(status, 403, "{key} {end}: {answer}");
    }
    // From "b", to "a", and from "a/b" to "a/b".
    for (key, end) in [("Yg==", ""), ("YS8=", "YQ=="), ("YS9i", "YS9i")] {
        let (status, answer) = within(key, end).await;
        assert_eq!(status, 400, "{key} {end}: {answer}");
        assert_eq!(
            answer["message"],
            "inkstone: the range has no key of the prefix"
        );
    }
}

#[tokio::test]
async fn a_beginning_elsewhere_does_not_widen_a_permission() {
    let serving = with_users().await;
    let token = token(&serving, "alice").await;
    let body = json!({"prefix": "YS8=", "from": "ei8="});
    let (status, answer) = as_user(&serving, &token, "/v3/inkstone/children", body).await;
    assert_eq!((status, answer.get("children")), (200, None));
    let root = self::token(&serving, "root").await;
    let (status, answer) = as_user(&serving, &root, "/v3/inkstone/children", json!({})).await;
    assert_eq!((status, &answer["total_count"]), (200, &json!("4")));
}
