//! Members with quotas of their own.

use crate::meeting;

use cluster::{Error, Node};
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmMember, AlarmRequest, AlarmType};
use revisions::{Command, Response};

use meeting::{Cluster, in_time, put, put_surely, surely};

const QUOTA_BYTES: u64 = 8 << 20;

/// Only the third member has a quota; another one leads.
async fn with_a_small_follower() -> Cluster {
    let cluster = Cluster::start_with(|options| {
        let is_small = options.replica.machine.member_id == 3;
        options.replica.machine.quota_bytes = is_small.then_some(QUOTA_BYTES);
    });
    put_surely(cluster.node(0), "k", "v").await;
    in_time(async {
        while cluster.node(0).move_leader(1).await.is_err() && cluster.node(0).status().leader != 1
        {
            let leader = cluster.node(0).status().leader.max(1) as usize - 1;
            let _ = cluster.node(leader).move_leader(1).await;
        }
    })
    .await;
    cluster
}

fn alarms(action: AlarmAction) -> Command {
    Command::Alarm(AlarmRequest {
        action: action.into(),
        member_id: if action == AlarmAction::Get { 0 } else { 3 },
        alarm: AlarmType::Nospace.into(),
    })
}

async fn raised(node: &Node) -> Vec<AlarmMember> {
    match surely(node, &alarms(AlarmAction::Get)).await {
        Response::Alarm(response) => response.alarms,
        other => panic!("{other:?}"),
    }
}

fn is_no_space(outcome: &Result<Response, Error>) -> bool {
    let refusal = etcd_api::Error::NoSpace;
    matches!(outcome, Err(Error::Refused(revisions::Error::Etcd(error))) if *error == refusal)
}

#[tokio::test]
async fn a_follower_refuses_a_write_above_its_own_quota_and_raises_the_alarm() {
    let cluster = with_a_small_follower().await;
    assert!(raised(cluster.node(0)).await.is_empty());
    // The value alone is larger than the quota.
    let large = put("large", &"v".repeat(QUOTA_BYTES as usize));
    let outcome = in_time(cluster.node(2).execute(large)).await;
    assert!(is_no_space(&outcome), "{outcome:?}");
    in_time(async { while raised(cluster.node(0)).await.is_empty() {} }).await;
    let alarm = AlarmMember {
        member_id: 3,
        alarm: AlarmType::Nospace.into(),
    };
    assert_eq!(raised(cluster.node(0)).await, [alarm]);
    let outcome = in_time(cluster.node(0).execute(put("k", "w"))).await;
    assert!(is_no_space(&outcome), "{outcome:?}");
    surely(cluster.node(1), &alarms(AlarmAction::Deactivate)).await;
    put_surely(cluster.node(0), "k", "w").await;
    put_surely(cluster.node(2), "k", "x").await;
}

#[tokio::test]
async fn a_follower_that_exceeds_its_quota_raises_the_alarm_for_all_members() {
    let cluster = with_a_small_follower().await;
    let value = "v".repeat(64 << 10);
    let mut written = 0;
    // A put that fails because the leader changed may have been written.
    while !is_no_space(&in_time(cluster.node(0).execute(put("k", &value))).await) {
        written += value.len() as u64;
        assert!(written < 100 * QUOTA_BYTES, "no put is refused");
    }
    assert_eq!(raised(cluster.node(1)).await[0].member_id, 3);
}
