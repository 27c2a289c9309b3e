//! Puts, gets, ranges, transactions and deletes over a bounded key space,
//! visitors that connect for one call, and the compaction of old revisions.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp,
    ResponseHeader, TxnRequest, compare, kv_client::KvClient, request_op::Request,
};
use tokio::time::MissedTickBehavior;
use tonic::{Status, transport::Channel};

use super::scene::{KEYS, PREFIX, Scene};
use crate::{client::end_of, process::Outcome};

const VALUE_BYTES_MAX: u64 = 2_000;
const RANGE_KEYS_MAX: u64 = 100;
const VISIT_INTERVAL: Duration = Duration::from_millis(200);
const COMPACTION_INTERVAL: Duration = Duration::from_secs(3);
/// Revisions that stay readable.
const HISTORY_REVISIONS: i64 = 5_000;

/// One operation per `interval` over one connection, until the end.
pub async fn work(scene: Arc<Scene>, seed: u64, interval: Duration) -> Outcome {
    let mut random = Random::from_seed(seed);
    let mut kv = scene.kv().await?;
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !scene.has_ended() {
        ticks.tick().await;
        one(&scene, &mut kv, &mut random).await;
    }
    Ok(())
}

/// Connects for a single operation, again and again.
pub async fn visit(scene: Arc<Scene>, seed: u64) -> Outcome {
    let mut random = Random::from_seed(seed);
    while !scene.has_ended() {
        let mut kv = scene.kv().await?;
        one(&scene, &mut kv, &mut random).await;
        drop(kv);
        scene.pause(VISIT_INTERVAL).await;
    }
    Ok(())
}

/// Compacts old history, until the end.
pub async fn compact(scene: Arc<Scene>) -> Outcome {
    let mut kv = scene.kv().await?;
    let mut compacted = 0;
    while !scene.has_ended() {
        scene.pause(COMPACTION_INTERVAL).await;
        let revision = scene.revision.load(Ordering::Relaxed) - HISTORY_REVISIONS;
        if revision <= compacted {
            continue;
        }
        let request = CompactionRequest {
            revision,
            physical: false,
        };
        match kv.compact(request).await {
            Ok(_) => scene.compactions.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                scene.complain("compaction", &error);
                continue;
            }
        };
        compacted = revision;
    }
    Ok(())
}

/// Prefix of the keys of the bounded space.
pub fn space() -> String {
    format!("{PREFIX}k/")
}

/// Any key of the bounded space.
pub fn any_key(random: &mut Random) -> Bytes {
    Bytes::from(format!("{}{:05}", space(), random.below(KEYS)))
}

async fn one(scene: &Scene, kv: &mut KvClient<Channel>, random: &mut Random) {
    match send(kv, random).await {
        Ok(header) => {
            scene.operations.fetch_add(1, Ordering::Relaxed);
            scene.note_revision(header.map_or(0, |header| header.revision));
        }
        Err(error) => scene.complain("operation", &error),
    }
}

async fn send(
    kv: &mut KvClient<Channel>,
    random: &mut Random,
) -> Result<Option<ResponseHeader>, Status> {
    let key = any_key(random);
    Ok(match random.below(20) {
        0..=8 => kv.put(put(key, random)).await?.into_inner().header,
        9..=12 => kv.range(get(key)).await?.into_inner().header,
        13 => kv.range(scan(key, random)).await?.into_inner().header,
        14..=17 => kv.txn(transaction(key, random)).await?.into_inner().header,
        _ => kv.delete_range(delete(key)).await?.into_inner().header,
    })
}

fn put(key: Bytes, random: &mut Random) -> PutRequest {
    let mut value = vec![0; random.below(VALUE_BYTES_MAX) as usize];
    random.fill(&mut value);
    PutRequest {
        key,
        value: value.into(),
        ..PutRequest::default()
    }
}

fn get(key: Bytes) -> RangeRequest {
    RangeRequest {
        key,
        ..RangeRequest::default()
    }
}

fn scan(key: Bytes, random: &mut Random) -> RangeRequest {
    RangeRequest {
        key,
        range_end: end_of(&space()),
        limit: 1 + random.below(RANGE_KEYS_MAX) as i64,
        ..RangeRequest::default()
    }
}

fn delete(key: Bytes) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key,
        prev_kv: true,
        ..DeleteRangeRequest::default()
    }
}

/// If the key is there, put it and another one; else put it and read.
fn transaction(key: Bytes, random: &mut Random) -> TxnRequest {
    let is_there = Compare {
        result: compare::CompareResult::Greater.into(),
        target: compare::CompareTarget::Create.into(),
        key: key.clone(),
        target_union: Some(compare::TargetUnion::CreateRevision(0)),
        ..Compare::default()
    };
    let mut other = any_key(random);
    if other == key {
        // The same key twice in one branch would be refused.
        other = Bytes::from(format!("{}other", space()));
    }
    let success = [put(key.clone(), random), put(other.clone(), random)];
    let failure = [
        Request::RequestPut(put(key, random)),
        Request::RequestRange(get(other)),
    ];
    TxnRequest {
        compare: vec![is_there],
        success: success.map(Request::RequestPut).map(operation).into(),
        failure: failure.map(operation).into(),
    }
}

fn operation(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}
