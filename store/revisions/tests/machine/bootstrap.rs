//! What a new directory starts with.

use std::path::Path;
use std::sync::Arc;

use engine::{Batch, Change, Commitment, Engine, HardState};
use environment::simulated::{Restart, SimulatedClock, SimulatedDisk};
use revisions::{Machine, Member, Options, membership_of_body};

use crate::store::{Store, small};

fn member(id: u64) -> Member {
    Member {
        id,
        peer_urls: vec![format!("http://h{id}:1")],
        ..Member::default()
    }
}

fn cluster_of(ids: &[u64]) -> Options {
    let mut options = Options {
        initial_members: ids.iter().map(|&id| member(id)).collect(),
        ..small()
    };
    options.engine.commitment = Commitment::Quorum;
    options
}

const COMMITTED: HardState = HardState {
    term: 1,
    vote: 0,
    commit: 3,
};

fn check_three(store: &Store) {
    let members = store.reader.members();
    assert_eq!(
        members.iter().map(|it| it.id).collect::<Vec<_>>(),
        [3, 5, 9]
    );
    assert_eq!(store.recovered.hard_state, COMMITTED);
    assert_eq!(store.recovered.applied_index, 3);
    assert_eq!(store.reader.engine().status().applied_index, 3);
    assert!(store.recovered.unapplied.is_empty());
    assert!(!store.machine.leads());
}

#[test]
fn a_new_directory_begins_with_its_members_and_keeps_them() {
    let store = Store::with(cluster_of(&[5, 9, 3]));
    check_three(&store);
    assert_eq!(store.recovered.base, (0, 0));
    let entries = &store.recovered.entries;
    let places: Vec<_> = entries.iter().map(|it| (it.index, it.term)).collect();
    assert_eq!(places, [(1, 1), (2, 1), (3, 1)]);
    for (entry, id) in entries.iter().zip([3, 5, 9]) {
        let body = store.reader.engine().body(entry).unwrap();
        assert_eq!(body.bytes().len() as u64, entry.body_bytes);
        assert_eq!(membership_of_body(&body).unwrap().id(), id);
    }
    check_three(&store.reopen());
}

#[test]
fn a_directory_that_holds_something_ignores_the_list() {
    let store = Store::with(cluster_of(&[3, 5, 9]));
    let (disk, clock) = (store.disk.clone(), store.clock.clone());
    drop(store);
    check_three(&Store::on(disk, clock, cluster_of(&[1])));
}

#[test]
fn members_of_a_new_directory_survive_the_loss_of_power() {
    let store = Store::with(cluster_of(&[3, 5, 9]));
    store.disk.crash();
    let lost = store.disk.restart(Restart::power_loss());
    check_three(&store.on_disk(lost));
}

#[test]
fn an_attempt_that_a_crash_cut_short_is_made_again() {
    let (disk, clock) = (SimulatedDisk::new(1), SimulatedClock::stepped());
    let options = cluster_of(&[3, 5, 9]);
    let opened = Engine::open(
        Arc::new(disk.clone()),
        Path::new("/data"),
        options.engine.clone(),
        &mut |_| Ok(()),
    );
    let (engine, applier, _) = opened.unwrap();
    for index in 1..=2 {
        let batch = Batch {
            term: 1,
            index,
            // Would be refused, were it ever applied.
            changes: vec![Change::State {
                kind: 7,
                payload: vec![1; 8].into(),
            }],
        };
        let appended = engine
            .append_entry(&batch, &batch.encode().unwrap(), None)
            .unwrap();
        engine.wait_durable(appended.sequence).unwrap();
    }
    drop((engine, applier));
    let store = Store::on(disk, clock, options);
    check_three(&store);
    check_three(&store.reopen());
}

#[test]
fn without_members_the_directory_stays_empty() {
    let store = Store::with(cluster_of(&[]));
    assert!(store.reader.members().is_empty());
    assert_eq!(store.recovered.hard_state, HardState::default());
    assert!(store.recovered.entries.is_empty());
    assert_eq!(store.reader.engine().status().applied_index, 0);
}

#[test]
fn a_machine_alone_starts_with_its_one_member_and_leads() {
    let mut options = cluster_of(&[3]);
    options.engine.commitment = Commitment::Alone;
    let mut store = Store::with(options);
    assert!(store.machine.leads());
    store.put("a", "1");
    assert_eq!(store.index, 2);
    let store = store.reopen();
    assert_eq!(store.reader.members().len(), 1);
    assert_eq!(store.get("a", "", 0).unwrap().count, 1);
}

#[test]
fn members_that_contradict_each_other_are_refused() {
    let mut urls = cluster_of(&[3, 5]);
    urls.initial_members[1].peer_urls = vec!["http://h3:1".into()];
    for options in [cluster_of(&[3, 3]), cluster_of(&[0]), urls] {
        let opened = Machine::open(
            Arc::new(SimulatedDisk::new(1)),
            Path::new("/data"),
            options,
            Arc::new(SimulatedClock::stepped()),
        );
        let refused = opened.unwrap_err().to_string();
        assert!(refused.starts_with("initial member"), "{refused}");
    }
}
