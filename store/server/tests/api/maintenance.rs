//! The services Maintenance and Cluster.

use etcd_api::Error;
use etcd_api::etcdserverpb::cluster_client::ClusterClient;
use etcd_api::etcdserverpb::downgrade_request::DowngradeAction;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::{
    AlarmRequest, DefragmentRequest, DowngradeInfo, DowngradeRequest, HashKvRequest, HashRequest,
    MemberAddRequest, MemberListRequest, MoveLeaderRequest, StatusRequest,
};
use tonic::Code;

use crate::serving::{get, put, serving};

#[tokio::test]
async fn status_has_versions_sizes_and_the_leader() {
    let serving = serving(&["--quota-backend-bytes=1000000000"]);
    serving.kv().await.put(put("a", "1")).await.unwrap();
    let mut maintenance = MaintenanceClient::new(serving.channel().await);
    let status = maintenance
        .status(StatusRequest {})
        .await
        .unwrap()
        .into_inner();
    let header = status.header.unwrap();
    assert_eq!(status.version, "3.7.3");
    assert_eq!(status.storage_version, "3.7.0");
    assert_eq!(status.leader, header.member_id);
    assert_eq!(header.revision, 2);
    assert_eq!(status.db_size_quota, 1_000_000_000);
    assert!(status.db_size > 0 && status.db_size_in_use <= status.db_size);
    assert!(status.raft_applied_index <= status.raft_index);
    assert!(status.errors.is_empty(), "{:?}", status.errors);
}

#[tokio::test]
async fn size_in_use_of_an_empty_store_is_the_size_of_its_headers() {
    let mut serving = serving(&[]);
    for start in 1..=2 {
        let mut maintenance = MaintenanceClient::new(serving.channel().await);
        let answer = maintenance.status(StatusRequest {}).await.unwrap();
        let status = answer.into_inner();
        let (size, in_use) = (status.db_size, status.db_size_in_use);
        assert!(in_use >= 4096, "start {start}: {in_use}");
        assert!(in_use <= size, "start {start}: {in_use} of {size}");
        let page = crate::http::get(&serving, "/metrics").await.body;
        let gauge = format!("etcd_mvcc_db_total_size_in_use_in_bytes {in_use}\n");
        assert!(page.contains(&gauge), "start {start}: {page}");
        serving.stop();
        serving.start();
    }
}

#[tokio::test]
async fn hashes_agree_before_and_after_a_restart() {
    let mut serving = serving(&[]);
    let mut kv = serving.kv().await;
    for value in 0..10 {
        kv.put(put("a", &value.to_string())).await.unwrap();
    }
    let hash_at = async |serving: &crate::serving::Serving, revision| {
        let mut maintenance = MaintenanceClient::new(serving.channel().await);
        maintenance
            .hash_kv(HashKvRequest { revision })
            .await
            .unwrap()
            .into_inner()
    };
    let before = hash_at(&serving, 5).await;
    assert_eq!(before.hash_revision, 5);
    assert_eq!(before.header.as_ref().unwrap().revision, 11);
    let mut maintenance = MaintenanceClient::new(serving.channel().await);
    assert!(
        maintenance
            .hash(HashRequest {})
            .await
            .unwrap()
            .into_inner()
            .header
            .is_some()
    );
    serving.stop();
    serving.start();
    assert_eq!(hash_at(&serving, 5).await.hash, before.hash);
    assert_ne!(hash_at(&serving, 0).await.hash, before.hash);
}

