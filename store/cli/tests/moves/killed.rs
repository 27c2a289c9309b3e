//! An etcd that was killed: its database file is old, and its log has the rest.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use etcd_api::authpb::Permission;
use etcd_api::etcdserverpb::*;
use harness::MemberConfig;
use tonic::{Code, Request};

use crate::store::{Kind, Store, compare, config, etcd, inkstone, restore};
use crate::{Changes, fill};

/// Keeps everything in the log alone, until etcd takes a snapshot of its own.
const KEEPS_IN_LOG: [&str; 2] = [
    "--backend-batch-interval=1h",
    "--backend-batch-limit=1000000000",
];

fn save(directory: &Path, file: &Path, more: &[&str]) -> Output {
    let mut save = inkstone();
    save.args(["snapshot", "save"]).arg(file);
    save.arg("--data-dir").arg(directory).args(more);
    save.output().unwrap()
}

fn saved(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Adds a user with the role of the same name, which may do everything if that is `root`.
async fn add_user(store: &Store, name: &str) {
    let role = AuthRoleAddRequest { name: name.into() };
    store.users().role_add(role).await.unwrap();
    store.users().user_add(addition(name)).await.unwrap();
    let grant = AuthUserGrantRoleRequest {
        user: name.into(),
        role: name.into(),
    };
    store.users().user_grant_role(grant).await.unwrap();
}

fn addition(name: &str) -> AuthUserAddRequest {
    AuthUserAddRequest {
        name: name.to_owned(),
        password: "secret".to_owned(),
        ..AuthUserAddRequest::default()
    }
}

/// Asks again until there is a leader, which picks the key of tokens.
async fn token_of(store: &Store, name: &str) -> String {
    loop {
        let proof = AuthenticateRequest {
            name: name.into(),
            password: "secret".to_owned(),
        };
        match store.users().authenticate(proof).await {
            Ok(answer) => return answer.into_inner().token,
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn put(key: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: "v".into(),
        ..PutRequest::default()
    }
}

fn as_user<M>(message: M, token: &str) -> Request<M> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert("token", token.parse().unwrap());
    request
}

/// Restores a file to Inkstone, and compares that with the etcd, which is started again.
async fn compare_after_restart(etcd: &mut Store, file: &Path, target: MemberConfig) {
    restore(Kind::Inkstone, file, &target);
    let target = Store::start(Kind::Inkstone, target).await;
    etcd.restart().await;
    compare(etcd, &target).await;
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "files of the tests' own")]
async fn the_directory_of_a_killed_etcd_has_all_that_it_acknowledged() {
    if etcd().is_none() {
        eprintln!("SKIPPED: there is no etcd to kill; `cargo xtask etcd` builds one");
        return;
    }
    for (seed, flags) in [(11, &KEEPS_IN_LOG[..]), (12, &[])] {
        let folder = tempfile::tempdir().unwrap();
        let config_of_source = config("source", folder.path());
        let data = config_of_source.data.clone();
        let mut source = Store::start_with(Kind::Etcd, config_of_source, flags).await;
        fill(&source, seed).await;
        // A compaction would write the database file.
        let mut changes = Changes {
            compacts: false,
            accounts: 1000,
            ..Changes::of_seed(seed + 1)
        };
        changes.make(&source, 400).await;
        // etcd writes this to its log, and then refuses it.
        let refused = PutRequest {
            lease: 4711,
            ..put("refused")
        };
        source.kv().put(refused).await.unwrap_err();
        source.kv().put(put("last")).await.unwrap();
        let file = folder.path().join("killed.db");
        let refused = save(&data, &file, &[]);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(error.contains("a running etcd writes it"), "{error}");
        source.member.kill().unwrap();
        let output = saved(&save(&data, &file, &[]));
        let is_replayed = output.contains("of the write-ahead log were not in member/snap/db")
            && output.contains(" and 1 refused");
        assert!(is_replayed || flags.is_empty(), "{output}");
        // A second time, over the first file, with the log elsewhere.
        let moved = folder.path().join("wal");
        std::fs::rename(data.join("member/wal"), &moved).unwrap();
        let error = save(&data, &file, &[]).stderr;
        assert!(String::from_utf8_lossy(&error).contains("cannot read"));
        let wal_dir = format!("--wal-dir={}", moved.display());
        assert_eq!(saved(&save(&data, &file, &[&wal_dir])), output);
        std::fs::rename(&moved, data.join("member/wal")).unwrap();
        let target = config("target", folder.path());
        compare_after_restart(&mut source, &file, target).await;
    }
}

#[tokio::test]
async fn requests_in_the_log_of_a_killed_etcd_are_those_of_their_users() {
    if etcd().is_none() {
        eprintln!("SKIPPED: there is no etcd to kill; `cargo xtask etcd` builds one");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config_of_source = config("source", folder.path());
    let data = config_of_source.data.clone();
    let mut source = Store::start_with(Kind::Etcd, config_of_source, &KEEPS_IN_LOG).await;
    add_user(&source, "root").await;
    add_user(&source, "alice").await;
    let permission = Permission {
        perm_type: 2,
        key: "a".into(),
        range_end: "b".into(),
    };
    let grant = AuthRoleGrantPermissionRequest {
        name: "alice".into(),
        perm: Some(permission),
    };
    source.users().role_grant_permission(grant).await.unwrap();
    let enable = AuthEnableRequest {};
    source.users().auth_enable(enable).await.unwrap();
    let (root, alice) = (
        token_of(&source, "root").await,
        token_of(&source, "alice").await,
    );
    source.kv().put(as_user(put("a1"), &alice)).await.unwrap();
    source.kv().put(as_user(put("other"), &root)).await.unwrap();
    source.kv().put(as_user(put("a2"), &alice)).await.unwrap();
    source.member.kill().unwrap();

    let file = folder.path().join("killed.db");
    let output = saved(&save(&data, &file, &[]));
    assert!(
        output.contains("3 requests were carried out, and 0 refused"),
        "{output}"
    );
    let target = config("target", folder.path());
    restore(Kind::Inkstone, &file, &target);
    let target = Store::start(Kind::Inkstone, target).await;
    let root = token_of(&target, "root").await;
    for key in ["a1", "other", "a2"] {
        let range = RangeRequest {
            key: key.into(),
            ..RangeRequest::default()
        };
        let found = target.kv().range(as_user(range, &root)).await.unwrap();
        assert_eq!(found.into_inner().count, 1, "{key}");
    }
}

#[tokio::test]
async fn uncommitted_entries_of_a_killed_etcd_are_left_out_unless_they_are_asked_for() {
    if etcd().is_none() {
        eprintln!("SKIPPED: there is no etcd to kill; `cargo xtask etcd` builds one");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config_of_source = config("source", folder.path());
    let data = config_of_source.data.clone();
    let mut source = Store::start(Kind::Etcd, config_of_source).await;
    source.kv().put(put("committed")).await.unwrap();
    let add = MemberAddRequest {
        peer_ur_ls: vec!["http://127.0.0.1:1".into()],
        is_learner: false,
    };
    source.cluster().member_add(add).await.unwrap();
    // From now on a majority has two members, and the second one is never started.
    let mut kv = source.kv();
    let unanswered = kv.put(put("uncommitted"));
    let second = Duration::from_secs(1);
    let answer = tokio::time::timeout(second, unanswered).await;
    assert!(answer.is_err(), "{answer:?}");
    source.member.kill().unwrap();

    let file = folder.path().join("killed.db");
    let output = saved(&save(&data, &file, &[]));
    assert!(
        output.contains("are left out") && output.contains("revision 2\n"),
        "{output}"
    );
    let output = saved(&save(&data, &file, &["--with-uncommitted"]));
    assert!(
        !output.contains("left out") && output.contains("revision 3\n"),
        "{output}"
    );
}
