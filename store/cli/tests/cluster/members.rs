//! Guarantees that clients of a cluster rely on.

use etcd_api::etcdserverpb::cluster_client::ClusterClient;
use etcd_api::etcdserverpb::lease_client::LeaseClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
    MemberRemoveRequest, MemberUpdateRequest, MoveLeaderRequest, PutRequest,
};
use harness::page;
use tonic::Request;
use tonic::metadata::MetadataValue;

use crate::metrics::sample;
use crate::three::{NAMES, Three, put};

#[tokio::test]
async fn a_write_through_one_member_is_seen_at_all() {
    let three = Three::start();
    for round in 0..30 {
        let writer = round % 3;
        three.put(writer, "k", &round.to_string()).await;
        for reader in 0..3 {
            let found = three.get(reader, "k").await;
            assert_eq!(found, Some(round.to_string()), "round {round} at {reader}");
        }
    }
    for asked in 0..3 {
        let members = three.named_members(asked).await;
        for (number, name) in NAMES.iter().enumerate() {
            let member = members.iter().find(|member| member.name == *name).unwrap();
            assert_eq!(member.peer_ur_ls, [three.peer_url(number)]);
            assert_eq!(member.client_ur_ls, [three.client_url(number)]);
        }
    }
    let statuses = [
        three.status(0).await.unwrap(),
        three.status(1).await.unwrap(),
        three.status(2).await.unwrap(),
    ];
    assert!(
        statuses
            .iter()
            .all(|status| status.leader == statuses[0].leader)
    );
    assert!(statuses.iter().all(|status| status.errors.is_empty()));
    let cluster = |at: usize| statuses[at].header.as_ref().unwrap().cluster_id;
    assert!(cluster(0) == cluster(1) && cluster(1) == cluster(2));
}

#[tokio::test]
async fn a_killed_leader_is_replaced_and_catches_up() {
    let mut three = Three::start();
    three.put(0, "before", "1").await;
    let lost = three.leader(0).await;
    three.kill(lost);
    let (one, other) = ((lost + 1) % 3, (lost + 2) % 3);
    let mut revision = 0;
    for number in 0..200 {
        revision = three
            .put(one, &format!("k{number}"), "while it was away")
            .await;
    }
    assert_eq!(
        three.get(other, "k199").await.as_deref(),
        Some("while it was away")
    );
    three.launch(lost);
    assert_eq!(
        three.get(lost, "k199").await.as_deref(),
        Some("while it was away")
    );
    let hashes = [
        three.hash(0, revision).await,
        three.hash(1, revision).await,
        three.hash(2, revision).await,
    ];
    assert!(
        hashes.iter().all(|hash| hash.hash == hashes[0].hash),
        "{hashes:?}"
    );
    assert!(hashes.iter().all(|hash| hash.hash_revision == revision));
}

#[tokio::test]
async fn without_a_majority_calls_fail_and_local_reads_succeed() {
    let mut three = Three::start();
    three.put(0, "k", "kept").await;
    assert_eq!(three.get(2, "k").await.as_deref(), Some("kept"));
    three.kill(0);
    three.kill(1);
    while three.status(2).await.unwrap().leader != 0 {
        tokio::task::yield_now().await;
    }
    let status = three.status(2).await.unwrap();
    assert_eq!(status.errors, ["etcdserver: no leader"]);
    let mut needy = Request::new(put("k", "lost"));
    let yes = MetadataValue::from_static("true");
    needy.metadata_mut().insert("hasleader", yes);
    let refused = three.kv(2).put(needy).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: no leader");
    let late = three.kv(2).put(put("k", "lost")).await.unwrap_err();
    assert!(
        late.message().starts_with("etcdserver: request timed out"),
        "{late}"
    );
    let mut local = etcd_api::etcdserverpb::RangeRequest {
        key: "k".into(),
        ..Default::default()
    };
    let late = three.kv(2).range(local.clone()).await.unwrap_err();
    assert!(
        late.message().starts_with("etcdserver: request timed out"),
        "{late}"
    );
    local.serializable = true;
    let found = three.kv(2).range(local).await.unwrap().into_inner();
    assert_eq!(found.kvs[0].value(), &b"kept"[..]);
    let health = page::get(three.client_address(2), "/health").unwrap();
    assert_eq!(health.status, 503, "{health:?}");
    assert!(health.body.contains("RAFT NO LEADER"), "{health:?}");
    three.launch(1);
    three.put(2, "k", "after").await;
    let leads = sample(&three, 2, "etcd_server_has_leader");
    assert_eq!(leads, Some(1.0));
}

