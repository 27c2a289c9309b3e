//! Members with damaged files in a cluster of healthy ones.

use crate::scene;

use std::path::Path;

use environment::{Disk, OpenMode};
use etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use revisions::{Command, Response};
use tokio::sync::oneshot;

use scene::{Cluster, Pending, is_done};

const LOG: &str = "/data/00000001.log";
const CHECKPOINT: &str = "/data/0000000000000001.checkpoint";

fn put(cluster: &mut Cluster, at: u64, request: PutRequest) -> Pending {
    let (answer, receiver) = oneshot::channel();
    let command = Command::Put(request);
    assert!(cluster.replica(at).takes(&command));
    cluster.replica(at).propose(&command, answer);
    cluster.run_until_quiet();
    receiver
}

fn request(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..PutRequest::default()
    }
}

/// The offset of a value in a member's log.
fn place_of(cluster: &Cluster, id: u64, value: &str) -> u64 {
    let disk = &cluster.machines[id as usize - 1].disk;
    let file = disk.open(Path::new(LOG), OpenMode::Read).unwrap();
    let mut content = vec![0; file.size().unwrap() as usize];
    file.read_at(&mut content, 0).unwrap();
    let mut parts = content.windows(value.len());
    parts.position(|part| part == value.as_bytes()).unwrap() as u64
}

fn damage(cluster: &Cluster, id: u64, value: &str) {
    let place = place_of(cluster, id, value);
    let disk = &cluster.machines[id as usize - 1].disk;
    disk.flip_bit(Path::new(LOG), place, 1);
}

fn value_at(cluster: &mut Cluster, id: u64, key: &str) -> Result<Vec<u8>, String> {
    let asked = RangeRequest {
        key: key.to_owned().into(),
        ..RangeRequest::default()
    };
    let found = cluster.replica(id).reader().range(&asked);
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.kvs[0].value().to_vec())
}

const VALUE: &str = "a value that all members have";

/// Three members with some keys, flushed.
fn three() -> Cluster {
    let mut cluster = Cluster::new(3);
    for (key, value) in [("a", "first"), ("k", VALUE), ("z", "last")] {
        assert!(is_done(&mut put(&mut cluster, 1, request(key, value))));
    }
    cluster.until(Cluster::agrees);
    cluster
}

#[test]
fn a_damaged_value_on_a_follower_is_repaired_from_another_member() {
    let mut cluster = three();
    damage(&cluster, 2, VALUE);
    let error = value_at(&mut cluster, 2, "k").unwrap_err();
    assert!(
        error.contains("\"k\"") && error.contains("00000001.log"),
        "{error}"
    );
    cluster.tick();
    cluster.tick();
    assert_eq!(value_at(&mut cluster, 2, "k").unwrap(), VALUE.as_bytes());
    // The repaired value is on the device.
    cluster.lose_power(2);
    cluster.start(2);
    assert_eq!(value_at(&mut cluster, 2, "k").unwrap(), VALUE.as_bytes());
}

#[test]
fn a_damaged_value_on_a_leader_is_repaired_from_a_follower() {
    let mut cluster = three();
    damage(&cluster, 1, VALUE);
    let with_previous = || PutRequest {
        prev_kv: true,
        ..request("k", "another")
    };
    let mut refused = put(&mut cluster, 1, with_previous());
    let error = refused.try_recv().unwrap().unwrap_err();
    assert!(error.to_string().contains("\"k\""), "{error}");
    cluster.tick();
    cluster.tick();
    let mut answer = put(&mut cluster, 1, with_previous());
    let Response::Put(answer) = answer.try_recv().unwrap().unwrap() else {
        panic!("a put is answered as a put");
    };
    assert_eq!(answer.prev_kv.unwrap().value(), VALUE.as_bytes());
    assert_eq!(cluster.leader(), 1);
}

