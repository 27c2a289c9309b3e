//! Members beyond the scripts: batches of their own, what a restart keeps.

use std::time::Duration;

use engine::{Batch, Change};
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{MemberAddRequest, MemberPromoteRequest, MemberRemoveRequest};
use revisions::{
    Command, Error, MemberChange, MemberPublishRequest, Response, check_records, identity,
    membership_of, membership_of_body,
};

use crate::store::{Store, put};

fn add(url: &str, is_learner: bool) -> Command {
    Command::MemberAdd(MemberAddRequest {
        peer_ur_ls: vec![url.into()],
        is_learner,
    })
}

fn added(store: &mut Store, url: &str, is_learner: bool) -> u64 {
    match store.run(add(url, is_learner)).unwrap() {
        Response::MemberAdd(answer) => answer.member.unwrap().id,
        other => panic!("not of an addition: {other:?}"),
    }
}

fn publish(id: u64, name: &str) -> Command {
    Command::MemberPublish(MemberPublishRequest {
        id,
        name: name.into(),
        client_urls: vec!["http://c:1".into()],
    })
}

#[test]
fn the_id_is_of_the_urls_and_the_second() {
    let mut store = Store::new();
    let second = Duration::from_secs(1_795_242_612);
    store.clock.set_unix_time(second);
    let id = added(&mut store, "http://a:1", false);
    assert_eq!(
        id,
        identity::added_member_id(&["http://a:1"], second.as_secs())
    );
    assert_eq!(
        store.reader.members().get(id).unwrap().peer_urls,
        ["http://a:1"]
    );
}

#[test]
fn a_removed_member_is_another_one_when_it_comes_back() {
    let mut store = Store::new();
    added(&mut store, "http://a:1", false);
    let first = added(&mut store, "http://b:1", true);
    let remove = Command::MemberRemove(MemberRemoveRequest { id: first });
    store.run(remove).unwrap();
    assert!(store.reader.is_removed(first));
    // Within the same second it would be the same.
    let refused = store.run(add("http://b:1", true));
    assert!(matches!(refused, Err(Error::Etcd(Refusal::MemberNotFound))));
    store.advance(Duration::from_secs(1));
    let second = added(&mut store, "http://b:1", true);
    assert_ne!(first, second);
    assert!(!store.reader.is_removed(second));
}

#[test]
fn a_configuration_change_fills_its_batch_and_is_seen_in_the_log() {
    let mut store = Store::new();
    assert!(add("http://a:1", false).changes_configuration());
    store.machine.evaluate(&add("http://a:1", false)).unwrap();
    assert!(store.machine.batch_is_full() && store.machine.open_is_membership());
    assert!(store.machine.configuration_is_pending());
    let batch = store.machine.seal(1, 1).unwrap();
    assert!(!store.machine.batch_is_full());
    assert!(
        store.machine.configuration_is_pending(),
        "it is not applied"
    );
    let change = membership_of(&batch).unwrap();
    assert!(matches!(
        change,
        MemberChange::Added {
            is_learner: false,
            ..
        }
    ));
    assert_eq!(membership_of_body(&batch.encode().unwrap()), Some(change));
    check_records(&batch).unwrap();
    let engine = store.reader.engine().clone();
    let appended = engine.append(&batch).unwrap();
    engine.wait_durable(appended.sequence).unwrap();
    store.machine.apply(batch, appended);
    assert!(!store.machine.configuration_is_pending());
    assert_eq!(store.reader.members().voters().count(), 1);
}

#[test]
fn a_refused_configuration_change_leaves_the_batch_open() {
    let mut store = Store::new();
    let promote = Command::MemberPromote(MemberPromoteRequest { id: 9 });
    assert!(store.machine.evaluate(&promote).is_err());
    assert!(store.machine.open_is_empty() && !store.machine.batch_is_full());
    store.put("a", "1");
}

#[test]
#[should_panic(expected = "has a batch of its own")]
fn a_configuration_change_does_not_join_others() {
    let mut store = Store::new();
    store
        .machine
        .evaluate(&Command::Put(put("a", "1")))
        .unwrap();
    let _ = store.machine.evaluate(&add("http://a:1", false));
}

#[test]
#[should_panic(expected = "stays alone in its batch")]
fn others_do_not_join_a_configuration_change() {
    let mut store = Store::new();
    store.machine.evaluate(&add("http://a:1", false)).unwrap();
    let _ = store.machine.evaluate(&Command::Put(put("a", "1")));
}

#[test]
#[should_panic(expected = "one change of the configuration at a time")]
fn a_configuration_change_waits_for_the_one_before() {
    let mut store = Store::new();
    store.machine.evaluate(&add("http://a:1", false)).unwrap();
    store.machine.seal(1, 1).unwrap();
    let _ = store.machine.evaluate(&add("http://b:1", false));
}

#[test]
fn names_share_a_batch_with_others_and_are_no_configuration_change() {
    let mut store = Store::new();
    let id = added(&mut store, "http://a:1", false);
    store.machine.evaluate(&publish(id, "one")).unwrap();
    store
        .machine
        .evaluate(&Command::Put(put("a", "1")))
        .unwrap();
    // What this batch decided counts at once: nothing is written again.
    store.machine.evaluate(&publish(id, "one")).unwrap();
    let batch = store.machine.seal(1, 2).unwrap();
    assert_eq!(batch.changes.len(), 2);
    assert_eq!(membership_of(&batch), None);
    let body = batch.encode().unwrap();
    assert_eq!(membership_of_body(&body), None);
    let name_alone = Batch {
        changes: batch.changes[..1].to_vec(),
        ..batch.clone()
    };
    assert!(matches!(name_alone.changes[0], Change::State { .. }));
    assert_eq!(membership_of(&name_alone), None);
    assert_eq!(membership_of_body(&name_alone.encode().unwrap()), None);
    assert_eq!(membership_of(&Batch::default()), None);
    assert_eq!(
        membership_of_body(&Batch::default().encode().unwrap()),
        None
    );
}

#[test]
fn members_survive_a_restart_with_and_without_a_checkpoint() {
    let mut store = Store::new();
    let one = added(&mut store, "http://a:1", false);
    let two = added(&mut store, "http://b:1", true);
    store.run(publish(one, "one")).unwrap();
    store
        .run(Command::MemberRemove(MemberRemoveRequest { id: two }))
        .unwrap();
    let before = store.reader.members();
    assert_eq!((before.len(), before.is_removed(two)), (1, true));
    let mut store = store.reopen();
    assert_eq!(store.reader.members(), before);
    store.machine.checkpoint().unwrap();
    let mut store = store.reopen();
    assert_eq!(store.reader.members(), before);
    store.run(publish(one, "uno")).unwrap();
    let store = store.reopen();
    assert_eq!(store.reader.members().get(one).unwrap().name, "uno");
}
