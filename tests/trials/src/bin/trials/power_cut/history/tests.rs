use std::time::Duration;

use etcd_api::mvccpb::KeyValue;

use super::{super::load::Phase, *};

fn key(name: &str) -> Bytes {
    Bytes::from(format!("{PREFIX}001/{name}"))
}

fn operation(effects: &[(&str, Option<u64>)]) -> Operation {
    let effects = effects.iter();
    Operation {
        effects: effects.map(|(name, effect)| (key(name), *effect)).collect(),
    }
}

fn acknowledged(revision: i64, operation: Operation) -> Acknowledged {
    Acknowledged {
        client: 1,
        operation,
        revision,
        at: Duration::from_millis(7),
        sent: Phase::Normal,
        answered: Phase::Normal,
    }
}

/// `a` and `b` put together at 2 and `a` deleted at 3, both acknowledged; a
/// put of `c` and `d` in progress.
fn seen() -> Vec<Seen> {
    vec![Seen {
        acknowledged: vec![
            acknowledged(2, operation(&[("a", Some(1)), ("b", Some(1))])),
            acknowledged(3, operation(&[("a", None)])),
        ],
        under_way: Some(operation(&[("c", Some(2)), ("d", Some(2))])),
    }]
}

fn changes(operation: &Operation) -> Changes {
    let effects = operation.effects.iter();
    effects
        .map(|(key, effect)| (key.clone(), effect.map(value)))
        .collect()
}

fn pair(name: &str, counter: u64, revision: i64) -> EncodedKeyValue {
    EncodedKeyValue::from(KeyValue {
        key: key(name),
        value: value(counter),
        create_revision: revision,
        mod_revision: revision,
        version: 1,
        ..KeyValue::default()
    })
}

/// A server with the acknowledged writes and no other.
fn faithful() -> Found {
    let writes = &seen()[0].acknowledged;
    let history = writes
        .iter()
        .map(|write| (write.revision, changes(&write.operation)));
    Found {
        revision: 3,
        keys: vec![pair("b", 1, 2)],
        history: history.collect(),
    }
}

/// A server with the write in progress, too.
fn generous() -> Found {
    let mut found = faithful();
    found.revision = 4;
    found.keys.extend([pair("c", 2, 4), pair("d", 2, 4)]);
    let late = operation(&[("c", Some(2)), ("d", Some(2))]);
    found.history.insert(4, changes(&late));
    found
}

fn verify(found: &Found) -> Verdict {
    History::new().verify(&seen(), found)
}

#[test]
fn a_write_in_progress_may_be_present_or_absent() {
    let verdict = verify(&faithful());
    assert_eq!(verdict.faults, Vec::<String>::new());
    assert_eq!(
        (verdict.acknowledged, verdict.survived, verdict.absent),
        (2, 0, 1)
    );
    let verdict = verify(&generous());
    assert_eq!(verdict.faults, Vec::<String>::new());
    assert_eq!((verdict.survived, verdict.absent), (1, 0));
}

#[test]
fn a_lost_write_is_reported_with_its_key_revision_and_moment() {
    let mut found = faithful();
    found.revision = 2;
    found.history.remove(&3);
    let verdict = verify(&found);
    assert_eq!(verdict.lost, 1);
    let story = &verdict.faults[0];
    for part in ["LOST", "-001/a", "revision 3", "7.0 ms", "is at 2"] {
        assert!(story.contains(part), "no `{part}` in: {story}");
    }
}

#[test]
fn a_wrong_value_is_a_loss() {
    let mut found = faithful();
    let second = found.history.get_mut(&2).unwrap();
    second.insert(key("b"), Some(value(9)));
    let verdict = verify(&found);
    assert_eq!(verdict.lost, 1);
    assert!(verdict.faults[0].contains("001/b=9"), "{verdict:?}");
}

#[test]
fn half_a_transaction_is_found() {
    let mut found = generous();
    found.history.get_mut(&4).unwrap().remove(&key("d"));
    assert!(verify(&found).faults[0].contains("TORN"));
}

#[test]
fn a_write_in_progress_counts_once() {
    let mut found = generous();
    found.revision = 5;
    found.history.insert(5, found.history[&4].clone());
    assert!(verify(&found).faults[0].contains("TORN or never sent, at 5"));
}

#[test]
fn a_gap_in_the_history_is_found() {
    let mut found = generous();
    found.history.remove(&4);
    assert!(verify(&found).faults[0].contains("GAP"));
}

#[test]
fn keys_that_differ_from_the_history_are_found() {
    let mut found = faithful();
    found.keys.clear();
    assert!(verify(&found).faults[0].contains("MISSING KEY"));
    found.keys = vec![pair("a", 1, 2), pair("b", 1, 2)];
    assert!(verify(&found).faults[0].contains("EXTRA KEY"));
    found.keys = vec![pair("b", 1, 3)];
    assert!(verify(&found).faults[0].contains("history says"));
}

#[test]
fn a_verified_revision_must_stay_until_it_is_compacted() {
    let mut history = History::new();
    assert!(history.verify(&seen(), &faithful()).faults.is_empty());
    let mut found = faithful();
    found.history.insert(2, changes(&operation(&[("z", None)])));
    assert!(history.verify(&[], &found).faults[0].contains("CHANGED"));
    history.may_be_compacted(2);
    found.history.remove(&2);
    assert_eq!(history.verify(&[], &found).faults, Vec::<String>::new());
}

#[test]
fn one_revision_for_two_writes_is_found() {
    let mut seen = seen();
    seen[0].acknowledged[1].revision = 2;
    let verdict = History::new().verify(&seen, &faithful());
    assert!(verdict.faults[0].contains("was given to clients 1 and 1"));
}

#[test]
fn an_answer_on_a_dead_disk_may_be_a_mistake_of_the_kernel_but_only_once() {
    let mut found = faithful();
    found.revision = 2;
    found.history.remove(&3);
    found.keys = vec![pair("a", 1, 2), pair("b", 1, 2)];
    let mut seen = seen();
    let deletion = &mut seen[0].acknowledged[1];
    deletion.answered = Phase::RunningOn;
    let verdict = History::new().verify(&seen, &found);
    assert_eq!(verdict.faults, Vec::<String>::new());
    assert_eq!(
        (verdict.acknowledged, verdict.overtaken, verdict.absent),
        (1, 1, 2)
    );
    seen[0].acknowledged[1].sent = Phase::Cut;
    assert_eq!(History::new().verify(&seen, &found).lost, 1);
}
