//! Evaluating ahead: several commands in a batch, several batches under way.

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{LeaseGrantRequest, LeaseRevokeRequest, PutRequest, RangeRequest};
use revisions::{Command, Error};

use crate::store::{Store, put, range};

fn evaluate_put(store: &mut Store, key: &str, value: &str) -> i64 {
    let command = Command::Put(put(key, value));
    store
        .machine
        .evaluate(&command)
        .unwrap()
        .header_mut()
        .revision
}

#[test]
fn readers_see_nothing_before_apply_and_everything_after() {
    let mut store = Store::new();
    assert_eq!(evaluate_put(&mut store, "a", "1"), 2);
    assert_eq!(evaluate_put(&mut store, "a", "2"), 3);
    assert_eq!(store.reader.revision(), 1);
    assert_eq!(store.get("a", "", 0).unwrap().count, 0);
    store.commit();
    assert_eq!(store.reader.revision(), 3);
    assert_eq!(store.get("a", "", 0).unwrap().kvs[0].version(), 2);
    assert_eq!(store.get("a", "", 2).unwrap().kvs[0].value(), b"1");
}

#[test]
fn two_batches_under_way_are_applied_in_order() {
    let mut store = Store::new();
    let engine = store.reader.engine().clone();
    evaluate_put(&mut store, "a", "1");
    let first = store.machine.seal(1, 1).unwrap();
    let first_appended = engine.append(&first).unwrap();
    // Decided against the first batch, which no reader sees yet.
    assert_eq!(evaluate_put(&mut store, "a", "2"), 3);
    let second = store.machine.seal(1, 2).unwrap();
    let second_appended = engine.append(&second).unwrap();
    assert_eq!(evaluate_put(&mut store, "b", "3"), 4);
    engine.wait_durable(second_appended.sequence).unwrap();
    store.machine.apply(first, first_appended);
    assert_eq!(store.get("a", "", 0).unwrap().kvs[0].value(), b"1");
    store.machine.apply(second, second_appended);
    let newest = store.get("a", "", 0).unwrap();
    assert_eq!(
        (newest.kvs[0].value(), newest.kvs[0].version()),
        (&b"2"[..], 2)
    );
}

#[test]
fn abandoned_effects_never_happened() {
    let mut store = Store::new();
    store.put("a", "1");
    evaluate_put(&mut store, "a", "2");
    store
        .machine
        .evaluate(&Command::LeaseGrant(LeaseGrantRequest { id: 5, ttl: 10 }))
        .unwrap();
    store.machine.abandon();
    assert!(store.machine.seal(1, 2).is_none());
    assert_eq!(store.put("a", "3").header.unwrap().revision, 3);
    assert_eq!(store.get("a", "", 0).unwrap().kvs[0].version(), 2);
    let attached = store.try_put(PutRequest {
        lease: 5,
        ..put("a", "4")
    });
    assert!(matches!(attached, Err(Error::Etcd(Refusal::LeaseNotFound))));
}

#[test]
fn a_batch_that_changes_nothing_is_not_sealed() {
    let mut store = Store::new();
    let delete = etcd_api::etcdserverpb::DeleteRangeRequest {
        key: "x".into(),
        ..Default::default()
    };
    store
        .machine
        .evaluate(&Command::DeleteRange(delete))
        .unwrap();
    assert!(store.machine.seal(1, 1).is_none());
}

