//! Watches: two on all keys, which continue where they broke, and some on
//! the present keys, which begin at any revision.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use environment::randomness::Random;
use etcd_api::etcdserverpb::WatchResponse;
use history::{Change, Delivery, Watch};
use tokio::time::Instant;

use super::{
    call::dial,
    clients,
    member::{self, Member},
};
use crate::{
    client::{self, END_KEY, FIRST_KEY, Stream},
    process::Outcome,
    recorder::Recorder,
};

/// A watcher without a message for this long changes to another member.
const SILENCE: Duration = Duration::from_secs(6);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// Watches all keys from the first revision on, at any member, until it has
/// seen the revision that `last` gets at the end.
pub async fn follow(
    client: u32,
    members: Vec<Arc<Member>>,
    recorder: Arc<Recorder>,
    seed: u64,
    mut last: tokio::sync::watch::Receiver<Option<i64>>,
) -> Outcome {
    let mut random = Random::from_seed(seed);
    let mut watch = Watch {
        client,
        member: 0,
        key: FIRST_KEY.to_owned(),
        end: END_KEY.to_owned(),
        first: 2,
        called: 0,
        deliveries: Vec::new(),
    };
    while last.borrow().is_none_or(|last| watch.first <= last) {
        let Some(place) = member::any_present(&members, &mut random) else {
            return Err("there is no member".into());
        };
        watch.member = place as u32;
        let life = Duration::from_secs(5 + random.below(60));
        let member = &members[watch.member as usize];
        observe(&mut watch, member, &recorder, life, &mut last).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Watches the present keys, from now or from a moment ago, for some seconds;
/// again and again until the end.
pub async fn glance(
    client: u32,
    members: Vec<Arc<Member>>,
    recorder: Arc<Recorder>,
    seed: u64,
    mut last: tokio::sync::watch::Receiver<Option<i64>>,
) -> Outcome {
    let mut random = Random::from_seed(seed);
    while !recorder.has_ended() {
        let keys = clients::keys(&recorder);
        let (key, end) = match random.chance(1, 3) {
            true => (keys.any(&mut random), String::new()),
            false => (keys.prefix.clone(), keys.prefix.replace('/', "0")),
        };
        let newest = recorder.revision.load(Ordering::Relaxed);
        let past = newest - random.below(2_000) as i64;
        let Some(place) = member::any_present(&members, &mut random) else {
            return Err("there is no member".into());
        };
        let mut watch = Watch {
            client,
            member: place as u32,
            key,
            end,
            first: if random.chance(1, 2) { 0 } else { past.max(2) },
            called: 0,
            deliveries: Vec::new(),
        };
        let life = Duration::from_secs(1 + random.below(8));
        let member = &members[watch.member as usize];
        observe(&mut watch, member, &recorder, life, &mut last).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Watches on one stream until it breaks or its time is over, and records it. Afterwards
/// `watch.first` has the next revision.
async fn observe(
    watch: &mut Watch,
    member: &Member,
    recorder: &Recorder,
    life: Duration,
    last: &mut tokio::sync::watch::Receiver<Option<i64>>,
) {
    watch.called = recorder.moment();
    let opened = tokio::time::timeout(SILENCE, open(member, watch)).await;
    let Ok(Some((mut stream, created))) = opened else {
        return;
    };
    if watch.first == 0 {
        watch.first = created + 1;
    }
    let until = Instant::now() + life;
    let mut progress = tokio::time::interval(PROGRESS_INTERVAL);
    loop {
        if last
            .borrow()
            .is_some_and(|last| next_of(watch).unwrap_or(watch.first) > last)
        {
            break;
        }
        tokio::select! {
            answer = tokio::time::timeout(SILENCE, stream.next()) => {
                let Ok(Ok(answer)) = answer else { break };
                if !take(watch, recorder, answer) { break }
            }
            _ = progress.tick() => stream.ask_for_progress().await,
            () = tokio::time::sleep_until(until) => break,
            _ = last.changed() => {}
        }
    }
    let next = next_of(watch).unwrap_or(watch.first);
    let deliveries = std::mem::take(&mut watch.deliveries);
    recorder.record_watch(Watch {
        deliveries,
        ..watch.clone()
    });
    watch.first = next;
}

/// The revision after the last change that was delivered.
fn next_of(watch: &Watch) -> Option<i64> {
    let mut changes = watch
        .deliveries
        .iter()
        .rev()
        .flat_map(|it| it.changes.last());
    changes.next().map(|change| change.modified() + 1)
}

/// Records an answer. Returns whether the watch continues.
fn take(watch: &mut Watch, recorder: &Recorder, answer: WatchResponse) -> bool {
    let at = recorder.moment();
    if answer.canceled {
        return false;
    }
    if answer.created {
        return true;
    }
    let revision = answer.header.map_or(0, |header| header.revision);
    let changes: Vec<Change> = answer.events.iter().map(client::change).collect();
    let events = changes.len() as u64;
    recorder.events.fetch_add(events, Ordering::Relaxed);
    watch.deliveries.push(Delivery {
        at,
        revision,
        changes,
    });
    true
}

async fn open(member: &Member, watch: &Watch) -> Option<(Stream, i64)> {
    let channel = dial(member).await?;
    client::watch(channel, &watch.key, &watch.end, watch.first)
        .await
        .ok()
}
