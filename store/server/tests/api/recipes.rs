//! The services Lock and Election.

use std::time::Duration;

use etcd_api::etcdserverpb::lease_client::LeaseClient;
use etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest, RangeRequest,
};
use etcd_api::v3electionpb::election_client::ElectionClient;
use etcd_api::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderRequest, ProclaimRequest, ResignRequest,
};
use etcd_api::v3lockpb::lock_client::LockClient;
use etcd_api::v3lockpb::{LockRequest, LockResponse, UnlockRequest};
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::serving::{Serving, bytes, get, get_prefix, put, serving};

/// A server, and one connection to it.
struct Scene {
    serving: Serving,
    channel: Channel,
}

impl Scene {
    async fn new() -> Scene {
        let serving = serving(&[]);
        let channel = serving.channel().await;
        Scene { serving, channel }
    }

    async fn lease(&self, id: i64, ttl: i64) {
        let request = LeaseGrantRequest { id, ttl };
        LeaseClient::new(self.channel.clone())
            .lease_grant(request)
            .await
            .unwrap();
    }

    async fn end_lease(&self, id: i64) {
        let request = LeaseRevokeRequest { id };
        LeaseClient::new(self.channel.clone())
            .lease_revoke(request)
            .await
            .unwrap();
    }

    /// Asks for the lock `m`, on a task of its own.
    fn lock(&self, lease: i64) -> JoinHandle<Result<LockResponse, Status>> {
        let mut client = LockClient::new(self.channel.clone());
        let request = LockRequest {
            name: bytes("m"),
            lease,
        };
        tokio::spawn(async move { Ok(client.lock(request).await?.into_inner()) })
    }

    async fn unlock(&self, key: &str) {
        let request = UnlockRequest { key: bytes(key) };
        LockClient::new(self.channel.clone())
            .unlock(request)
            .await
            .unwrap();
    }

    /// Campaigns for the office `m`, on a task of its own.
    fn campaign(&self, lease: i64, value: &str) -> JoinHandle<Result<CampaignResponse, Status>> {
        let mut client = ElectionClient::new(self.channel.clone());
        let (name, value) = (bytes("m"), bytes(value));
        let request = CampaignRequest { name, lease, value };
        tokio::spawn(async move { Ok(client.campaign(request).await?.into_inner()) })
    }

    fn election(&self) -> ElectionClient<Channel> {
        ElectionClient::new(self.channel.clone())
    }

    /// The keys below `m`.
    async fn keys(&self) -> Vec<String> {
        let range = RangeRequest {
            keys_only: true,
            ..get_prefix('m')
        };
        let found = self
            .serving
            .kv()
            .await
            .range(range)
            .await
            .unwrap()
            .into_inner();
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        found.kvs.iter().map(|kv| text(kv.key())).collect()
    }

