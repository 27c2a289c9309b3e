//! The service Lease.

use etcd_api::Error;
use etcd_api::etcdserverpb::lease_client::LeaseClient;
use etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest,
    LeaseTimeToLiveRequest, PutRequest,
};

use crate::serving::{bytes, get, put, serving};

#[tokio::test]
async fn revoking_a_lease_deletes_its_keys() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    let mut leases = LeaseClient::new(serving.channel().await);
    let granted = leases
        .lease_grant(LeaseGrantRequest { ttl: 100, id: 7 })
        .await
        .unwrap()
        .into_inner();
    assert_eq!((granted.id, granted.ttl), (7, 100));
    let again = leases
        .lease_grant(LeaseGrantRequest { ttl: 100, id: 7 })
        .await
        .unwrap_err();
    assert_eq!(again.message(), Error::LeaseExist.message());
    kv.put(PutRequest {
        lease: 7,
        ..put("a", "1")
    })
    .await
    .unwrap();

    let request = LeaseTimeToLiveRequest { id: 7, keys: true };
    let left = leases
        .lease_time_to_live(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!((left.granted_ttl, left.keys), (100, vec![bytes("a")]));
    let listed = leases
        .lease_leases(LeaseLeasesRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        listed
            .leases
            .iter()
            .map(|lease| lease.id)
            .collect::<Vec<_>>(),
        [7]
    );

    leases
        .lease_revoke(LeaseRevokeRequest { id: 7 })
        .await
        .unwrap();
    assert_eq!(kv.range(get("a")).await.unwrap().into_inner().count, 0);
    let gone = leases
        .lease_revoke(LeaseRevokeRequest { id: 7 })
        .await
        .unwrap_err();
    assert_eq!(gone.message(), Error::LeaseNotFound.message());
}

#[tokio::test]
async fn an_unknown_lease_has_no_time_left() {
    let serving = serving(&[]);
    let mut leases = LeaseClient::new(serving.channel().await);
    let request = LeaseTimeToLiveRequest { id: 7, keys: false };
    let left = leases
        .lease_time_to_live(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!((left.id, left.ttl), (7, -1));
    assert!(left.header.unwrap().revision > 0);
}

#[tokio::test]
async fn renewals_are_answered_one_by_one() {
    let serving = serving(&[]);
    let mut leases = LeaseClient::new(serving.channel().await);
    let granted = leases
        .lease_grant(LeaseGrantRequest { ttl: 60, id: 0 })
        .await
        .unwrap()
        .into_inner();
    assert!(granted.id > 0);
    let requests = [granted.id, granted.id, 12345].map(|id| LeaseKeepAliveRequest { id });
    let mut answers = leases
        .lease_keep_alive(tokio_stream::iter(requests))
        .await
        .unwrap()
        .into_inner();
    let mut ttls = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        assert!(answer.header.unwrap().member_id > 0);
        ttls.push(answer.ttl);
    }
    assert_eq!(ttls, [60, 60, 0]);
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_expires() {
    let serving = serving(&["--election-timeout=100", "--heartbeat-interval=10"]);
    let mut kv = serving.kv().await;
    let mut leases = LeaseClient::new(serving.channel().await);
    leases
        .lease_grant(LeaseGrantRequest { ttl: 1, id: 7 })
        .await
        .unwrap();
    kv.put(PutRequest {
        lease: 7,
        ..put("a", "1")
    })
    .await
    .unwrap();
    while kv.range(get("a")).await.unwrap().into_inner().count > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let request = LeaseTimeToLiveRequest { id: 7, keys: false };
    assert_eq!(
        leases
            .lease_time_to_live(request)
            .await
            .unwrap()
            .into_inner()
            .ttl,
        -1
    );
}
