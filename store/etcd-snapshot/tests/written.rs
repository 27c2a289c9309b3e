//! Files that are written here, read back.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "files of the tests' own")]

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::authpb::permission::Type;
use etcd_api::authpb::{Permission, Role, User, UserAddOptions};
use etcd_api::etcdserverpb::{AlarmMember, Member};
use etcd_api::mvccpb::KeyValue;
use etcd_snapshot::{FileState, LeaseRecord, RowKey, SnapshotPlan, hash, open, status};
use prost::Message;

fn state() -> FileState {
    let lease = |id, ttl_seconds| LeaseRecord { id, ttl_seconds };
    let member = |id, is_learner| Member {
        id,
        name: format!("m{id}"),
        peer_ur_ls: vec!["http://127.0.0.1:2380".to_owned()],
        client_ur_ls: Vec::new(),
        is_learner,
    };
    let permission = Permission {
        perm_type: Type::Readwrite as i32,
        key: "a".into(),
        range_end: "b".into(),
    };
    FileState {
        compacted: 3,
        index: 77,
        term: 2,
        leases: vec![lease(7, 60), lease(i64::MAX, 5), lease(-3, 9)],
        alarms: vec![AlarmMember {
            member_id: 9,
            alarm: 1,
        }],
        members: vec![member(1, false), member(u64::MAX, true)],
        removed_members: vec![0xabc],
        has_auth: true,
        auth_revision: 12,
        users: vec![User {
            name: "root".into(),
            password: "$2a$10$x".into(),
            roles: vec!["r".to_owned(), "root".to_owned()],
            options: Some(UserAddOptions { no_password: true }),
        }],
        roles: vec![Role {
            name: "r".into(),
            key_permission: vec![permission],
        }],
        downgrade: Some("3.6.0".to_owned()),
    }
}

fn rows(count: i64) -> Vec<(RowKey, Bytes)> {
    let mut random = Random::from_seed(5);
    let mut row = |number: i64| {
        let is_deletion = number % 7 == 6;
        let key = RowKey {
            main: 2 + number / 2,
            sub: number % 2,
            is_deletion,
        };
        let mut value = vec![0; random.below(700) as usize];
        random.fill(&mut value);
        let stored = KeyValue {
            key: format!("key/{}", number % 50).into(),
            value: if is_deletion {
                Bytes::new()
            } else {
                value.into()
            },
            ..KeyValue::default()
        };
        (key, Bytes::from(stored.encode_to_vec()))
    };
    (0..count).map(&mut row).collect()
}

/// The file in a folder of its own.
fn written(state: &FileState, rows: &[(RowKey, Bytes)]) -> (tempfile::TempDir, bolt::DatabaseFile) {
    let sizes = rows
        .iter()
        .map(|(key, value)| Ok::<_, ()>((*key, value.len())));
    let plan = SnapshotPlan::new(state, sizes).unwrap();
    let mut bytes = Vec::new();
    let versions = rows.iter().map(|(key, value)| Ok((*key, value.clone())));
    let output = &mut |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        Ok::<(), ()>(())
    };
    assert!(plan.write(versions, output).unwrap());
    assert_eq!(bytes.len() as u64, plan.file_bytes());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written.db");
    std::fs::write(&path, bytes).unwrap();
    let file = open(&path, false, |_, _| ()).unwrap();
    (folder, file)
}

#[test]
fn state_and_versions_come_back() {
    for count in [0, 1, 5_000] {
        let state = state();
        let (_folder, file) = written(&state, &rows(count));
        assert_eq!(FileState::read(&file).unwrap(), state);
        let status = status(&file, |_| ()).unwrap();
        assert_eq!(status.version, etcd_api::STORAGE_VERSION);
        if count > 0 {
            assert_eq!(status.revision, 2 + (count - 1) / 2);
            hash(&file, 0, |_| ()).unwrap();
        }
    }
}

#[test]
fn a_store_without_anything_comes_back() {
    let (_folder, file) = written(&FileState::default(), &[]);
    assert_eq!(FileState::read(&file).unwrap(), FileState::default());
    assert_eq!(status(&file, |_| ()).unwrap().keys, 0);
}

#[test]
fn the_first_error_of_the_rows_ends_the_writing() {
    let rows = rows(3);
    let sizes = rows
        .iter()
        .map(|(key, value)| Ok::<_, &str>((*key, value.len())));
    let plan = SnapshotPlan::new(&FileState::default(), sizes).unwrap();
    let broken = std::iter::once(Err("compacted"));
    assert_eq!(plan.write(broken, &mut |_| Ok(())), Err("compacted"));
    let failed = SnapshotPlan::new(&FileState::default(), std::iter::once(Err("no record")));
    assert_eq!(failed.map(|_| ()), Err("no record"));
}