    /// Waits until these are the keys.
    async fn has_keys(&self, expected: &[&str]) {
        while self.keys().await != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn got(lock: JoinHandle<Result<LockResponse, Status>>) -> String {
    let key = lock.await.unwrap().unwrap().key;
    String::from_utf8(key.to_vec()).unwrap()
}

#[tokio::test]
async fn a_lock_goes_from_one_to_the_next_in_the_order_of_their_requests() {
    let scene = Scene::new().await;
    let mut waiting = Vec::new();
    for lease in [0x30, 0x20, 0x10] {
        scene.lease(lease, 600).await;
        let lock = scene.lock(lease);
        while scene.keys().await.len() <= waiting.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        waiting.push(lock);
    }
    for (lock, key) in waiting.into_iter().zip(["m/30", "m/20", "m/10"]) {
        assert_eq!(got(lock).await, key);
        scene.unlock(key).await;
    }
    scene.has_keys(&[]).await;
}

#[tokio::test]
async fn a_lock_without_a_lease_gets_one_of_sixty_seconds() {
    let scene = Scene::new().await;
    let key = got(scene.lock(0)).await;
    let id = i64::from_str_radix(key.trim_start_matches("m/"), 16).unwrap();
    let request = LeaseTimeToLiveRequest { id, keys: true };
    let mut leases = LeaseClient::new(scene.channel.clone());
    let lease = leases
        .lease_time_to_live(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!((lease.granted_ttl, lease.keys), (60, vec![bytes(&key)]));
}

#[tokio::test]
async fn a_waiting_caller_that_goes_away_takes_its_key_with_it() {
    let scene = Scene::new().await;
    for lease in [1, 2, 3] {
        scene.lease(lease, 600).await;
    }
    got(scene.lock(1)).await;
    let second = scene.lock(2);
    scene.has_keys(&["m/1", "m/2"]).await;
    let third = scene.lock(3);
    scene.has_keys(&["m/1", "m/2", "m/3"]).await;
    second.abort();
    scene.has_keys(&["m/1", "m/3"]).await;
    let candidate = scene.campaign(2, "v");
    scene.has_keys(&["m/1", "m/2", "m/3"]).await;
    candidate.abort();
    scene.has_keys(&["m/1", "m/3"]).await;
    // The holder has gone with its connection, and keeps the lock until its lease ends.
    scene.end_lease(1).await;
    assert_eq!(got(third).await, "m/3");
}

#[tokio::test]
async fn a_lease_that_ends_passes_the_lock_on_and_ends_a_claim() {
    let scene = Scene::new().await;
    for lease in [1, 2, 3] {
        scene.lease(lease, 600).await;
    }
    got(scene.lock(1)).await;
    let second = scene.lock(2);
    scene.has_keys(&["m/1", "m/2"]).await;
    let third = scene.lock(3);
    scene.has_keys(&["m/1", "m/2", "m/3"]).await;
    scene.end_lease(2).await;
    scene.end_lease(1).await;
    let expired = second.await.unwrap().unwrap_err();
    assert_eq!(
        (expired.code(), expired.message()),
        (Code::Unknown, "mutex: session is expired")
    );
    assert_eq!(got(third).await, "m/3");
}

#[tokio::test]
async fn compacted_history_holds_no_claim_up() {
    let scene = Scene::new().await;
    scene.lease(1, 600).await;
    scene.lease(2, 600).await;
    got(scene.lock(1)).await;
    let second = scene.lock(2);
    scene.has_keys(&["m/1", "m/2"]).await;
    let mut kv = scene.serving.kv().await;
    let revision = kv.put(put("x", "1")).await.unwrap().into_inner();
    let revision = revision.header.unwrap().revision;
    let compaction = etcd_api::etcdserverpb::CompactionRequest {
        revision,
        physical: true,
    };
    kv.compact(compaction).await.unwrap();
    scene.unlock("m/1").await;
    assert_eq!(got(second).await, "m/2");
}

#[tokio::test]
async fn many_waiters_get_the_lock_one_after_another() {
    const WAITERS: i64 = 200;
    let scene = Scene::new().await;
    let mut waiting = tokio::task::JoinSet::new();
    for lease in 1..=WAITERS {
        scene.lease(lease, 600).await;
        let lock = scene.lock(lease);
        waiting.spawn(got(lock));
    }
    let mut holders = std::collections::HashSet::new();
    while let Some(key) = waiting.join_next().await {
        let key = key.unwrap();
        let keys = scene.keys().await;
        assert!(keys.contains(&key), "the holder has its key");
        scene.unlock(&key).await;
        assert!(holders.insert(key));
    }
    assert_eq!(holders.len() as i64, WAITERS);
}

#[tokio::test]
async fn leaders_follow_each_other_and_observers_see_them() {
    let scene = Scene::new().await;
    scene.lease(1, 600).await;
    scene.lease(2, 600).await;
    let request = || LeaderRequest { name: bytes("m") };
    let none = scene.election().leader(request()).await.unwrap_err();
    assert_eq!(
        (none.code(), none.message()),
        (Code::Unknown, "election: no leader")
    );
    // The observer is there before the first leader.
    let mut election = scene.election();
    let observing = tokio::spawn(async move { election.observe(request()).await.unwrap() });
    let first = scene.campaign(1, "one").await.unwrap().unwrap();
    let second = scene.campaign(2, "two");
    let mut observed = observing.await.unwrap().into_inner();
    let mut next = async || {
        let leader = observed.message().await.unwrap().unwrap();
        String::from_utf8(leader.kv.unwrap().value().to_vec()).unwrap()
    };
    assert_eq!(next().await, "one");
    let leader = first.leader.unwrap();
    let proclaimed = ProclaimRequest {
        leader: Some(leader.clone()),
        value: bytes("uno"),
    };
    scene.election().proclaim(proclaimed.clone()).await.unwrap();
    assert_eq!(next().await, "uno");
    scene.has_keys(&["m/1", "m/2"]).await;
    scene
        .election()
        .resign(ResignRequest {
            leader: Some(leader),
        })
        .await
        .unwrap();
    assert_eq!(next().await, "two");
    assert_eq!(second.await.unwrap().unwrap().leader.unwrap().key, "m/2");
    let late = scene.election().proclaim(proclaimed).await.unwrap_err();
    assert_eq!(
        (late.code(), late.message()),
        (Code::Unknown, "election: not leader")
    );
}

#[tokio::test]
async fn errors_of_inner_calls_have_their_text_and_no_code() {
    let scene = Scene::new().await;
    let unknown = scene.lock(7).await.unwrap().unwrap_err();
    let text = "etcdserver: requested lease not found";
    assert_eq!((unknown.code(), unknown.message()), (Code::Unknown, text));
    assert!(scene.keys().await.is_empty());
}

#[tokio::test]
async fn a_stopping_server_ends_those_that_wait() {
    let scene = Scene::new().await;
    scene.lease(1, 600).await;
    scene.lease(2, 600).await;
    got(scene.lock(1)).await;
    let second = scene.lock(2);
    scene.has_keys(&["m/1", "m/2"]).await;
    let mut election = scene.election();
    let observed = election.observe(LeaderRequest { name: bytes("m") }).await;
    let mut observed = observed.unwrap().into_inner();
    observed.message().await.unwrap();
    let mut serving = scene.serving;
    tokio::task::spawn_blocking(move || serving.stop())
        .await
        .unwrap();
    assert_eq!(second.await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert_eq!(
        observed.message().await.unwrap_err().code(),
        Code::Unavailable
    );
}

#[tokio::test]
async fn a_campaign_with_a_large_value_sees_its_own_key() {
    let scene = Scene::new().await;
    scene.lease(1, 600).await;
    let value = "v".repeat(1_000_000);
    scene.campaign(1, &value).await.unwrap().unwrap();
    scene.campaign(1, &value).await.unwrap().unwrap();
    let found = scene
        .serving
        .kv()
        .await
        .range(get("m/1"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        found.kvs[0].fields().version,
        1,
        "the same value is not proclaimed again"
    );
    let request = LeaderRequest { name: bytes("m") };
    let leader = scene.election().leader(request).await.unwrap().into_inner();
    assert_eq!(leader.kv.unwrap().value().len(), value.len());
}
