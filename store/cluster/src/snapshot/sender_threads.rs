//! Runs senders on threads of their own, each with a stream to its member.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use environment::{Clock, threads};
use peers::{Peers, Stream, StreamError};
use tokio::runtime::{Builder, Runtime};

use super::{Sender, Step};
use crate::PeerMessage;
use crate::lock::lock;
use crate::snapshot_traffic::SnapshotTraffic;

/// The kind of the streams that carry snapshots.
pub(crate) const STREAM: u8 = 1;
/// Time limit for one message on the stream. A connection that is slower is given up.
const STALLED: Duration = Duration::from_secs(20);

/// Runs senders, and waits for them at the end.
pub(crate) struct SenderThreads {
    peers: Peers,
    clock: Arc<dyn Clock>,
    traffic: Arc<SnapshotTraffic>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SenderThreads {
    pub fn new(
        peers: Peers,
        clock: Arc<dyn Clock>,
        traffic: Arc<SnapshotTraffic>,
    ) -> SenderThreads {
        SenderThreads {
            peers,
            clock,
            traffic,
            threads: Mutex::default(),
        }
    }

    /// Runs a sender on a new thread. If no thread can be started, the sender is dropped, which
    /// ends the transfer.
    pub fn carry(&self, sender: Sender) {
        let (peers, clock) = (self.peers.clone(), Arc::clone(&self.clock));
        let traffic = Arc::clone(&self.traffic);
        let thread = threads::spawn("snapshot", move || run(sender, &peers, &*clock, &traffic));
        match thread {
            Ok(thread) => {
                let mut threads = lock(&self.threads);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
            }
            Err(error) => tracing::warn!(%error, "cannot start a thread to send a snapshot"),
        }
    }

    /// Waits for the threads of all senders. Their transfers must have been stopped before.
    pub fn join(&self) {
        for thread in lock(&self.threads).drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that sent a snapshot has panicked");
            }
        }
    }
}

fn run(mut sender: Sender, peers: &Peers, clock: &dyn Clock, traffic: &SnapshotTraffic) {
    let mut sending = traffic.sending(sender.to());
    let runtime = match Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return tracing::warn!(%error, "cannot start a runtime to send a snapshot");
        }
    };
    let mut connection = SenderStream {
        peers,
        runtime,
        to: sender.to(),
        stream: None,
    };
    loop {
        match sender.poll(clock.now()) {
            Step::Send(message) => {
                sending.note(&message);
                if let Err(error) = connection.send(&message) {
                    let to = format!("{:x}", connection.to);
                    tracing::debug!(to, %error, "a snapshot waits for a connection");
                    sender.interrupted(clock.now());
                }
            }
            Step::Wait(patience) => sender.wait(patience),
            Step::Over => return sending.end(sender.has_succeeded()),
        }
    }
}

/// The connection of a sender to its member.
struct SenderStream<'a> {
    peers: &'a Peers,
    runtime: Runtime,
    to: u64,
    stream: Option<Stream>,
}

impl SenderStream<'_> {
    /// Sends a message on the stream, or on a new one after a failure. TCP's flow control slows
    /// it down while the member is behind.
    fn send(&mut self, message: &PeerMessage) -> Result<(), StreamError> {
        let (kind, parts) = message.encode();
        let payload = Bytes::from(parts.concat());
        let (peers, to) = (self.peers, self.to);
        let stream = self.stream.take();
        let sent = self.runtime.block_on(async move {
            let sending = async {
                let mut stream = match stream {
                    Some(stream) => stream,
                    None => peers.open_stream(to, STREAM, Bytes::new()).await?,
                };
                stream.send(kind, payload).await?;
                Ok(stream)
            };
            let sent = tokio::time::timeout(STALLED, sending).await;
            sent.unwrap_or_else(|_| {
                Err(StreamError::Broken {
                    member: to,
                    reason: "the member does not accept any data".into(),
                })
            })
        });
        self.stream = Some(sent?);
        Ok(())
    }
}
