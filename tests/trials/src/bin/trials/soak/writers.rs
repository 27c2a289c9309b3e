//! Reads and writes over a bounded key space, visitors that connect for one call, and the
//! compaction of old revisions.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use environment::randomness::Random;
use history::Request;
use tokio::time::MissedTickBehavior;
use tonic::transport::Channel;

use super::scene::{PREFIX, Scene};
use crate::{
    client,
    load::{Keys, Load},
    process::Outcome,
};

/// Keys that are written again and again.
const KEYS: u64 = 10_000;
const VALUE_BYTES_MAX: u64 = 2_000;
const VISIT_INTERVAL: Duration = Duration::from_millis(200);
const COMPACTION_INTERVAL: Duration = Duration::from_secs(3);
/// Revisions that stay readable.
const HISTORY_REVISIONS: i64 = 5_000;

/// The bounded space.
pub fn keys() -> Keys {
    Keys {
        prefix: format!("{PREFIX}k/"),
        many: KEYS,
        value_bytes: |random| random.below(VALUE_BYTES_MAX),
    }
}

/// One operation per `interval` over one connection, until the end.
pub async fn work(scene: Arc<Scene>, number: u32, seed: u64, interval: Duration) -> Outcome {
    let mut random = Random::from_seed(seed);
    let mut load = Load::new(number, keys());
    let channel = scene.connect().await?;
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !scene.has_ended() {
        ticks.tick().await;
        one(&scene, &channel, &mut load, &mut random).await;
    }
    Ok(())
}

/// Connects for a single operation, again and again.
pub async fn visit(scene: Arc<Scene>, number: u32, seed: u64) -> Outcome {
    let mut random = Random::from_seed(seed);
    let mut load = Load::new(number, keys());
    while !scene.has_ended() {
        let channel = scene.connect().await?;
        one(&scene, &channel, &mut load, &mut random).await;
        drop(channel);
        scene.pause(VISIT_INTERVAL).await;
    }
    Ok(())
}

/// Compacts old history, until the end.
pub async fn compact(scene: Arc<Scene>) -> Outcome {
    let channel = scene.connect().await?;
    let mut compacted = 0;
    while !scene.has_ended() {
        scene.pause(COMPACTION_INTERVAL).await;
        let revision = scene.revision.load(Ordering::Relaxed) - HISTORY_REVISIONS;
        if revision <= compacted {
            continue;
        }
        match client::send(channel.clone(), &Request::Compact { revision }).await {
            Ok(_) => {
                scene.compactions.fetch_add(1, Ordering::Relaxed);
                compacted = revision;
            }
            Err(error) => scene.complain("compaction", &error),
        }
    }
    Ok(())
}

async fn one(scene: &Scene, channel: &Channel, load: &mut Load, random: &mut Random) {
    let mut request = load.draw(random);
    if let Request::Get { revision, .. } = &mut request {
        // A revision that this client has seen long ago may be compacted.
        *revision = 0;
    }
    match client::send(channel.clone(), &request).await {
        Ok(answer) => {
            scene.operations.fetch_add(1, Ordering::Relaxed);
            scene.note_revision(answer.revision);
            load.learn(&request, &answer);
        }
        Err(error) => scene.complain("operation", &error),
    }
}
