//! Clients with TLS that must not notice an attack: any error of theirs is a failure.
//!
//! ```text
//!   one connection   put n ─► watch: n ─► get: n ─► put n+1 ─► ...
//!   newcomers        handshake ─► get, from the attackers' address and from another, in turn
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::bystander::PATIENCE;
use crate::secure::Way;
use crate::{Outcome, Report, requests};

const KEY: &[u8] = b"witness";
const PAUSE: Duration = Duration::from_millis(10);
/// Pause between two newcomers.
const NEWCOMERS_EVERY: Duration = Duration::from_millis(100);
/// Addresses of newcomers: the attackers' and another.
const SOURCES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)),
];

/// The clients; they run until [`Witness::stop`].
pub struct Witness {
    over: Arc<AtomicBool>,
    resident: JoinHandle<Outcome<[Vec<Duration>; 3]>>,
    newcomers: JoinHandle<Outcome<Vec<Duration>>>,
}

impl Witness {
    /// Starts the clients.
    pub async fn start(way: &Way) -> Outcome<Witness> {
        let over = Arc::new(AtomicBool::new(false));
        let channel = timeout(PATIENCE, way.channel(None)).await??;
        let resident = tokio::spawn(reside(channel, Arc::clone(&over)));
        let newcomers = tokio::spawn(visit(way.clone(), Arc::clone(&over)));
        Ok(Witness {
            over,
            resident,
            newcomers,
        })
    }

    /// Stops the clients, each after one more round. Fails with the first error that one had.
    pub async fn stop(self, report: &mut Report) -> Outcome {
        self.over.store(true, Ordering::Relaxed);
        let [puts, events, gets] = self.resident.await??;
        report.add("puts", times(puts));
        report.add(
            "watched events, from the beginning of their put",
            times(events),
        );
        report.add("gets", times(gets));
        report.add(
            "new connections, each with a get",
            times(self.newcomers.await??),
        );
        Ok(())
    }
}

fn times(mut taken: Vec<Duration>) -> String {
    taken.sort();
    let last = taken.len() - 1;
    let [p50, p99, max] =
        [50, 99, 100].map(|percent| taken[last * percent / 100].as_secs_f64() * 1000.0);
    let count = taken.len();
    format!("{count}, p50 {p50:.1}, p99 {p99:.1}, max {max:.1} ms")
}

/// Puts, gets and watches on one connection; the times of each.
async fn reside(channel: Channel, over: Arc<AtomicBool>) -> Outcome<[Vec<Duration>; 3]> {
    let (_requests, mut watch) = watch(channel.clone(), KEY).await?;
    let mut client = KvClient::new(channel);
    let mut taken = [const { Vec::new() }; 3];
    let mut last = false;
    for number in 0_u64.. {
        if last {
            break;
        }
        // At least one round is made after the attack has ended.
        last = over.load(Ordering::Relaxed);
        let value = number.to_string();
        let begun = Instant::now();
        let put = requests::put(KEY, value.clone());
        timeout(PATIENCE, client.put(put)).await??;
        taken[0].push(begun.elapsed());
        wait_for_event(&mut watch, &value).await?;
        taken[1].push(begun.elapsed());
        let read = Instant::now();
        let answer = timeout(PATIENCE, client.range(requests::range(KEY))).await??;
        taken[2].push(read.elapsed());
        let found = answer.into_inner().kvs;
        if found
            .first()
            .is_none_or(|it| it.value() != value.as_bytes())
        {
            return Err(format!("{value} was put and {found:?} came").into());
        }
        sleep(PAUSE).await;
    }
    Ok(taken)
}

/// A watch of a key, after the server has confirmed it. It ends when the sender is dropped.
pub(crate) async fn watch(
    channel: Channel,
    key: &'static [u8],
) -> Outcome<(
    mpsc::UnboundedSender<WatchRequest>,
    Streaming<WatchResponse>,
)> {
    let (requests, sent) = mpsc::unbounded_channel();
    let create = WatchCreateRequest {
        key: key.into(),
        ..WatchCreateRequest::default()
    };
    requests.send(WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    })?;
    let mut client = WatchClient::new(channel);
    let opening = client.watch(UnboundedReceiverStream::new(sent));
    let mut watch = timeout(PATIENCE, opening).await??.into_inner();
    match timeout(PATIENCE, watch.message()).await?? {
        Some(answer) if answer.created => Ok((requests, watch)),
        other => Err(format!("a watch was asked for, and {other:?} came").into()),
    }
}

/// Waits for the event of the put of `value`, which must be the next one.
async fn wait_for_event(watch: &mut Streaming<WatchResponse>, value: &str) -> Outcome {
    loop {
        let answer = timeout(PATIENCE, watch.message()).await??;
        let answer = answer.ok_or("the watch has ended")?;
        if answer.canceled {
            return Err(format!("the watch was cancelled: {answer:?}").into());
        }
        let Some(event) = answer.events.first() else {
            continue;
        };
        return match &event.kv {
            Some(entry) if entry.value() == value.as_bytes() && answer.events.len() == 1 => Ok(()),
            other => Err(format!("{value} was put, and the watch sent {other:?}").into()),
        };
    }
}

/// Opens one connection after the other; the times of their handshakes with a get.
async fn visit(way: Way, over: Arc<AtomicBool>) -> Outcome<Vec<Duration>> {
    let mut taken = Vec::new();
    let mut sources = SOURCES.iter().cycle();
    while !over.load(Ordering::Relaxed) || taken.len() < SOURCES.len() {
        let begun = Instant::now();
        let from = sources.next().copied();
        let visited = timeout(PATIENCE, get_once(&way, from)).await;
        let visited = visited.map_err(Into::into).and_then(|visited| visited);
        visited.map_err(|error| {
            let from = from.map(|from| from.to_string()).unwrap_or_default();
            let seconds = begun.elapsed().as_secs_f64();
            format!("a new connection from {from} was not served, {seconds:.1} s: {error:?}")
        })?;
        taken.push(begun.elapsed());
        sleep(NEWCOMERS_EVERY).await;
    }
    Ok(taken)
}

async fn get_once(way: &Way, from: Option<IpAddr>) -> Outcome {
    let channel = way.channel(from).await?;
    KvClient::new(channel).range(requests::range(KEY)).await?;
    Ok(())
}
