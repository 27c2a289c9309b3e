//! Restarts: what was applied is there, from the log or from a checkpoint.

use environment::simulated::Restart;
use etcd_api::etcdserverpb::{AlarmRequest, AlarmType, LeaseTimeToLiveRequest, PutRequest};
use revisions::Command;

use crate::store::{Store, put, small};

/// A store with something of everything.
fn filled() -> Store {
    let mut store = Store::with(small());
    store.grant(5, 100).unwrap();
    store.grant(6, 100).unwrap();
    for number in 0..20 {
        let key = format!("key{:02}", number % 10);
        store
            .try_put(PutRequest {
                lease: 5 + number % 2,
                ..put(&key, "value")
            })
            .unwrap();
    }
    store.put("key03", "detached");
    store.delete("key04", "");
    store.revoke(6).unwrap();
    store.compact(15).unwrap();
    let alarm = AlarmType::Corrupt as i32;
    let raise = AlarmRequest {
        action: 1,
        member_id: 9,
        alarm,
    };
    store.run(Command::Alarm(raise)).unwrap();
    store
        .run(Command::Alarm(AlarmRequest {
            action: 2,
            member_id: 9,
            alarm,
        }))
        .unwrap();
    store
        .run(Command::Alarm(AlarmRequest {
            action: 1,
            member_id: 9,
            alarm: 1,
        }))
        .unwrap();
    store
}

/// Everything a client can ask.
fn everything(store: &Store) -> String {
    let lease = LeaseTimeToLiveRequest { id: 5, keys: true };
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?}",
        store.get("a", "\0", 0).unwrap(),
        store.get("a", "\0", 16).unwrap(),
        store.reader.compacted(),
        store.reader.lease_time_to_live(&lease).unwrap(),
        store.reader.alarms(),
        store.reader.hash().unwrap(),
    )
}

#[test]
fn the_log_alone_brings_everything_back() {
    let store = filled();
    let before = everything(&store);
    let store = store.reopen();
    assert_eq!(everything(&store), before);
    assert_eq!(everything(&store.reopen()), before);
}

#[test]
fn a_checkpoint_brings_everything_back() {
    let mut store = filled();
    let before = everything(&store);
    store.machine.checkpoint().unwrap();
    assert_eq!(everything(&store.reopen()), before);
}

#[test]
fn a_checkpoint_and_the_log_behind_it_bring_everything_back() {
    let mut store = filled();
    store.machine.checkpoint().unwrap();
    store
        .run(Command::Alarm(AlarmRequest {
            action: 2,
            member_id: 9,
            alarm: 1,
        }))
        .unwrap();
    store
        .try_put(PutRequest {
            lease: 5,
            ..put("late", "1")
        })
        .unwrap();
    store.delete("key00", "");
    store.compact(20).unwrap();
    let request = LeaseTimeToLiveRequest { id: 5, keys: true };
    let keys = |store: &Store| store.reader.lease_time_to_live(&request).unwrap().keys;
    let (kept, hash) = (keys(&store), store.reader.hash().unwrap());
    assert!(kept.contains(&"late".into()) && !kept.contains(&"key00".into()));
    let mut store = store.reopen();
    assert_eq!(keys(&store), kept);
    assert_eq!(store.reader.hash().unwrap(), hash);
    assert!(store.reader.alarms().is_empty());
    assert!(store.get("a", "\0", 19).is_err());
    // Revoking finds what the checkpoint remembered.
    store.revoke(5).unwrap();
    assert!(
        store
            .get("a", "\0", 0)
            .unwrap()
            .kvs
            .iter()
            .all(|kv| kv.lease() == 0)
    );
}

#[test]
fn a_loss_of_power_keeps_what_was_acknowledged() {
    let mut store = filled();
    // The alarm that is up refuses puts, not deletions.
    store.delete("key01", "");
    let before = everything(&store);
    store.disk.crash();
    let lost = store.disk.restart(Restart::power_loss());
    let store = store.on_disk(lost);
    assert_eq!(everything(&store), before);
    assert_eq!(store.get("key01", "", 0).unwrap().count, 0);
}
