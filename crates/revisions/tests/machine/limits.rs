//! What refuses a put: the quota, and a version that cannot be read.

use std::path::Path;

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{AlarmRequest, AlarmType, PutRequest};
use revisions::{Command, Error, Options};

use crate::store::{Store, put, small};

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
    store.reader.warm(&Command::Put(put("a", "2")));
    assert_eq!(store.reader.revision(), 2);
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
