//! Values with bytes on the disk that are damaged while the machine runs.

use std::path::Path;

use engine::DamagedVersion;
use environment::{Disk, OpenMode};
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use revisions::{Command, Error};

use crate::store::{Store, bytes, put, range, small};

/// Bytes of the log's record header and the engine's.
const HEADERS: u64 = 12 + 48;
const LOG: &str = "/data/00000001.log";

/// Where the newest record of a key begins in the log's first segment, and its length.
fn record_of(store: &Store, key: &str) -> (u64, u64) {
    let kv = store.reader.get(key.as_bytes(), 0).unwrap().unwrap().0;
    let file = store.disk.open(Path::new(LOG), OpenMode::Read).unwrap();
    let mut content = vec![0; file.size().unwrap() as usize];
    file.read_at(&mut content, 0).unwrap();
    let found = content.windows(kv.len()).position(|part| part == kv);
    let start = found.unwrap() as u64 - HEADERS;
    (start, HEADERS + kv.len() as u64)
}

fn flip(store: &Store, offset: u64) {
    store
        .disk
        .flip_bit(Path::new(LOG), offset, (offset % 8) as u8);
}

/// Damages the last byte of a key's value.
fn damage(store: &Store, key: &str) {
    let (start, length) = record_of(store, key);
    flip(store, start + length - 1);
}

fn filled() -> Store {
    let mut store = Store::new();
    for key in ["a", "b", "c"] {
        store.put(key, "first");
        store.put(key, &format!("second value of {key}"));
    }
    store
}

fn is_damaged(error: &Error, key: &str) -> bool {
    let Error::Storage(error) = error else {
        return false;
    };
    let text = error.to_string();
    error.is_damage()
        && text.contains(&format!("\"{key}\""))
        && text.contains("00000001.log at byte")
}

#[test]
fn a_put_goes_on_from_the_same_version_whatever_byte_of_the_former_record_is_damaged() {
    let mut options = small();
    options.engine.log.segment_bytes = 1 << 20;
    let mut store = Store::with(options);
    store.grant(5, 100).unwrap();
    // Revisions of two bytes in all records that follow.
    (0..130).for_each(|_| drop(store.put("filler", "")));
    let request = |key: &str| PutRequest {
        lease: 5,
        ..put(key, "a value of some length")
    };
    store.try_put(request("model")).unwrap();
    store.try_put(request("model")).unwrap();
    let (_, length) = record_of(&store, "model");
    for byte in 0..length {
        let key = format!("k{byte:04}");
        store.try_put(request(&key)).unwrap();
        store.try_put(request(&key)).unwrap();
        let created = store
            .reader
            .get(key.as_bytes(), 0)
            .unwrap()
            .unwrap()
            .create_revision();
        let (start, its_length) = record_of(&store, &key);
        assert_eq!(its_length, length);
        flip(&store, start + byte);
        let put = PutRequest {
            ignore_lease: true,
            ..put(&key, "another value")
        };
        store.try_put(put).unwrap();
        let now = store.reader.get(key.as_bytes(), 0).unwrap().unwrap();
        let now = now.fields();
        assert_eq!(
            (now.create_revision, now.version, now.lease),
            (created, 3, 5),
            "byte {byte} of {length}"
        );
    }
}

#[test]
fn damage_beside_the_value_is_served_and_written_again() {
    let mut store = Store::new();
    store.put("k", "a value of some length");
    let whole = store.reader.get(b"k", 0).unwrap();
    let (start, _) = record_of(&store, "k");
    for byte in 4..HEADERS {
        flip(&store, start + byte);
        assert_eq!(store.reader.get(b"k", 0).unwrap(), whole, "byte {byte}");
        store.machine.maintain().unwrap();
        assert!(store.reader.engine().damaged_versions().is_empty());
    }
    store.disk.fail_reads(Path::new(LOG), start..start + 8);
    assert!(
        store.reader.get(b"k", 0).is_err(),
        "the sector cannot be read"
    );
}

