//! Plays one misbehaving connection, or many at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use environment::randomness::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Outcome;

/// Time limit of a send: a server that stops reading has defended itself.
const SEND_MAX: Duration = Duration::from_secs(2);
/// Number of concurrent connections.
const CROWD: usize = 24;

/// One step of a connection.
pub enum Step {
    /// Sends all bytes, unless the server stops reading.
    Send(Vec<u8>),
    /// Sends one byte after the other, with this pause between them.
    Drip(Vec<u8>, Duration),
    /// Waits.
    Pause(Duration),
}

/// How a connection ends.
#[derive(Clone, Copy)]
pub enum End {
    /// Closes with unread data: the server gets a reset.
    Abrupt,
    /// Closes the sending side and reads for a moment.
    Polite,
    /// Stays open and idle for this time.
    Linger(Duration),
}

/// What one connection does from its beginning to its end.
pub struct Script {
    /// Name of the attack in the report.
    pub name: &'static str,
    pub steps: Vec<Step>,
    /// Whether answers are read as they arrive.
    pub reads: bool,
    /// What happens after the last step.
    pub end: End,
}

/// Totals of all connections.
#[derive(Default)]
pub struct Counts {
    connections: AtomicU64,
    bytes: AtomicU64,
    /// Connections that the server ended, or stopped reading from.
    ended: AtomicU64,
}

impl Counts {
    /// Connections that were made.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Bytes that were sent.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Connections that the server ended, or stopped reading from.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }
}

/// Plays scripts, [`CROWD`] at a time, until the time has passed. `write` makes the
/// next script for the address with the given index.
pub async fn crowd(
    addresses: &[String],
    lasting: Duration,
    random: &mut Random,
    counts: &std::sync::Arc<Counts>,
    mut write: impl FnMut(&mut Random, usize) -> Script,
) -> Outcome {
    let deadline = Instant::now() + lasting;
    let mut playing = JoinSet::new();
    while Instant::now() < deadline {
        while playing.len() >= CROWD {
            playing.join_next().await;
        }
        let chosen = random.below(addresses.len() as u64) as usize;
        let script = write(random, chosen);
        let (address, counts) = (addresses[chosen].clone(), counts.clone());
        playing.spawn(async move { play(&address, script, &counts).await });
    }
    while playing.join_next().await.is_some() {}
    Ok(())
}

/// Plays one script. A connection that is refused or ended by the server is no failure.
async fn play(address: &str, script: Script, counts: &Counts) {
    let Ok(Ok(socket)) = timeout(SEND_MAX, TcpStream::connect(address)).await else {
        return;
    };
    counts.connections.fetch_add(1, Ordering::Relaxed);
    let (read, mut write) = socket.into_split();
    // Dropped when the connection ends.
    let mut unread = Some(read);
    let mut reading = JoinSet::new();
    if script.reads
        && let Some(read) = unread.take()
    {
        reading.spawn(drain(read));
    }
    for step in script.steps {
        if !take(step, &mut write, counts).await {
            counts.ended.fetch_add(1, Ordering::Relaxed);
            break;
        }
    }
    match script.end {
        End::Abrupt => {}
        End::Polite => {
            let _ = write.shutdown().await;
            let _ = timeout(SEND_MAX, reading.join_next()).await;
        }
        End::Linger(lasting) => sleep(lasting).await,
    }
}

async fn take(step: Step, write: &mut OwnedWriteHalf, counts: &Counts) -> bool {
    match step {
        Step::Send(bytes) => {
            let sent = timeout(SEND_MAX, write.write_all(&bytes)).await;
            counts
                .bytes
                .fetch_add(bytes.len() as u64, Ordering::Relaxed);
            matches!(sent, Ok(Ok(())))
        }
        Step::Drip(bytes, pause) => {
            for byte in bytes {
                if write.write_all(&[byte]).await.is_err() {
                    return false;
                }
                counts.bytes.fetch_add(1, Ordering::Relaxed);
                sleep(pause).await;
            }
            true
        }
        Step::Pause(pause) => {
            sleep(pause).await;
            true
        }
    }
}

async fn drain(mut read: OwnedReadHalf) {
    let mut bytes = [0; 4096];
    while matches!(read.read(&mut bytes).await, Ok(1..)) {}
}
