//! Attacks servers with misbehaving connections, many at a time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use environment::randomness::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::bystander::{Bystander, PATIENCE};
use crate::peaks::{Idle, mebibytes, peak_during};
use crate::servers::Servers;
use crate::{Length, Outcome, Report};

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
enum End {
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
    name: &'static str,
    steps: Vec<Step>,
    /// Whether answers are read as they arrive.
    reads: bool,
    /// What happens after the last step.
    end: End,
}

impl Script {
    /// A script with these steps and a random end.
    pub fn new(name: &'static str, steps: Vec<Step>, random: &mut Random) -> Script {
        let end = match random.below(4) {
            0 => End::Polite,
            1 => End::Linger(Duration::from_millis(random.below(1_500))),
            _ => End::Abrupt,
        };
        let reads = random.chance(2, 3);
        Script {
            name,
            steps,
            reads,
            end,
        }
    }
}

/// Random bytes, fewer than `below`.
pub fn bytes_of(random: &mut Random, below: u64) -> Vec<u8> {
    let mut bytes = vec![0; random.below(below) as usize];
    random.fill(&mut bytes);
    bytes
}

/// Flips, removes, inserts, doubles or cuts off some bytes.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next_u64() as u8,
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, random.next_u64() as u8),
            4 => {
                let after = (at + 1 + random.below(40) as usize).min(bytes.len());
                let piece = bytes[at..after].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.truncate(at),
        }
    }
}

/// Attacks servers at these addresses for a while. All must stay up, none of their threads may
/// panic, another client must be served within `patience` during the attack, every server
/// must serve after it, and memory and descriptors must fall to about what idle servers need.
/// `write` makes the next script for the address with the given index.
pub(crate) async fn attack(
    trial: &str,
    mut servers: Servers,
    addresses: &[String],
    length: Length,
    patience: Duration,
    write: impl FnMut(&mut Random, usize) -> Script,
) -> Outcome<Report> {
    let endured = endure(&servers, addresses, length, patience, write).await;
    // If a process ended, that explains every other failure.
    servers.check().and(endured).map_err(|error| {
        let seed = length.seed;
        format!("{error}\nagain: cargo trials fuzz {trial} --seed {seed}").into()
    })
}

async fn endure(
    servers: &Servers,
    addresses: &[String],
    length: Length,
    patience: Duration,
    write: impl FnMut(&mut Random, usize) -> Script,
) -> Outcome<Report> {
    let bystander = Bystander::start(servers.first(), patience).await?;
    let idle = Idle::of(servers)?;
    let (played, peak) = peak_during(servers, crowd(addresses, length, write)).await?;
    let mut report = Report::default();
    report.add("connections", played.len());
    report.add("bytes sent", played.iter().map(|it| it.bytes).sum::<u64>());
    let ended = played.iter().filter(|it| it.ended).count();
    report.add("ended or not read by the server", ended);
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for connection in played {
        *kinds.entry(connection.name).or_default() += 1;
    }
    for (kind, count) in kinds {
        report.add(kind, count);
    }
    report.add("most memory of a server", mebibytes(peak));
    idle.wait_for(servers, &mut report).await?;
    bystander.stop(&mut report).await?;
    for server in &servers.cluster.members {
        let served = Bystander::start(server, PATIENCE).await?;
        served.stop(&mut Report::default()).await?;
    }
    Ok(report)
}

/// Plays scripts, [`CROWD`] at a time, until the time has passed.
async fn crowd(
    addresses: &[String],
    length: Length,
    mut write: impl FnMut(&mut Random, usize) -> Script,
) -> Outcome<Vec<Played>> {
    let mut random = Random::from_seed(length.seed);
    let deadline = Instant::now() + length.lasting;
    let (mut all, mut playing) = (Vec::new(), JoinSet::new());
    while Instant::now() < deadline {
        if playing.len() >= CROWD
            && let Some(played) = playing.join_next().await
        {
            all.extend(played?);
        }
        let chosen = random.below(addresses.len() as u64) as usize;
        playing.spawn(play(addresses[chosen].clone(), write(&mut random, chosen)));
    }
    while let Some(played) = playing.join_next().await {
        all.extend(played?);
    }
    Ok(all)
}

/// Result of the attack over one connection.
struct Played {
    name: &'static str,
    bytes: u64,
    /// The server ended the connection, or stopped reading from it.
    ended: bool,
}

/// Plays one script. A connection that is refused or ended by the server is no failure.
async fn play(address: String, script: Script) -> Option<Played> {
    let connected = timeout(SEND_MAX, TcpStream::connect(address)).await;
    let (read, mut write) = connected.ok()?.ok()?.into_split();
    let mut played = Played {
        name: script.name,
        bytes: 0,
        ended: false,
    };
    // Dropped when the connection ends.
    let mut unread = Some(read);
    let mut reading = JoinSet::new();
    if script.reads
        && let Some(read) = unread.take()
    {
        reading.spawn(drain(read));
    }
    for step in script.steps {
        if !take(step, &mut write, &mut played.bytes).await {
            played.ended = true;
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
    Some(played)
}

async fn take(step: Step, write: &mut OwnedWriteHalf, sent: &mut u64) -> bool {
    match step {
        Step::Send(bytes) => {
            *sent += bytes.len() as u64;
            matches!(timeout(SEND_MAX, write.write_all(&bytes)).await, Ok(Ok(())))
        }
        Step::Drip(bytes, pause) => {
            for byte in bytes {
                if write.write_all(&[byte]).await.is_err() {
                    return false;
                }
                *sent += 1;
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