#[test]
fn only_what_asks_for_a_damaged_value_fails_and_says_which() {
    let mut store = filled();
    damage(&store, "b");
    assert!(is_damaged(&store.get("b", "", 0).unwrap_err(), "b"));
    assert!(is_damaged(&store.get("a", "z", 0).unwrap_err(), "b"));
    let asked = |request| store.reader.range(&request).unwrap();
    let counted = asked(RangeRequest {
        count_only: true,
        ..range("a", "z")
    });
    assert_eq!(counted.count, 3);
    let keys = asked(RangeRequest {
        keys_only: true,
        ..range("a", "z")
    });
    let keys: Vec<_> = keys.kvs.iter().map(|kv| (kv.key(), kv.version())).collect();
    assert_eq!(keys, [(&b"a"[..], 2), (b"b", 2), (b"c", 2)]);
    assert_eq!(asked(range("c", "")).kvs[0].value(), b"second value of c");
    assert_eq!(store.get("b", "", 4).unwrap().kvs[0].value(), b"first");
    let with_previous = PutRequest {
        prev_kv: true,
        ..put("b", "third")
    };
    assert!(is_damaged(&store.try_put(with_previous).unwrap_err(), "b"));
    store.put("b", "third");
    let now = store.get("b", "", 0).unwrap();
    assert_eq!(
        (now.kvs[0].value(), now.kvs[0].version()),
        (&b"third"[..], 3)
    );
}

#[test]
fn conditions_on_numbers_need_no_value_and_conditions_on_values_do() {
    let mut store = filled();
    damage(&store, "b");
    let compare = |target: CompareTarget, union| TxnRequest {
        compare: vec![Compare {
            key: bytes("b"),
            result: CompareResult::Equal as i32,
            target: target as i32,
            target_union: Some(union),
            ..Compare::default()
        }],
        success: vec![RequestOp {
            request: Some(Operation::RequestPut(put("b", "third"))),
        }],
        ..TxnRequest::default()
    };
    let by_value = compare(CompareTarget::Value, TargetUnion::Value(bytes("x")));
    assert!(is_damaged(&store.txn(by_value).unwrap_err(), "b"));
    let by_version = compare(CompareTarget::Version, TargetUnion::Version(2));
    assert!(store.txn(by_version).unwrap().succeeded);
    assert_eq!(store.get("b", "", 0).unwrap().kvs[0].value(), b"third");
}

#[test]
fn a_key_with_a_damaged_value_can_be_deleted() {
    let mut store = filled();
    damage(&store, "b");
    let delete = DeleteRangeRequest {
        key: bytes("b"),
        ..DeleteRangeRequest::default()
    };
    store.run(Command::DeleteRange(delete)).unwrap();
    assert_eq!(store.get("a", "z", 0).unwrap().count, 2);
}

#[test]
fn a_damaged_value_is_written_again_from_another_machine() {
    let (store, other) = (filled(), filled());
    let whole = store.reader.get(b"b", 0).unwrap();
    damage(&store, "b");
    store.get("b", "", 0).unwrap_err();
    let (engine, donor) = (store.reader.engine(), other.reader.engine());
    let [version] = engine.damaged_versions().try_into().unwrap();
    let expected = DamagedVersion {
        key: bytes("b"),
        main: 5,
    };
    assert_eq!(version, expected);
    assert!(
        engine.record_of(&version).is_err(),
        "a damaged one is not given away"
    );
    let another = DamagedVersion {
        main: 4,
        ..version.clone()
    };
    let wrong = donor.record_of(&another).unwrap().unwrap();
    assert!(engine.mend_version(&version, &wrong).is_err());
    let record = donor.record_of(&version).unwrap().unwrap();
    assert!(engine.mend_version(&version, &record).unwrap());
    assert!(
        !engine.mend_version(&version, &record).unwrap(),
        "it is sound"
    );
    assert_eq!(store.reader.get(b"b", 0).unwrap(), whole);
    assert!(engine.damaged_versions().is_empty());
    let reopened = store.reopen();
    assert_eq!(reopened.reader.get(b"b", 0).unwrap(), whole);
}
