//! Watchers that connect and disconnect: most read, some cancel, some never read.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::etcdserverpb::{
    WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchResponse, watch_client::WatchClient,
    watch_request::RequestUnion,
};
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

use super::{
    scene::{PREFIX, Scene},
    writers::keys,
};
use crate::{client::end_of, process::Outcome};

const WATCHES_MAX: u64 = 4;
const READING_MILLISECONDS_MAX: u64 = 3_000;
const SULKING_MILLISECONDS_MAX: u64 = 15_000;
/// How far back some watches begin, in revisions.
const PAST_REVISIONS: u64 = 4_000;

/// One stream with some watches on it.
struct Stream {
    requests: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
}

/// Streams on one connection, each read for a while, until the end.
pub async fn read(scene: Arc<Scene>, seed: u64) -> Outcome {
    let mut random = Random::from_seed(seed);
    let mut client = scene.watch().await?;
    while !scene.has_ended() {
        if random.chance(1, 5) {
            client = scene.watch().await?;
        }
        match open(&scene, &mut client, &mut random).await {
            Ok(mut stream) => {
                read_some(&scene, &mut stream, &mut random).await;
                scene.watch_streams_open.fetch_sub(1, Ordering::Relaxed);
            }
            Err(error) => scene.complain("watch", &error),
        }
    }
    Ok(())
}

/// Opens streams on all keys that are never read, until the end; each has its own connection so
/// that it delays no other watcher.
pub async fn sulk(scene: Arc<Scene>, seed: u64) -> Outcome {
    let mut random = Random::from_seed(seed);
    while !scene.has_ended() {
        let mut client = scene.watch().await?;
        let (requests, receiver) = mpsc::channel(1);
        requests
            .send(create(PREFIX.into(), end_of(PREFIX), 0))
            .await?;
        match client.watch(ReceiverStream::new(receiver)).await {
            Ok(answers) => {
                scene.watches.fetch_add(1, Ordering::Relaxed);
                scene.watch_streams_open.fetch_add(1, Ordering::Relaxed);
                let sulking = random.below(SULKING_MILLISECONDS_MAX);
                scene.pause(Duration::from_millis(sulking)).await;
                drop(answers);
                scene.watch_streams_open.fetch_sub(1, Ordering::Relaxed);
            }
            Err(error) => scene.complain("unread watch", &error),
        }
    }
    Ok(())
}

async fn open(
    scene: &Scene,
    client: &mut WatchClient<Channel>,
    random: &mut Random,
) -> Outcome<Stream> {
    let many = 1 + random.below(WATCHES_MAX);
    let (requests, receiver) = mpsc::channel(many as usize);
    for _ in 0..many {
        requests.send(any_watch(scene, random)).await?;
        scene.watches.fetch_add(1, Ordering::Relaxed);
    }
    let answers = client.watch(ReceiverStream::new(receiver)).await?;
    scene.watch_streams_open.fetch_add(1, Ordering::Relaxed);
    Ok(Stream {
        requests,
        answers: answers.into_inner(),
    })
}

/// Reads for a while, cancels the first watch, and reads on for a moment.
async fn read_some(scene: &Scene, stream: &mut Stream, random: &mut Random) {
    let reading = random.below(READING_MILLISECONDS_MAX);
    read_until(scene, stream, Duration::from_millis(reading)).await;
    if random.chance(1, 2) {
        let cancel = WatchRequest {
            request_union: Some(RequestUnion::CancelRequest(WatchCancelRequest {
                watch_id: 0,
            })),
        };
        if stream.requests.send(cancel).await.is_err() {
            scene.complain("watch", &"the server ended the stream");
        }
        read_until(scene, stream, Duration::from_millis(reading / 4)).await;
    }
}

async fn read_until(scene: &Scene, stream: &mut Stream, duration: Duration) {
    let end = Instant::now() + duration;
    while !scene.has_ended() {
        match tokio::time::timeout_at(end, stream.answers.message()).await {
            Err(_) => return,
            Ok(Ok(Some(answer))) => {
                let events = answer.events.len() as u64;
                scene.events.fetch_add(events, Ordering::Relaxed);
            }
            Ok(Ok(None)) => return scene.complain("watch", &"the server ended the stream"),
            Ok(Err(error)) => return scene.complain("watch", &error),
        }
    }
}

/// A watch on one key, on a part of the keys or on all, from now on or from the past. It is
/// rightly refused if its first revision has been compacted.
fn any_watch(scene: &Scene, random: &mut Random) -> WatchRequest {
    let key = Bytes::from(keys().any(random));
    let (key, end) = match random.below(4) {
        0 => (PREFIX.into(), end_of(PREFIX)),
        // All keys that share the key's first digits.
        1 => {
            let start = key.slice(..key.len() - 2);
            let end = end_of(&String::from_utf8_lossy(&start));
            (start, end)
        }
        _ => (key, Bytes::new()),
    };
    let start = match random.chance(1, 3) {
        true => {
            let past = random.below(PAST_REVISIONS) as i64;
            (scene.revision.load(Ordering::Relaxed) - past).max(1)
        }
        false => 0,
    };
    create(key, end, start)
}

fn create(key: Bytes, range_end: Bytes, start_revision: i64) -> WatchRequest {
    WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(WatchCreateRequest {
            key,
            range_end,
            start_revision,
            ..WatchCreateRequest::default()
        })),
    }
}
