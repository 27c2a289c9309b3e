//! Leases with keys: some are revoked, some kept alive for a while, and all
//! others expire. After the end none may be left.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use environment::randomness::Random;
use etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseRevokeRequest, PutRequest, RangeRequest, kv_client::KvClient, lease_client::LeaseClient,
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

use super::scene::{PREFIX, Scene};
use crate::{client::end_of, process::Outcome};

const GRANT_INTERVAL: Duration = Duration::from_millis(200);
const SECONDS_MIN: u64 = 2;
const SECONDS_SPREAD: u64 = 3;
const KEYS_MAX: u64 = 5;
const RENEWALS_MAX: u64 = 10;
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);

/// Grants leases until the end; each one is revoked, kept alive for a while, or left to expire.
pub async fn grant(scene: Arc<Scene>, seed: u64) -> Outcome {
    let mut random = Random::from_seed(seed);
    let channel = scene.connect().await?;
    let mut lives = JoinSet::new();
    while !scene.has_ended() {
        scene.pause(GRANT_INTERVAL).await;
        let (scene, channel, random) = (scene.clone(), channel.clone(), random.split());
        lives.spawn(async move {
            scene.leases_held.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = live(&scene, channel, random).await {
                scene.complain("lease", &error);
            }
            scene.leases_held.fetch_sub(1, Ordering::Relaxed);
        });
        while lives.try_join_next().is_some() {}
    }
    while lives.join_next().await.is_some() {}
    Ok(())
}

/// How many leases and how many of their keys the server still has.
pub async fn left(scene: &Scene) -> Outcome<(usize, i64)> {
    let channel = scene.connect().await?;
    let mut client = LeaseClient::new(channel.clone());
    let answer = client.lease_leases(LeaseLeasesRequest {}).await?;
    let leases = answer.into_inner().leases.len();
    let request = RangeRequest {
        key: prefix().into(),
        range_end: end_of(&prefix()),
        count_only: true,
        ..RangeRequest::default()
    };
    let answer = KvClient::new(channel).range(request).await?;
    Ok((leases, answer.into_inner().count))
}

fn prefix() -> String {
    format!("{PREFIX}l/")
}

async fn live(scene: &Scene, channel: Channel, mut random: Random) -> Outcome {
    let mut client = LeaseClient::new(channel.clone());
    let request = LeaseGrantRequest {
        ttl: (SECONDS_MIN + random.below(SECONDS_SPREAD)) as i64,
        id: 0,
    };
    let id = client.lease_grant(request).await?.into_inner().id;
    scene.leases.fetch_add(1, Ordering::Relaxed);
    attach(scene, channel, id, random.below(KEYS_MAX)).await?;
    match random.below(3) {
        0 => {
            scene.pause(RENEWAL_INTERVAL).await;
            client.lease_revoke(LeaseRevokeRequest { id }).await?;
        }
        1 => renew(scene, &mut client, id, random.below(RENEWALS_MAX)).await?,
        _ => (),
    }
    Ok(())
}

async fn attach(scene: &Scene, channel: Channel, lease: i64, keys: u64) -> Outcome {
    let mut kv = KvClient::new(channel);
    for number in 0..keys {
        let request = PutRequest {
            key: format!("{}{lease:016x}/{number}", prefix()).into(),
            value: "held by a lease".into(),
            lease,
            ..PutRequest::default()
        };
        kv.put(request).await?;
        scene.operations.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Renews one time more than `more`. The first request is there before the
/// call: etcd answers nothing, not even the headers, until it has one.
async fn renew(scene: &Scene, client: &mut LeaseClient<Channel>, id: i64, more: u64) -> Outcome {
    let (requests, receiver) = mpsc::channel(1);
    requests.send(LeaseKeepAliveRequest { id }).await?;
    let receiver = ReceiverStream::new(receiver);
    let mut answers = client.lease_keep_alive(receiver).await?.into_inner();
    for _ in 0..more {
        renewed(&mut answers, id).await?;
        scene.pause(RENEWAL_INTERVAL).await;
        if scene.has_ended() {
            return Ok(());
        }
        requests.send(LeaseKeepAliveRequest { id }).await?;
    }
    renewed(&mut answers, id).await
}

async fn renewed(answers: &mut Streaming<LeaseKeepAliveResponse>, id: i64) -> Outcome {
    let answer = answers.message().await?.ok_or("keep-alive ended")?;
    if answer.ttl <= 0 {
        return Err(format!("lease {id:x} was kept alive and is gone").into());
    }
    Ok(())
}
