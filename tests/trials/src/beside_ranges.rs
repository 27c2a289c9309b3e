//! A watch that shares its one connection with large ranges: how late do its events come?
//!
//! ```text
//!   connection 1   watch of one key
//!                  10 ranges of 10 MiB, each asked for again as soon as it has been read
//!   connection 2   a put of that key every 10 ms: sent ──► ... ──► event on connection 1
//! ```
//!
//! Puts are sent on time, whether earlier ones were answered or not, so a delay is not hidden by
//! the puts that it would have kept back. The answers of ranges are read and dropped, without
//! being decoded: the client should keep up with the server.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::builder::RangedI64ValueParser;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::{RangeRequest, WatchResponse};
use http_body_util::{BodyExt, Full};
use prost::Message;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tonic::Streaming;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::transport::Channel;
use tower::{Service, ServiceExt};

use crate::bystander::PATIENCE;
use crate::servers::{Servers, channel, channel_with};
use crate::witness::watch;
use crate::{Error, Outcome, requests, wire};

const WATCHED: &[u8] = b"watched";
/// Number of values that one range reads.
const VALUES: u64 = 10;
const VALUE_BYTES: usize = 1 << 20;
/// Time for the ranges to reach their full rate before puts are measured.
const BEGINNING: Duration = Duration::from_millis(500);

/// A window of HTTP/2 has at most 2^31 - 1 bytes (RFC 9113, section 6.9.1).
fn windows_kib() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..1 << 21)
}

/// Load and length of a scene.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Scene {
    /// Ranges of 10 MiB that are under way at the same time
    #[arg(long, default_value_t = Scene::USUAL.ranges)]
    pub ranges: usize,
    /// Milliseconds from one put to the next
    #[arg(long, default_value_t = Scene::USUAL.put_every_ms)]
    pub put_every_ms: u64,
    /// Puts without ranges, for comparison
    #[arg(long, default_value_t = Scene::USUAL.quiet_puts, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub quiet_puts: u64,
    /// Puts beside the ranges
    #[arg(long, default_value_t = Scene::USUAL.loaded_puts, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub loaded_puts: u64,
    /// The client's HTTP/2 window of each stream, KiB
    #[arg(long, default_value_t = Scene::USUAL.stream_window_kib, value_parser = windows_kib())]
    pub stream_window_kib: u32,
    /// The client's HTTP/2 window of the connection, KiB
    #[arg(long, default_value_t = Scene::USUAL.connection_window_kib, value_parser = windows_kib())]
    pub connection_window_kib: u32,
    /// Servers and clients without TLS
    #[arg(long)]
    pub plain: bool,
}

impl Scene {
    /// The windows are the defaults of Rust's HTTP/2 client.
    pub const USUAL: Scene = Scene {
        ranges: 10,
        put_every_ms: 10,
        quiet_puts: 500,
        loaded_puts: 2_000,
        stream_window_kib: 2 << 10,
        connection_window_kib: 5 << 10,
        plain: false,
    };
}

/// Times of the puts of one part of a scene, each from its sending.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Until the event came.
    pub events: Vec<Duration>,
    /// Until the answer came.
    pub answers: Vec<Duration>,
}

/// Measurements of a scene.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub quiet: Times,
    pub loaded: Times,
    /// Ranges that were read to their end while puts were measured beside them.
    pub ranges: u64,
    /// Bytes of ranges that were read in that time.
    pub ranged_bytes: u64,
    /// That time.
    pub lasted: Duration,
    pub server_bytes_peak: u64,
}

/// Plays the scene on a fresh server.
pub async fn run(binary: &Path, scene: Scene) -> Outcome<Measured> {
    let mut servers = match scene.plain {
        true => Servers::start(binary, 1)?,
        false => Servers::start_secure(binary, 1, |member| {
            member.program.flags.push("--log-level=error".to_owned());
            Ok(())
        })?,
    };
    let measured = play(&servers, scene).await;
    // If the process ended, that explains every other failure.
    servers.check().and(measured)
}

async fn play(servers: &Servers, scene: Scene) -> Outcome<Measured> {
    let writer = KvClient::new(channel(servers.first()).await?);
    fill(writer.clone()).await?;
    let shared = channel_with(servers.first(), |endpoint| {
        endpoint
            .initial_stream_window_size(scene.stream_window_kib << 10)
            .initial_connection_window_size(scene.connection_window_kib << 10)
    });
    let shared = shared.await?;
    let (_requests, watch) = watch(shared.clone(), WATCHED).await?;
    let (quiet, all) = (
        scene.quiet_puts as usize,
        scene.quiet_puts + scene.loaded_puts,
    );
    let seen = tokio::spawn(see(watch, all));
    let mut sent = put_all(&writer, 0..scene.quiet_puts, scene.put_every_ms).await?;
    let ranging = Ranging::start(&shared, scene.ranges);
    sleep(BEGINNING).await;
    let (begun, before) = (Instant::now(), ranging.counted());
    sent.extend(put_all(&writer, scene.quiet_puts..all, scene.put_every_ms).await?);
    let (lasted, after) = (begun.elapsed(), ranging.counted());
    let seen = seen.await??;
    ranging.stop().await?;
    Ok(Measured {
        quiet: times(&sent[..quiet], &seen[..quiet]),
        loaded: times(&sent[quiet..], &seen[quiet..]),
        ranges: after.0 - before.0,
        ranged_bytes: after.1 - before.1,
        lasted,
        server_bytes_peak: servers.resident_bytes_peak()?,
    })
}