#[test]
fn a_put_over_a_damaged_value_makes_the_same_version_on_all_members() {
    let mut cluster = three();
    damage(&cluster, 1, VALUE);
    damage(&cluster, 3, VALUE);
    assert!(is_done(&mut put(&mut cluster, 1, request("k", "another"))));
    cluster.until(Cluster::agrees);
    let asked = RangeRequest {
        key: "k".into(),
        ..RangeRequest::default()
    };
    let found: Vec<_> = (1..=3)
        .map(|id| cluster.replica(id).reader().range(&asked).unwrap().kvs)
        .collect();
    assert_eq!(found[0][0].version(), 2);
    assert!(found.iter().all(|kvs| *kvs == found[0]));
}

#[test]
fn a_member_that_was_rebuilt_from_its_log_asks_the_others_before_it_votes() {
    let mut cluster = three();
    cluster.kill(2);
    let disk = &cluster.machines[1].disk;
    disk.flip_bit(Path::new(CHECKPOINT), 40, 3);
    cluster.part(&[2]);
    cluster.start(2);
    assert!(cluster.rejoins(2));
    cluster.kill(2);
    cluster.start(2);
    assert!(cluster.rejoins(2), "a restart does not make it whole");
    cluster.cut.clear();
    cluster.until(|cluster| !cluster.rejoins(2) && cluster.agrees());
    assert_eq!(value_at(&mut cluster, 2, "k").unwrap(), VALUE.as_bytes());
}

/// Flips a bit in the header of the frame that has this value, in a stopped member's log.
fn damage_frame(cluster: &Cluster, id: u64, value: &str) {
    let place = place_of(cluster, id, value);
    let disk = &cluster.machines[id as usize - 1].disk;
    let file = disk.open(Path::new(LOG), OpenMode::Read).unwrap();
    let mut content = vec![0; place as usize];
    file.read_at(&mut content, 0).unwrap();
    let magic = content
        .windows(4)
        .rposition(|part| part == b"IKFR")
        .unwrap() as u64;
    disk.flip_bit(Path::new(LOG), magic + 20, 1);
}

#[test]
fn a_member_with_a_damaged_log_gets_the_rest_from_the_others_and_votes_again() {
    let mut cluster = three();
    for key in ["later", "and later"] {
        assert!(is_done(&mut put(&mut cluster, 1, request(key, "x"))));
    }
    cluster.until(Cluster::agrees);
    let term = cluster.replica(2).term();
    cluster.kill(2);
    damage_frame(&cluster, 2, VALUE);
    cluster.part(&[2]);
    cluster.start(2);
    assert!(cluster.rejoins(2), "it lacks acknowledged entries");
    assert!(!cluster.has(2, "later"));
    assert_eq!(
        cluster.replica(2).term(),
        term,
        "its terms and votes are kept"
    );
    cluster.kill(2);
    cluster.start(2);
    assert!(cluster.rejoins(2), "a restart does not make it whole");
    // Together with the only other member that it reaches it elects no leader.
    cluster.cut.clear();
    cluster.part(&[1]);
    cluster.long();
    assert!(!cluster.replica(3).leads() && !cluster.replica(2).leads());
    cluster.cut.clear();
    cluster.until(|cluster| cluster.leader() != 0 && cluster.agrees() && !cluster.rejoins(2));
    assert_eq!(value_at(&mut cluster, 2, "k").unwrap(), VALUE.as_bytes());
    assert!(cluster.has(2, "and later"));
    let leader = cluster.leader();
    assert!(is_done(&mut put(&mut cluster, leader, request("k", "new"))));
}

#[test]
fn a_member_that_starts_with_a_damaged_value_in_its_log_gets_it_back() {
    let mut cluster = three();
    for key in ["later", "and later"] {
        assert!(is_done(&mut put(&mut cluster, 1, request(key, "x"))));
    }
    cluster.until(Cluster::agrees);
    cluster.kill(2);
    damage(&cluster, 2, VALUE);
    cluster.start(2);
    assert!(
        cluster.rejoins(2),
        "the key of the damaged record is uncertain"
    );
    cluster.until(|cluster| !cluster.rejoins(2) && cluster.agrees());
    assert_eq!(value_at(&mut cluster, 2, "k").unwrap(), VALUE.as_bytes());
    assert!(cluster.has(2, "and later"));
}
