//! Writes at any member.

use std::collections::BTreeMap;

use inkstone::{Condition, KeyValue, Node, Remedy, Transaction, WriteBatch};

use crate::three::{Three, get, put, surely};

#[test]
fn every_member_accepts_writes_and_all_members_read_them_at_once() {
    let three = Three::start();
    for round in 0..30 {
        put(three.node(round % 3), "k", &round.to_string());
        for reader in 0..3 {
            let found = get(three.node(reader), "k");
            assert_eq!(found, Some(round.to_string()), "round {round} at {reader}");
        }
    }
}

#[test]
fn each_kind_of_write_has_the_same_effect_at_a_follower_as_at_the_leader() {
    let three = Three::start();
    put(three.node(0), "job", "none");
    for number in 0..3 {
        let node = three.node(number);
        let prefix = format!("{number}/");
        let key = |name: &str| format!("{prefix}{name}");
        let batch = || {
            WriteBatch::new()
                .put(key("a"), "1")
                .put(key("b"), "2")
                .put(key("c"), "3")
        };
        let revision = surely(|| node.write_batch(batch()).wait());
        let entries = node.serializable().prefix(&prefix).collect().unwrap();
        assert_eq!(entries.len(), 3);
        assert!(entries.iter().all(|entry| entry.mod_revision == revision));
        assert!(surely(|| node.delete(key("a")).wait()));
        assert!(!surely(|| node.delete(key("a")).wait()));
        assert_eq!(surely(|| node.delete_range(key("a")..key("c")).wait()), 1);
        assert_eq!(surely(|| node.delete_range(key("c")..key("a")).wait()), 0);
        let swap = Transaction::new()
            .when(Condition::exists(key("c")))
            .when(Condition::value(key("c"), "3"))
            .then(WriteBatch::new().delete(key("c")).put("job", key("done")))
            .otherwise(WriteBatch::new().put("job", "lost"))
            .read("job")
            .read(key("c"));
        let done = node.transact(swap).wait().unwrap();
        assert!(done.succeeded);
        let values = |entries: Vec<KeyValue>| -> Vec<_> {
            entries.into_iter().map(|entry| entry.value).collect()
        };
        assert_eq!(values(done.entries), [key("done")]);
        assert_eq!(node.serializable().prefix(&prefix).count().unwrap(), 0);
    }
    surely(|| three.node(0).compact(three.node(0).revision()).wait());
    surely(|| three.node(1).linearizable().wait().map(drop));
    let error = three.node(1).at(2).get("job").unwrap_err();
    assert_eq!(error.remedy(), Remedy::CorrectTheCall, "{error}");
}

/// Values that one thread wrote, and those with an unknown outcome.
#[derive(Default)]
struct Counted {
    known: Vec<u64>,
    unknown: Vec<u64>,
}

fn count(node: &Node, times: usize) -> Counted {
    let mut counted = Counted::default();
    while counted.known.len() < times {
        let found = surely(|| node.get("counter").wait());
        let (value, condition) = match found {
            None => (0, Condition::missing("counter")),
            Some(entry) => {
                let value = std::str::from_utf8(&entry.value).unwrap();
                let unchanged = Condition::written_by("counter", entry.mod_revision);
                (value.parse().unwrap(), unchanged)
            }
        };
        let next: u64 = value + 1;
        match node.put_if(condition, "counter", next.to_string()).wait() {
            Ok(swapped) if swapped.succeeded => counted.known.push(next),
            Ok(_) => {}
            Err(error) if error.remedy() == Remedy::LookFirst => counted.unknown.push(next),
            Err(error) => panic!("{error}"),
        }
    }
    counted
}

#[test]
fn concurrent_compare_and_swaps_give_each_value_one_writer() {
    let three = Three::start();
    put(three.node(0), "counter", "0");
    let threads: Vec<_> = (0..6)
        .map(|number| {
            let node = three.node(number % 3).clone();
            let body = move || count(&node, 20);
            std::thread::Builder::new().spawn(body).unwrap()
        })
        .collect();
    let counted: Vec<Counted> = threads.into_iter().map(|it| it.join().unwrap()).collect();
    let mut writers: BTreeMap<u64, usize> = BTreeMap::new();
    for value in counted.iter().flat_map(|it| &it.known) {
        *writers.entry(*value).or_default() += 1;
    }
    assert!(writers.values().all(|&count| count == 1), "{writers:?}");
    let last: u64 = get(three.node(0), "counter").unwrap().parse().unwrap();
    let unknown: Vec<u64> = counted.into_iter().flat_map(|it| it.unknown).collect();
    for value in 1..=last {
        let has_writer = writers.contains_key(&value) || unknown.contains(&value);
        assert!(has_writer, "no thread wrote {value}");
    }
}

#[test]
fn tasks_await_the_same_answers() {
    let three = Three::start();
    put(three.node(0), "k", "0");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let node = three.node(1);
        let mut watch = node.watch_prefix("task/", 1);
        let puts: Vec<_> = (0..20)
            .map(|n| node.put(format!("task/{n:02}"), "v"))
            .collect();
        for put in puts {
            put.await.unwrap();
        }
        let view = three.node(2).linearizable().await.unwrap();
        assert_eq!(view.prefix("task/").count().unwrap(), 20);
        for _ in 0..20 {
            let event = watch.receive().await.unwrap();
            assert!(event.key().starts_with(b"task/"));
        }
        assert!(node.wait_for_leader().await.unwrap().leader.is_some());
    });
}