fn times(sent: &[Sent], seen: &[Instant]) -> Times {
    let pairs = sent.iter().zip(seen);
    Times {
        events: pairs.map(|(sent, seen)| *seen - sent.at).collect(),
        answers: sent.iter().map(|sent| sent.answered).collect(),
    }
}

async fn fill(mut client: KvClient<Channel>) -> Outcome {
    for number in 0..VALUES {
        let value = vec![b'v'; VALUE_BYTES];
        let put = requests::put(format!("large/{number}"), value);
        client.put(put).await?;
    }
    Ok(())
}

/// A put that was answered.
struct Sent {
    at: Instant,
    answered: Duration,
}

/// Puts each number on time, and waits for all answers.
async fn put_all(
    client: &KvClient<Channel>,
    numbers: Range<u64>,
    every_ms: u64,
) -> Outcome<Vec<Sent>> {
    let mut ticks = interval(Duration::from_millis(every_ms.max(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut puts = Vec::new();
    for number in numbers {
        ticks.tick().await;
        puts.push(tokio::spawn(put(client.clone(), number)));
    }
    let mut sent = Vec::new();
    for put in puts {
        sent.push(put.await??);
    }
    Ok(sent)
}

async fn put(mut client: KvClient<Channel>, number: u64) -> Outcome<Sent> {
    let put = requests::put(WATCHED, number.to_string());
    let at = Instant::now();
    let answer = timeout(PATIENCE, client.put(put)).await;
    answer.map_err(|_| format!("put {number} was not answered"))??;
    let answered = at.elapsed();
    Ok(Sent { at, answered })
}

/// When the event of each number came.
async fn see(mut watch: Streaming<WatchResponse>, numbers: u64) -> Outcome<Vec<Instant>> {
    let mut seen = vec![None; numbers as usize];
    let mut missing = seen.len();
    while missing > 0 {
        let answer = timeout(PATIENCE, watch.message()).await;
        let answer =
            answer.map_err(|_| format!("{missing} of {numbers} events did not come"))??;
        let answer = answer.ok_or("the watch has ended")?;
        if answer.canceled {
            return Err(format!("the watch was cancelled: {answer:?}").into());
        }
        let now = Instant::now();
        for event in answer.events {
            let entry = event.kv.ok_or("an event without its key")?;
            let number: usize = std::str::from_utf8(entry.value())?.parse()?;
            let place = seen.get_mut(number).filter(|place| place.is_none());
            *place.ok_or_else(|| format!("event {number} came unasked or again"))? = Some(now);
            missing -= 1;
        }
    }
    Ok(seen.into_iter().flatten().collect())
}

/// Ranges that are asked for again and again on one connection.
struct Ranging {
    over: Arc<AtomicBool>,
    ranges: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
    clients: JoinSet<Outcome>,
}

impl Ranging {
    fn start(shared: &Channel, count: usize) -> Ranging {
        let mut ranging = Ranging {
            over: Arc::default(),
            ranges: Arc::default(),
            bytes: Arc::default(),
            clients: JoinSet::new(),
        };
        for _ in 0..count {
            let (over, channel) = (Arc::clone(&ranging.over), shared.clone());
            let (ranges, bytes) = (Arc::clone(&ranging.ranges), Arc::clone(&ranging.bytes));
            ranging.clients.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    timeout(PATIENCE, drain(channel.clone(), &bytes)).await??;
                    ranges.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<(), Error>(())
            });
        }
        ranging
    }

    /// Ranges and bytes that were read so far.
    fn counted(&self) -> (u64, u64) {
        let ranges = self.ranges.load(Ordering::Relaxed);
        (ranges, self.bytes.load(Ordering::Relaxed))
    }

    /// Stops, each client after its range. Fails with the first error that one had.
    async fn stop(mut self) -> Outcome {
        self.over.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            client??;
        }
        Ok(())
    }
}

/// Asks for all large values, and reads the answer without keeping it.
async fn drain(mut channel: Channel, counted: &AtomicU64) -> Outcome {
    let range = RangeRequest {
        range_end: "large0".into(),
        ..requests::range("large/")
    };
    let body = Full::new(Bytes::from(wire::grpc(&range.encode_to_vec())));
    let request = http::Request::post("/etcdserverpb.KV/Range")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(body))?;
    let answer = channel.ready().await?.call(request).await?;
    let mut body = answer.into_body();
    let (mut bytes, mut status) = (0, None);
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        if let Some(data) = frame.data_ref() {
            bytes += data.len() as u64;
            counted.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
        if let Some(trailers) = frame.trailers_ref() {
            status = trailers.get("grpc-status").cloned();
        }
    }
    let expected = VALUES * VALUE_BYTES as u64;
    match status {
        Some(status) if status == "0" && bytes > expected => Ok(()),
        other => Err(format!("a range gave {bytes} bytes and status {other:?}").into()),
    }
}
