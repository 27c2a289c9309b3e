//! A machine that is behind takes another one's whole state.

use std::time::Duration;

use engine::{Batch, Commitment, HardState};
use etcd_api::etcdserverpb::{
    AlarmRequest, CompactionRequest, LeaseGrantRequest, LeaseTimeToLiveRequest, MemberAddRequest,
    PutRequest, WatchCreateRequest, WatchResponse,
};
use revisions::{Command, Export, Import, Machine, WatchStream, check_records};

use crate::script::soon;
use crate::store::{Store, bytes, put, small};

fn quorum() -> Store {
    let mut options = small();
    options.engine.commitment = Commitment::Quorum;
    Store::with(options)
}

/// Evaluates a command on the leader; returns the batch for the followers.
fn decide(leader: &mut Store, command: Command) -> Batch {
    leader.machine.evaluate(&command).unwrap();
    let batch = leader.machine.seal(1, leader.index + 1).unwrap();
    apply(leader, batch.clone());
    batch
}

fn apply(store: &mut Store, batch: Batch) {
    let engine = store.reader.engine().clone();
    let body = batch.encode().unwrap();
    let batch = Batch::decode(batch.term, batch.index, &body).unwrap();
    check_records(&batch).unwrap();
    let appended = engine.append_entry(&batch, &body, None).unwrap();
    engine.wait_durable(appended.sequence).unwrap();
    store.index = batch.index;
    store.machine.apply(batch, appended);
}

fn put_numbered(number: u64) -> Command {
    let value = "x".repeat(10 + 50 * (number % 40) as usize);
    Command::Put(put(&format!("k{}", number % 10), &value))
}

/// Everything a machine remembers.
fn story() -> Vec<Command> {
    let lease = |id| Command::LeaseGrant(LeaseGrantRequest { id, ttl: 60 });
    let leased = PutRequest {
        lease: 5,
        ..put("leased", "2")
    };
    let member = MemberAddRequest {
        peer_ur_ls: vec!["http://a:1".into()],
        is_learner: false,
    };
    vec![
        lease(5),
        lease(6),
        Command::Put(leased),
        Command::MemberAdd(member),
    ]
}

/// Raises (1) or clears (2) one.
fn alarm(action: i32) -> Command {
    Command::Alarm(AlarmRequest {
        action,
        member_id: 3,
        alarm: 1,
    })
}

fn compaction(revision: i64) -> Command {
    Command::Compact(CompactionRequest {
        revision,
        physical: false,
    })
}

fn import(machine: &Machine, export: &mut Export) -> Import {
    let mut import = machine.import(Box::new(|| ())).unwrap();
    for piece in export {
        import.offer(piece.unwrap().bytes).unwrap();
    }
    while !import.progress().unwrap().complete {
        std::thread::yield_now();
    }
    import
}

fn install(follower: &mut Store, leader: &Store) {
    let import = import(&follower.machine, &mut leader.machine.export(3000));
    let installed = follower.machine.install(import).unwrap();
    assert_eq!(installed.index, leader.index);
    assert_eq!(installed.revision, leader.reader.revision());
    follower.index = installed.index;
}

fn assert_equal(one: &Store, other: &Store) {
    assert_eq!(one.reader.hash().unwrap(), other.reader.hash().unwrap());
    assert_eq!(one.reader.members(), other.reader.members());
    assert_eq!(one.reader.alarms(), other.reader.alarms());
    assert_eq!(one.reader.compacted(), other.reader.compacted());
    for revision in one.reader.compacted().max(1)..=one.reader.revision() {
        let hashes = [one, other].map(|store| store.reader.hash_kv(revision).unwrap());
        assert_eq!(hashes[0], hashes[1], "at {revision}");
        let ranges = [one, other].map(|store| store.get("a", "z", revision).unwrap());
        assert_eq!(ranges[0], ranges[1], "at {revision}");
    }
}

/// Everything in the log is committed.
fn reopen(store: Store) -> Store {
    let state = HardState {
        term: 1,
        vote: 0,
        commit: store.index,
    };
    store.reader.engine().append_hard_state(state).unwrap();
    store.reopen()
}

/// A leader, and a follower that has heard the first commands alone.
fn pair(heard: u64, missed: u64) -> (Store, Store) {
    let (mut leader, mut follower) = (Store::new(), quorum());
    for number in 0..heard {
        let batch = decide(&mut leader, put_numbered(number));
        apply(&mut follower, batch);
    }
    for command in story() {
        decide(&mut leader, command);
    }
    for number in 0..missed {
        decide(&mut leader, put_numbered(number));
    }
    (leader, follower)
}