#[tokio::test]
async fn a_lease_is_renewed_and_looked_at_through_any_member() {
    let three = Three::start();
    three.put(0, "k", "1").await;
    let leader = three.leader(0).await;
    let follower = (leader + 1) % 3;
    let mut granted = LeaseClient::connect(three.client_url(leader))
        .await
        .unwrap();
    let mut asked = LeaseClient::connect(three.client_url(follower))
        .await
        .unwrap();
    let grant = LeaseGrantRequest { ttl: 600, id: 7 };
    granted.lease_grant(grant).await.unwrap();
    three
        .kv(follower)
        .put(PutRequest {
            lease: 7,
            ..put("l", "1")
        })
        .await
        .unwrap();
    let request = LeaseTimeToLiveRequest { id: 7, keys: true };
    let left = asked
        .lease_time_to_live(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!((left.granted_ttl, left.keys.len()), (600, 1));
    for (id, expected) in [(7, 600), (8, 0)] {
        let renewals = tokio_stream::iter([LeaseKeepAliveRequest { id }]);
        let renewed = asked.lease_keep_alive(renewals).await.unwrap();
        let renewed = renewed.into_inner().message().await.unwrap().unwrap();
        assert_eq!((renewed.id, renewed.ttl), (id, expected));
    }
    asked
        .lease_revoke(LeaseRevokeRequest { id: 7 })
        .await
        .unwrap();
    assert_eq!(three.get(leader, "l").await, None);
    let left = asked
        .lease_time_to_live(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(left.ttl, -1);
}

#[tokio::test]
async fn the_lead_is_transferred_on_request() {
    let three = Three::start();
    three.put(0, "k", "1").await;
    let members = three.named_members(0).await;
    let leader = three.leader(0).await;
    let next = (leader + 1) % 3;
    let target = members
        .iter()
        .find(|member| member.name == NAMES[next])
        .unwrap();
    let request = MoveLeaderRequest {
        target_id: target.id,
    };
    let mut others = MaintenanceClient::connect(three.client_url(next))
        .await
        .unwrap();
    let refused = others.move_leader(request).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: not leader");
    let mut leaders = MaintenanceClient::connect(three.client_url(leader))
        .await
        .unwrap();
    let unknown = MoveLeaderRequest { target_id: 1 };
    let refused = leaders.move_leader(unknown).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: bad leader transferee");
    leaders.move_leader(request).await.unwrap();
    assert_eq!(three.leader(leader).await, next);
    three.put(leader, "k", "2").await;
    assert_eq!(three.get(next, "k").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_member_moves_and_another_leaves() {
    // A strict cluster would wait until its members have been up for a while.
    let three = Three::start_with(&["--strict-reconfig-check=false"]);
    let members = three.named_members(0).await;
    let leader = three.leader(0).await;
    let (stays, leaves) = ((leader + 1) % 3, (leader + 2) % 3);
    let leaver = members
        .iter()
        .find(|member| member.name == NAMES[leaves])
        .unwrap();
    let mut cluster = ClusterClient::connect(three.client_url(stays))
        .await
        .unwrap();
    let mut peer_urls = vec![three.peer_url(leaves), "http://127.0.0.1:1".to_owned()];
    let update = MemberUpdateRequest {
        id: leaver.id,
        peer_ur_ls: peer_urls.clone(),
    };
    let updated = cluster.member_update(update).await.unwrap().into_inner();
    let found = updated.members.iter().find(|member| member.id == leaver.id);
    let mut found = found.unwrap().peer_ur_ls.clone();
    found.sort();
    peer_urls.sort();
    assert_eq!(found, peer_urls);
    let remove = MemberRemoveRequest { id: leaver.id };
    let left = cluster.member_remove(remove).await.unwrap().into_inner();
    assert_eq!(left.members.len(), 2);
    let again = cluster.member_remove(remove).await.unwrap_err();
    assert_eq!(again.message(), "etcdserver: member not found");
    three.put(stays, "k", "two of two").await;
    assert_eq!(three.get(leader, "k").await.as_deref(), Some("two of two"));
}