#[tokio::test]
async fn an_alarm_is_raised_seen_in_health_and_cleared() {
    let serving = serving(&[]);
    let mut maintenance = MaintenanceClient::new(serving.channel().await);
    let mut alarm = async |action| {
        let request = AlarmRequest {
            action,
            member_id: 5,
            alarm: 1,
        };
        maintenance
            .alarm(request)
            .await
            .unwrap()
            .into_inner()
            .alarms
    };
    assert_eq!(alarm(1).await.len(), 1);
    assert_eq!(alarm(0).await[0].member_id, 5);
    let health = crate::http::get(&serving, "/health").await;
    assert_eq!(health.status, 503);
    assert!(
        health
            .body
            .contains(r#"{"health":"false","reason":"ALARM NOSPACE"}"#)
    );
    assert_eq!(
        crate::http::get(&serving, "/health?exclude=NOSPACE")
            .await
            .status,
        200
    );
    let refused = serving.kv().await.put(put("a", "1")).await.unwrap_err();
    assert_eq!(refused.message(), Error::NoSpace.message());
    assert_eq!(alarm(2).await.len(), 1);
    assert!(alarm(0).await.is_empty());
    serving.kv().await.put(put("a", "1")).await.unwrap();
}

#[tokio::test]
async fn defragmenting_keeps_every_key() {
    let serving = serving(&["--durability=os"]);
    let mut kv = serving.kv().await;
    for _ in 0..20 {
        kv.put(put("a", &"x".repeat(1000))).await.unwrap();
    }
    let mut maintenance = MaintenanceClient::new(serving.channel().await);
    maintenance.defragment(DefragmentRequest {}).await.unwrap();
    assert_eq!(
        kv.range(get("a")).await.unwrap().into_inner().kvs[0].version(),
        20
    );
}

#[tokio::test]
async fn a_lone_member_lists_itself_and_says_how_others_could_join() {
    let serving = serving(&["--name=n1"]);
    let mut cluster = ClusterClient::new(serving.channel().await);
    let list = cluster
        .member_list(MemberListRequest { linearizable: true })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(list.members.len(), 1);
    assert_eq!(list.members[0].name, "n1");
    assert_eq!(list.members[0].peer_ur_ls, ["http://localhost:2380"]);
    assert_eq!(list.members[0].client_ur_ls, ["http://127.0.0.1:2379"]);
    assert_eq!(list.header.unwrap().revision, 0);
    let refused = cluster
        .member_add(MemberAddRequest {
            peer_ur_ls: vec!["http://a:1".into()],
            is_learner: true,
        })
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.message().contains("--listen-peer-urls"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_downgrade_is_enabled_once_and_survives_a_restart() {
    let mut serving = serving(&[]);
    for is_enabled in [false, true] {
        let mut maintenance = MaintenanceClient::new(serving.channel().await);
        let mut downgrade = async |action, version: &str| {
            let version = version.to_owned();
            let answer = maintenance.downgrade(DowngradeRequest { action, version });
            answer.await.map(|answer| answer.into_inner())
        };
        let enable = DowngradeAction::Enable as i32;
        if is_enabled {
            let again = downgrade(enable, "3.6").await.unwrap_err();
            assert_eq!(again.message(), Error::DowngradeInProcess.message());
            let other = downgrade(enable, "3.5").await.unwrap_err();
            assert_eq!(
                other.message(),
                Error::InvalidDowngradeTargetVersion.message()
            );
            downgrade(DowngradeAction::Cancel as i32, "").await.unwrap();
        }
        let answer = downgrade(enable, "3.6").await.unwrap();
        assert_eq!(answer.version, "3.7");
        assert_eq!(answer.header.unwrap().revision, 1);
        let unknown = downgrade(7, "3.6").await.unwrap_err();
        assert_eq!(
            (unknown.code(), unknown.message()),
            (Code::Unknown, "etcdserver: unknown method")
        );
        let status = maintenance
            .status(StatusRequest {})
            .await
            .unwrap()
            .into_inner();
        let info = DowngradeInfo {
            enabled: true,
            target_version: "3.6.0".to_owned(),
        };
        assert_eq!(status.downgrade_info, Some(info));
        assert_eq!(status.storage_version, "3.7.0");
        serving.stop();
        serving.start();
    }
}

#[tokio::test]
async fn the_lead_is_handed_to_members_only() {
    let serving = serving(&[]);
    let mut maintenance = MaintenanceClient::new(serving.channel().await);
    let unknown = MoveLeaderRequest { target_id: 1 };
    let refused = maintenance.move_leader(unknown).await.unwrap_err();
    assert_eq!(refused.message(), Error::BadLeaderTransferee.message());
}