#[test]
fn pending_leases_can_be_used_and_revoked_before_they_are_applied() {
    let mut store = Store::new();
    store
        .machine
        .evaluate(&Command::LeaseGrant(LeaseGrantRequest { id: 5, ttl: 10 }))
        .unwrap();
    let attach = PutRequest {
        lease: 5,
        ..put("a", "1")
    };
    store
        .machine
        .evaluate(&Command::Put(attach.clone()))
        .unwrap();
    store
        .machine
        .evaluate(&Command::Put(PutRequest {
            lease: 5,
            ..put("b", "1")
        }))
        .unwrap();
    evaluate_put(&mut store, "b", "moved away");
    let revoke = Command::LeaseRevoke(LeaseRevokeRequest { id: 5 });
    assert_eq!(
        store
            .machine
            .evaluate(&revoke)
            .unwrap()
            .header_mut()
            .revision,
        5
    );
    assert!(store.machine.evaluate(&revoke).is_err());
    assert!(store.machine.evaluate(&Command::Put(attach)).is_err());
    store.commit();
    assert_eq!(store.get("a", "c", 0).unwrap().kvs.len(), 1);
    assert!(store.reader.lease_leases().leases.is_empty());
}

#[test]
fn a_pending_compaction_counts_at_once() {
    let mut store = Store::new();
    for value in ["1", "2", "3"] {
        store.put("a", value);
    }
    let compact = |revision| {
        Command::Compact(etcd_api::etcdserverpb::CompactionRequest {
            revision,
            physical: false,
        })
    };
    store.machine.evaluate(&compact(3)).unwrap();
    assert!(store.machine.evaluate(&compact(3)).is_err());
    assert!(
        store.get("a", "", 2).is_ok(),
        "readers know of it only when it is applied"
    );
    store.commit();
    assert!(store.get("a", "", 2).is_err());
}

#[test]
fn a_compaction_removes_versions_step_by_step_and_reports_its_end() {
    let mut store = Store::new();
    for value in ["1", "2", "3"] {
        store.put("a", value);
    }
    let versions = |store: &Store| store.reader.engine().status().versions;
    assert_eq!(store.machine.swept(), -1);
    store.compact(4).unwrap();
    assert!(store.machine.is_sweeping());
    assert_eq!((versions(&store), store.machine.swept()), (3, -1));
    assert!(
        store.get("a", "", 3).is_err(),
        "a compacted version cannot be read, even before it is removed"
    );
    while store.machine.is_sweeping() {
        store.machine.maintain().unwrap();
    }
    assert_eq!((versions(&store), store.machine.swept()), (1, 4));
}

#[test]
fn a_streamed_range_equals_the_unary_one_and_stays_at_its_revision() {
    let mut store = Store::new();
    for number in 0..500 {
        store.put(&format!("key{number:03}"), &"x".repeat(number % 50));
    }
    for (limit, keys_only) in [
        (0, false),
        (1, false),
        (10, true),
        (123, false),
        (500, true),
        (999, false),
    ] {
        let request = RangeRequest {
            limit,
            keys_only,
            ..range("key1", "key4")
        };
        let whole = store.reader.range(&request).unwrap();
        let mut stream = store.reader.range_stream(request, 2_000);
        let mut chunks = vec![stream.next().unwrap().unwrap()];
        store.put("key15", "came later");
        chunks.extend(stream.map(|chunk| chunk.unwrap()));
        store.delete("key15", "");
        let last = chunks.last().unwrap();
        assert_eq!(
            (last.count, last.more, &last.header),
            (whole.count, whole.more, &whole.header)
        );
        assert!(
            chunks[..chunks.len() - 1]
                .iter()
                .all(|chunk| chunk.header.is_none())
        );
        let kvs: Vec<_> = chunks.into_iter().flat_map(|chunk| chunk.kvs).collect();
        assert_eq!(kvs, whole.kvs, "limit {limit}");
    }
}

#[test]
fn a_stream_that_outlives_its_revision_ends_with_compacted() {
    let mut store = Store::new();
    for number in 0..50 {
        store.put(&format!("key{number:02}"), "x");
    }
    let mut stream = store.reader.range_stream(range("key", "key~"), 100);
    assert!(stream.next().unwrap().is_ok());
    store.put("a", "1");
    store.compact(52).unwrap();
    assert!(matches!(
        stream.next(),
        Some(Err(Error::Etcd(Refusal::Compacted)))
    ));
    assert!(stream.next().is_none());
}
