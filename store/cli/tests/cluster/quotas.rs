//! Three members of which one, or all, use up their quota under load. As in etcd, the alarm of
//! one holds for all: no member takes a put, every member reads and deletes. After a
//! deletion, a compaction, defragmentations and a disarm all three serve again, and no
//! acknowledged write is lost.

use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmType, CompactionRequest, DefragmentRequest, DeleteRangeRequest,
    RangeRequest,
};
use tonic::{Code, Status};

use crate::rolling::{Load, Written, keys_of};
use crate::three::{LOOK, LOOKS_MAX, NAMES, Three, again, put};

const QUOTA_BYTES: i64 = 8 << 20;
const QUOTA_FLAG: &str = "--quota-backend-bytes=8388608";
const VALUE_BYTES: usize = 64 << 10;
const ALL: [usize; 3] = [0, 1, 2];

fn is_no_space(status: &Status) -> bool {
    let text = "etcdserver: mvcc: database space exceeded";
    (status.code(), status.message()) == (Code::ResourceExhausted, text)
}

/// Puts values until one is refused for lack of space; returns how many were acknowledged.
async fn put_until_refused(three: &Three, at: usize, round: &str) -> i64 {
    let value = "v".repeat(VALUE_BYTES);
    let mut kv = three.kv(at);
    let mut taken = 0;
    loop {
        match kv.put(put(&format!("{round}/{taken:04}"), &value)).await {
            Ok(_) => taken += 1,
            Err(status) if is_no_space(&status) => return taken,
            // The next attempt puts the same key.
            Err(status) => again(status).await,
        }
        let bytes = taken * VALUE_BYTES as i64;
        assert!(bytes < 10 * QUOTA_BYTES, "no quota holds up {bytes} bytes");
    }
}

/// Number of a round's keys that one member has, and the length of the last value.
async fn count(three: &Three, number: usize, round: &str) -> (i64, usize) {
    let request = RangeRequest {
        key: format!("{round}/").into(),
        range_end: format!("{round}0").into(),
        count_only: true,
        ..RangeRequest::default()
    };
    let counted = three.kv(number).range(request).await.unwrap();
    let keys = counted.into_inner().count;
    let last = three.get(number, &format!("{round}/{:04}", keys - 1)).await;
    (keys, last.map_or(0, |value| value.len()))
}

/// Sends a request about alarms to one member.
async fn alarms(three: &Three, number: usize, request: AlarmRequest) -> Vec<AlarmMember> {
    let mut maintenance = MaintenanceClient::new(three.channel(number));
    for _ in 0..LOOKS_MAX {
        match maintenance.alarm(request).await {
            Ok(response) => return response.into_inner().alarms,
            Err(status) => again(status).await,
        }
    }
    panic!("member {number} does nothing with alarms");
}

/// Waits until every member knows of the alarm.
async fn come_to_be_alarmed(three: &Three) -> Vec<AlarmMember> {
    for number in ALL {
        let mut looks = 0;
        while alarms(three, number, AlarmRequest::default())
            .await
            .is_empty()
        {
            looks += 1;
            assert!(looks < LOOKS_MAX, "member {number} knows of no alarm");
            tokio::time::sleep(LOOK).await;
        }
    }
    alarms(three, 0, AlarmRequest::default()).await
}

/// Checks that every member refuses puts, and serves reads and deletions.
async fn check_alarmed(three: &Three, round: &str, taken: i64) {
    for number in ALL {
        let refused = three.kv(number).put(put("refused", "1")).await.unwrap_err();
        assert!(is_no_space(&refused), "at {number}: {refused}");
        let found = count(three, number, round).await;
        assert_eq!(found, (taken, VALUE_BYTES), "at {number}");
        let deletion = DeleteRangeRequest {
            key: format!("spare{number}").into(),
            ..DeleteRangeRequest::default()
        };
        let deleted = three.kv(number).delete_range(deletion).await.unwrap();
        assert_eq!(deleted.into_inner().deleted, 1, "at {number}");
        let found = three.get((number + 1) % 3, "refused").await;
        assert_eq!(found, None, "a refused put wrote nothing");
    }
}

/// Deletes the keys of a range; returns the revision.
async fn delete(three: &Three, key: &str, end: &str) -> i64 {
    let deletion = DeleteRangeRequest {
        key: key.to_owned().into(),
        range_end: end.to_owned().into(),
        ..DeleteRangeRequest::default()
    };
    let deleted = three.kv(0).delete_range(deletion).await.unwrap();
    deleted.into_inner().header.unwrap().revision
}

