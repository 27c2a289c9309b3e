//! A well-behaved client that puts and gets during an attack.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use harness::Member;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

use crate::servers::endpoint;
use crate::{Outcome, Report};

/// Long enough that only a server that stands still exceeds it, not a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// The client; it runs until [`Bystander::stop`].
pub struct Bystander {
    over: Arc<AtomicBool>,
    running: JoinHandle<Outcome<Vec<Duration>>>,
}

impl Bystander {
    /// Starts on a connection of its own. Each pair of put and get must be done in `patience`.
    pub async fn start(server: &Member, patience: Duration) -> Outcome<Bystander> {
        let endpoint = endpoint(server)?;
        let client = connect(&endpoint).await?;
        let over = Arc::new(AtomicBool::new(false));
        let running = put_and_get(endpoint, client, Arc::clone(&over), patience);
        let running = tokio::spawn(running);
        Ok(Bystander { over, running })
    }

    /// Stops the client. Fails if a request was not served in time.
    pub async fn stop(self, report: &mut Report) -> Outcome {
        self.over.store(true, Ordering::Relaxed);
        let mut taken = self.running.await??;
        taken.sort();
        let at = |share: f64| {
            let index = (share * taken.len() as f64) as usize;
            let time = taken.get(index.min(taken.len().saturating_sub(1)));
            time.map_or(0.0, Duration::as_secs_f64) * 1000.0
        };
        report.add("other clients' pairs of put and get", taken.len());
        report.add(
            "their times",
            format!(
                "p50 {:.1}, p99 {:.1}, max {:.1} ms",
                at(0.5),
                at(0.99),
                at(1.0)
            ),
        );
        Ok(())
    }
}

async fn put_and_get(
    endpoint: Endpoint,
    mut client: KvClient<Channel>,
    over: Arc<AtomicBool>,
    patience: Duration,
) -> Outcome<Vec<Duration>> {
    let mut taken = Vec::new();
    // At least one pair is done after the attack has ended.
    let mut last = false;
    while !last {
        last = over.load(Ordering::Relaxed);
        let begun = Instant::now();
        // The server may end a connection if there are too many; the pair is
        // then repeated on a new one until its time has passed.
        while let Err(error) = pair(&mut client, taken.len()).await {
            if begun.elapsed() > patience {
                let seconds = patience.as_secs();
                return Err(
                    format!("another client was not served in {seconds} s: {error}").into(),
                );
            }
            tokio::time::sleep(PAUSE).await;
            if let Ok(again) = connect(&endpoint).await {
                client = again;
            }
        }
        taken.push(begun.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    Ok(taken)
}

async fn pair(client: &mut KvClient<Channel>, number: usize) -> Outcome {
    let key = bytes::Bytes::from_static(b"bystander");
    let value = bytes::Bytes::from(number.to_string());
    let put = PutRequest {
        key: key.clone(),
        value: value.clone(),
        ..PutRequest::default()
    };
    tokio::time::timeout(PATIENCE, client.put(put)).await??;
    let get = RangeRequest {
        key,
        ..RangeRequest::default()
    };
    let answer = tokio::time::timeout(PATIENCE, client.range(get)).await??;
    match answer.into_inner().kvs.first() {
        Some(entry) if entry.value() == value => Ok(()),
        other => Err(format!("{value:?} was put and {other:?} came").into()),
    }
}

async fn connect(endpoint: &Endpoint) -> Outcome<KvClient<Channel>> {
    let channel = tokio::time::timeout(PATIENCE, endpoint.connect()).await??;
    Ok(KvClient::new(channel))
}
