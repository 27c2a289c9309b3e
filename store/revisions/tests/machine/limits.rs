//! What refuses a command: the quota, a version that cannot be read, and the bounds on what
//! one command reads and deletes.

use std::path::Path;

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{
    AlarmRequest, AlarmType, Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp,
    TxnRequest,
};
use revisions::{Command, Error, Options};

use crate::store::{Store, bytes, put, range, small};

fn disarm(store: &mut Store) {
    let request = AlarmRequest {
        action: 2,
        member_id: 7,
        alarm: AlarmType::Nospace as i32,
    };
    store.run(Command::Alarm(request)).unwrap();
}

#[test]
fn a_full_store_refuses_puts_until_it_is_emptied_and_disarmed() {
    let mut store = Store::with(Options {
        quota_bytes: Some(200_000),
        ..small()
    });
    let value = "x".repeat(4096);
    let mut puts = 0;
    while store.try_put(put("key", &value)).is_ok() {
        puts += 1;
        assert!(puts < 100, "the quota never came");
    }
    assert!(puts > 10, "{puts} puts of 4 KiB fit");
    assert_eq!(store.reader.alarms().len(), 1);
    assert_eq!(store.reader.alarms()[0].member_id, 7);

    // Reading, deleting and compacting go on.
    assert_eq!(store.get("key", "", 0).unwrap().count, 1);
    let revision = store.delete("key", "").header.unwrap().revision;
    assert!(matches!(
        store.try_put(put("key", "1")),
        Err(Error::Etcd(Refusal::NoSpace))
    ));
    store.compact(revision).unwrap();
    store.machine.begin_defragmentation();
    while store.machine.is_defragmenting() {
        store.machine.maintain().unwrap();
        std::thread::yield_now();
    }
    assert!(
        store.reader.quota().0 < 100_000,
        "{:?}",
        store.reader.quota()
    );
    disarm(&mut store);
    store.put("key", "1");
}

#[test]
fn disarming_without_making_room_raises_the_alarm_again() {
    let mut store = Store::with(Options {
        quota_bytes: Some(1),
        ..small()
    });
    assert!(matches!(
        store.try_put(put("key", "1")),
        Err(Error::Etcd(Refusal::NoSpace))
    ));
    disarm(&mut store);
    assert!(store.reader.alarms().is_empty());
    assert!(store.try_put(put("key", "1")).is_err());
    assert_eq!(store.reader.alarms().len(), 1);
    assert_eq!(store.reader.revision(), 1, "nothing was written");
}

#[test]
fn no_quota_no_alarm() {
    let mut store = Store::with(Options {
        quota_bytes: None,
        ..small()
    });
    store.put("key", &"x".repeat(10_000));
    assert_eq!(store.reader.quota().1, None);
}

#[test]
fn reading_ahead_changes_nothing() {
    let mut store = Store::new();
    store.put("a", "1");
    assert!(store.reader.warm(&Command::Put(put("a", "2")), 0));
    assert_eq!(store.reader.revision(), 2);
}

#[test]
fn what_a_command_will_read_is_known_before_a_record_is_read() {
    let mut store = Store::new();
    for number in 0..20 {
        store.put(&format!("big/{number:02}"), &"x".repeat(10_000));
    }
    let all = || range("big/", "big0");
    let count = RangeRequest {
        count_only: true,
        ..all()
    };
    let reads_above = |operations, bytes_max| {
        let command = Command::Txn(txn(operations));
        store.reader.reads_above(&command, bytes_max)
    };
    let read = || vec![Operation::RequestRange(all())];
    assert!(reads_above(read(), 100 << 10));
    assert!(!reads_above(read(), 300 << 10));
    assert!(
        reads_above([read(), read()].concat(), 300 << 10),
        "added up"
    );
    assert!(!reads_above(
        vec![Operation::RequestRange(count)],
        100 << 10
    ));
}

#[test]
fn a_put_over_a_version_that_cannot_be_read_is_refused_and_changes_nothing() {
    let mut store = Store::new();
    store.put("bad", "before");
    store.disk.evict_clean_pages();
    store
        .disk
        .fail_reads(Path::new("/data/00000001.log"), 0..64 << 10);
    let revision = store.reader.revision();
    for request in [
        put("bad", "after"),
        PutRequest {
            prev_kv: true,
            ..put("bad", "after")
        },
    ] {
        let refused = store.try_put(request).unwrap_err();
        assert!(refused.to_string().contains("00000001.log"), "{refused}");
    }
    assert_eq!(store.reader.revision(), revision);
    store.put("good", "value");
    assert_eq!(store.reader.revision(), revision + 1);
}