#[test]
fn a_member_that_is_behind_becomes_equal_and_goes_on_as_one_of_them() {
    let (mut leader, mut follower) = pair(10, 200);
    decide(&mut leader, compaction(150));
    decide(&mut leader, alarm(1));
    install(&mut follower, &leader);
    assert_equal(&leader, &follower);
    assert_eq!(follower.reader.alarms().len(), 1);
    let batch = decide(&mut leader, alarm(2));
    apply(&mut follower, batch);
    for number in 0..20 {
        let batch = decide(&mut leader, put_numbered(number));
        apply(&mut follower, batch);
    }
    assert_equal(&leader, &follower);
    for _ in 0..200 {
        follower.machine.maintain().unwrap();
    }
    let (index, revision) = (follower.index, follower.reader.revision());
    let mut follower = reopen(follower);
    assert_eq!(follower.recovered.applied_index, index);
    assert_equal(&leader, &follower);
    follower.machine.promote(Duration::ZERO);
    let question = LeaseTimeToLiveRequest { id: 5, keys: true };
    let answer = follower.reader.lease_time_to_live(&question).unwrap();
    assert_eq!(
        (answer.granted_ttl, &answer.keys[..]),
        (60, &[bytes("leased")][..])
    );
    follower.revoke(5).unwrap();
    assert_eq!(follower.get("leased", "", 0).unwrap().count, 0);
    assert_eq!(follower.reader.revision(), revision + 1);
}

/// Handles that were there before see the new state.
#[test]
fn readers_and_the_quota_are_those_of_the_new_state_at_once() {
    let (leader, mut follower) = pair(3, 300);
    let reader = follower.reader.clone();
    assert_eq!(reader.revision(), 4);
    install(&mut follower, &leader);
    assert_eq!(reader.revision(), leader.reader.revision());
    assert_eq!(reader.members(), leader.reader.members());
    let (used, log_bytes) = (reader.quota().0, reader.engine().status().log_bytes);
    assert!(used > 0 && used >= log_bytes, "{used} of {log_bytes}");
}

fn watch(store: &Store, key: &str, end: &str, start_revision: i64) -> WatchStream {
    let stream = store.reader.watch_hub().subscribe();
    stream.create(WatchCreateRequest {
        key: bytes(key),
        range_end: bytes(end),
        start_revision,
        ..WatchCreateRequest::default()
    });
    stream
}

fn drain(stream: &WatchStream) -> Vec<WatchResponse> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    std::iter::from_fn(|| runtime.block_on(soon(stream))).collect()
}

fn revisions_of(responses: &[WatchResponse]) -> Vec<i64> {
    let events = responses.iter().flat_map(|response| &response.events);
    events
        .map(|event| event.kv.as_ref().unwrap().mod_revision())
        .collect()
}

#[test]
fn watches_get_every_event_that_the_snapshot_has_brought() {
    let (mut leader, mut follower) = pair(5, 60);
    let everything = watch(&follower, "k", "l", 0);
    let one_key = watch(&follower, "k3", "", 2);
    let last = leader.reader.revision();
    let future = watch(&follower, "k", "l", last + 2);
    assert_eq!(revisions_of(&drain(&everything)), [0; 0]);
    assert_eq!(revisions_of(&drain(&one_key)), [5]);
    assert_eq!(revisions_of(&drain(&future)), [0; 0]);
    install(&mut follower, &leader);
    for number in 0..3 {
        let batch = decide(&mut leader, put_numbered(number));
        apply(&mut follower, batch);
    }
    // Revision 7 is of a key with a lease, which no watch covers.
    let expected: Vec<i64> = (8..=last + 3).collect();
    assert_eq!(revisions_of(&drain(&everything)), expected);
    let same_key = watch(&leader, "k3", "", 6);
    assert_eq!(
        revisions_of(&drain(&one_key)),
        revisions_of(&drain(&same_key))
    );
    assert_eq!(revisions_of(&drain(&future)), [last + 2, last + 3]);
}

#[test]
fn watches_with_compacted_events_are_canceled_with_the_compact_revision() {
    let (mut leader, mut follower) = pair(5, 60);
    let behind = watch(&follower, "k", "l", 0);
    let last = leader.reader.revision();
    let future = watch(&follower, "k", "l", last + 1);
    drain(&behind);
    decide(&mut leader, compaction(40));
    install(&mut follower, &leader);
    let responses = drain(&behind);
    let canceled = responses.last().unwrap();
    assert!(canceled.canceled, "{responses:?}");
    assert_eq!(canceled.compact_revision, 40);
    assert_eq!(revisions_of(&responses), [0; 0]);
    let batch = decide(&mut leader, put_numbered(1));
    apply(&mut follower, batch);
    assert_eq!(revisions_of(&drain(&future)), [last + 1]);
}

#[test]
fn a_member_that_was_never_filled_takes_a_snapshot_as_its_first_state() {
    let (mut leader, _) = pair(0, 30);
    let mut joining = quorum();
    install(&mut joining, &leader);
    let batch = decide(&mut leader, put_numbered(4));
    apply(&mut joining, batch);
    assert_equal(&leader, &joining);
    assert_equal(&leader, &reopen(joining));
}

#[test]
fn a_snapshot_that_is_not_needed_is_refused() {
    let (leader, mut follower) = pair(4, 10);
    install(&mut follower, &leader);
    let again = import(&follower.machine, &mut leader.machine.export(1 << 20));
    let refused = follower.machine.install(again).unwrap_err().to_string();
    assert!(refused.contains("it is not needed"), "{refused}");
    assert_equal(&leader, &follower);
}
