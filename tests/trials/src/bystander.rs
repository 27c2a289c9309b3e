//! A well-behaved client that puts and gets during an attack.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use etcd_api::etcdserverpb::kv_client::KvClient;
use harness::Member;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;

use crate::servers::channel;
use crate::{Outcome, Report, requests};

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
        let channel = timeout(PATIENCE, channel(server)).await??;
        let over = Arc::new(AtomicBool::new(false));
        let running = put_and_get(KvClient::new(channel), Arc::clone(&over), patience);
        let running = tokio::spawn(running);
        Ok(Bystander { over, running })
    }

    /// Stops the client. Fails if a request was not served in time.
    pub async fn stop(self, report: &mut Report) -> Outcome {
        self.over.store(true, Ordering::Relaxed);
        let mut taken = self.running.await??;
        taken.sort();
        let last = taken.len() - 1;
        let [p50, p99, max] =
            [50, 99, 100].map(|percent| taken[last * percent / 100].as_secs_f64() * 1000.0);
        report.add("other clients' pairs of put and get", taken.len());
        let times = format!("p50 {p50:.1}, p99 {p99:.1}, max {max:.1} ms");
        report.add("their times", times);
        Ok(())
    }
}

async fn put_and_get(
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
        // then repeated until its time has passed, for which the channel connects again.
        while let Err(error) = pair(&mut client, taken.len()).await {
            if begun.elapsed() > patience {
                let seconds = patience.as_secs();
                return Err(
                    format!("another client was not served in {seconds} s: {error}").into(),
                );
            }
            sleep(PAUSE).await;
        }
        taken.push(begun.elapsed());
        sleep(PAUSE).await;
    }
    Ok(taken)
}

async fn pair(client: &mut KvClient<Channel>, number: usize) -> Outcome {
    let key = bytes::Bytes::from_static(b"bystander");
    let value = bytes::Bytes::from(number.to_string());
    let put = requests::put(key.clone(), value.clone());
    timeout(PATIENCE, client.put(put)).await??;
    let answer = timeout(PATIENCE, client.range(requests::range(key))).await??;
    match answer.into_inner().kvs.first() {
        Some(entry) if entry.value() == value => Ok(()),
        other => Err(format!("{value:?} was put and {other:?} came").into()),
    }
}