fn operation(request: Operation) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

/// A transaction of these operations, without conditions.
fn txn(operations: Vec<Operation>) -> TxnRequest {
    TxnRequest {
        success: operations.into_iter().map(operation).collect(),
        ..TxnRequest::default()
    }
}

/// 17 MiB in values of 10,000 bytes.
fn store_of_many_bytes() -> Store {
    let mut store = Store::new();
    let value = "x".repeat(10_000);
    for number in 0..1_800 {
        store.put(&format!("big/{number:05}"), &value);
    }
    store
}

#[test]
fn a_transaction_that_writes_is_refused_when_it_reads_more_than_its_bound() {
    let mut store = store_of_many_bytes();
    let all = || Operation::RequestRange(range("big/", "big0"));
    let revision = store.reader.revision();
    let refused = store.txn(txn(vec![Operation::RequestPut(put("a", "1")), all()]));
    let error = refused.unwrap_err();
    assert!(
        matches!(
            error,
            Error::ReadsTooMuch {
                bytes_max: 16_777_216
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("16777216 bytes"), "{error}");
    assert_eq!(store.reader.revision(), revision);
    assert_eq!(store.get("a", "", 0).unwrap().count, 0);
    // The same ranges alone are a read, and counts need no records.
    let read = store.reader.txn(&txn(vec![all()])).unwrap();
    assert_eq!(read.responses.len(), 1);
    let count = RangeRequest {
        count_only: true,
        ..range("big/", "big0")
    };
    let limited = RangeRequest {
        limit: 500,
        ..range("big/", "big0")
    };
    store
        .txn(txn(vec![
            Operation::RequestPut(put("a", "1")),
            Operation::RequestRange(count),
            Operation::RequestRange(limited.clone()),
            Operation::RequestRange(limited.clone()),
            Operation::RequestRange(limited.clone()),
        ]))
        .unwrap();
    let four = (0..4).map(|_| Operation::RequestRange(limited.clone()));
    let put = Operation::RequestPut(put("a", "2"));
    let refused = store.txn(txn(std::iter::once(put).chain(four).collect()));
    assert!(
        matches!(refused, Err(Error::ReadsTooMuch { .. })),
        "ranges add up"
    );
}

#[test]
fn previous_values_of_a_deletion_count_as_read() {
    let mut store = store_of_many_bytes();
    let request = DeleteRangeRequest {
        key: bytes("big/"),
        range_end: bytes("big0"),
        prev_kv: true,
    };
    let refused = store.run(Command::DeleteRange(request)).unwrap_err();
    assert!(matches!(refused, Error::ReadsTooMuch { .. }), "{refused}");
    assert_eq!(store.get("big/", "big0", 0).unwrap().count, 1_800);
}

#[test]
fn a_condition_on_more_keys_than_the_bound_is_refused() {
    let mut store = Store::new();
    for number in 0..500 {
        store.put(&format!("k{number:03}"), "1");
    }
    let condition = Compare {
        result: CompareResult::Greater.into(),
        target: CompareTarget::Mod.into(),
        key: bytes("k"),
        range_end: bytes("l"),
        target_union: Some(TargetUnion::ModRevision(0)),
    };
    let request = |conditions| TxnRequest {
        compare: vec![condition.clone(); conditions],
        ..txn(vec![Operation::RequestPut(put("a", "1"))])
    };
    assert!(store.txn(request(100)).unwrap().succeeded);
    // 600 times 500 keys of 64 bytes.
    let refused = store.txn(request(600)).unwrap_err();
    assert!(matches!(refused, Error::ReadsTooMuch { .. }), "{refused}");
}

#[test]
fn a_deletion_of_more_than_a_batch_holds_is_refused_and_changes_nothing() {
    let mut store = Store::new();
    for number in 0..600 {
        store.put(&format!("k{number:03}"), "1");
    }
    let all = || DeleteRangeRequest {
        key: bytes("k"),
        range_end: bytes("l"),
        prev_kv: false,
    };
    let refused = store.run(Command::DeleteRange(all())).unwrap_err();
    assert!(refused.to_string().contains("bytes"), "{refused}");
    let nested = txn(vec![Operation::RequestDeleteRange(all())]);
    assert!(store.txn(nested).is_err());
    assert_eq!(store.get("k", "l", 0).unwrap().count, 600);
    let half = DeleteRangeRequest {
        range_end: bytes("k300"),
        ..all()
    };
    store.run(Command::DeleteRange(half)).unwrap();
    assert_eq!(store.get("k", "l", 0).unwrap().count, 300);
}