/// Does what an operator has to do: deletes, compacts, defragments each member, and disarms
/// the alarms.
async fn relieve(three: &Three, round: &str) {
    let revision = delete(three, &format!("{round}/"), &format!("{round}0")).await;
    let compaction = CompactionRequest {
        revision,
        physical: true,
    };
    three.kv(0).compact(compaction).await.unwrap();
    for number in ALL {
        // With this revision the member has the deletion and the compaction, too.
        three.hash(number, revision).await;
        let mut maintenance = MaintenanceClient::new(three.channel(number));
        maintenance.defragment(DefragmentRequest {}).await.unwrap();
        let status = three.status(number).await.unwrap();
        assert!(
            status.db_size < status.db_size_quota / 2,
            "{number}: {status:?}"
        );
    }
    for alarm in alarms(three, 0, AlarmRequest::default()).await {
        let disarm = AlarmRequest {
            action: AlarmAction::Deactivate.into(),
            member_id: alarm.member_id,
            alarm: alarm.alarm,
        };
        alarms(three, 1, disarm).await;
    }
}

/// Uses up the quota through one member under load, then makes room; returns the members
/// that raised the alarm.
async fn use_up_and_relieve(three: &Three, at: usize, round: &str) -> Vec<u64> {
    for number in ALL {
        three.put(number, &format!("spare{number}"), "1").await;
    }
    let load = Load::start(three, 3, &ALL);
    let taken = put_until_refused(three, at, round).await;
    assert!(taken > 50, "{taken} values fit into the quota");
    let raised = come_to_be_alarmed(three).await;
    let nospace = i32::from(AlarmType::Nospace);
    assert!(raised.iter().all(|it| it.alarm == nospace), "{raised:?}");
    check_alarmed(three, round, taken).await;
    relieve(three, round).await;
    for number in ALL {
        three
            .put(number, &format!("{round}-after{number}"), "1")
            .await;
    }
    check_written(three, &load.stop().await).await;
    delete(three, "w", "x").await;
    raised.iter().map(|it| it.member_id).collect()
}

/// Checks that each member has exactly the keys that each writer wrote, and that each writer
/// was refused for lack of space and continued afterwards.
async fn check_written(three: &Three, written: &[Written]) {
    for Written {
        writer,
        keys,
        complaints,
    } in written
    {
        let strange = |it: &&Status| !is_no_space(it) && it.code() != Code::Unavailable;
        let strange = complaints.iter().find(strange);
        assert!(strange.is_none(), "{strange:?}");
        assert!(complaints.iter().any(is_no_space), "{complaints:?}");
        for number in ALL {
            let found = keys_of(three, number, *writer).await;
            assert_eq!(found, *keys, "of writer {writer} at {number}");
        }
    }
}

async fn check_end(three: &mut Three) {
    let revision = three.put(0, "last", "1").await;
    let mut hashes = Vec::new();
    for number in ALL {
        hashes.push(three.hash(number, revision).await.hash);
        let status = three.status(number).await.unwrap();
        assert!(status.errors.is_empty(), "{number}: {status:?}");
        assert!(three.is_running(number));
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
}

/// Starts a member again with the small quota.
async fn limit(three: &mut Three, number: usize) {
    three.stop(number).await;
    three.add_flag(number, QUOTA_FLAG);
    three.launch(number);
}

#[tokio::test]
async fn a_follower_over_its_quota_stops_puts_of_all_members_until_it_is_relieved() {
    let mut three = Three::prepare_all(&NAMES, &["--segment-bytes=1048576"]);
    ALL.into_iter().for_each(|number| three.launch(number));
    let revision = three.put(0, "first", "1").await;
    let leader = three.leader(0).await;
    let follower = (leader + 1) % 3;
    limit(&mut three, follower).await;
    three.hash(follower, revision).await;
    let raised = use_up_and_relieve(&three, leader, "one").await;
    let members = three.members(0).await;
    let limited = members
        .iter()
        .find(|it| it.name == NAMES[follower])
        .unwrap();
    assert_eq!(raised, [limited.id], "only one member has a quota so small");
    check_end(&mut three).await;
}

#[tokio::test]
async fn three_members_over_their_quotas_serve_again_after_they_were_relieved() {
    let mut three = Three::prepare_all(&NAMES, &["--segment-bytes=1048576", QUOTA_FLAG]);
    ALL.into_iter().for_each(|number| three.launch(number));
    three.put(0, "first", "1").await;
    // The leader may change between rounds; each round writes through another member.
    for round in ["one", "two", "three"] {
        let at = (three.leader(0).await + round.len()) % 3;
        let raised = use_up_and_relieve(&three, at, round).await;
        assert!(!raised.is_empty());
    }
    check_end(&mut three).await;
}
