//! Thousands of connections that begin a handshake and do not end it, or send one byte a second,
//! at the ports with TLS of three members.
//!
//! ```text
//!   attackers ──► client port, HTTP port, metrics port, peer port of the first member
//!   witness   ──► puts, gets, watches, and new connections at the client port: no error
//! ```
//!
//! All connections of a round are opened at once, and the server must end each of them. A round is
//! followed by the next until the time has passed. Afterwards every member must serve, no term may
//! have changed, memory and descriptors must be as before, and the log of the attacked member must
//! have said what to do, in few lines.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tls::HANDSHAKE_TIME_MAX;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::bystander::PATIENCE;
use crate::peaks::{Idle, mebibytes, peak_during};
use crate::secure::{PAIR, Way};
use crate::servers::Servers;
use crate::wire::PREFACE;
use crate::witness::Witness;
use crate::{Outcome, Report};

const MEMBERS: usize = 3;
/// Connections that are being opened at the same time.
const OPENING_MAX: usize = 64;
/// Descriptors that this process needs for other purposes.
const OTHER_FILES: u64 = 500;
const BYTE_EVERY: Duration = Duration::from_secs(1);
/// The beginning of a TLS record with a greeting of 512 bytes.
const RECORD: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
/// Lines about refused connections: one for each kind at once, and one in ten seconds.
const KINDS: u64 = 3;
const SUMMARY_EVERY: Duration = Duration::from_secs(10);

/// Behaviour of the attackers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Connect, send nothing or the beginning of a greeting, and wait.
    HalfOpen,
    /// Send one byte of a greeting each second.
    DripBefore,
    /// Finish the handshake, and then send one byte each second.
    DripAfter,
}

/// A port of the first member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    Client,
    Http,
    Metrics,
    Peer,
}

/// An attack on a port.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub attack: Attack,
    pub port: Port,
    /// Connections of a round.
    pub connections: u64,
    /// New rounds are begun until this time has passed.
    pub lasting: Duration,
}

impl Scene {
    /// Names the scene in reports.
    pub fn name(&self) -> String {
        let attack = match self.attack {
            Attack::HalfOpen => "half-open handshakes",
            Attack::DripBefore => "one byte a second in the handshake",
            Attack::DripAfter => "one byte a second after the handshake",
        };
        let port = format!("{:?}", self.port).to_lowercase();
        format!("{attack}, {port} port")
    }
}

/// Plays one scene on fresh members.
pub async fn run(binary: &Path, scene: Scene) -> Outcome<Report> {
    allow_files(scene.connections + OTHER_FILES)?;
    let ports = harness::ports::reserve(2)?;
    let [http, metrics] = [ports[0], ports[1]].map(|port| format!("127.0.0.1:{port}"));
    let mut is_first = true;
    let mut servers = Servers::start_secure(binary, MEMBERS, |member| {
        if std::mem::take(&mut is_first) {
            let plain = member.metrics_address();
            let flags = [
                format!("--listen-metrics-urls=http://{plain},https://{metrics}"),
                format!("--listen-client-http-urls=https://{http}"),
            ];
            member.program.flags.extend(flags);
        }
        Ok(())
    })?;
    let begun = Instant::now();
    let target = match scene.port {
        Port::Client => servers.first().client_address().to_owned(),
        Port::Http => http,
        Port::Metrics => metrics,
        Port::Peer => servers.first().config.peer.clone(),
    };
    let endured = endure(&servers, &target, scene).await;
    let mut report = servers.check().and(endured)?;
    judge_log(&mut servers, begun.elapsed(), &mut report)?;
    Ok(report)
}

/// Raises the limit of open files of this process; its children raise their own.
fn allow_files(files: u64) -> Outcome {
    let maximum = getrlimit(Resource::Nofile).maximum;
    if maximum.is_some_and(|maximum| maximum < files) {
        return Err(format!(
            "{files} open files are needed and {} are allowed: raise the hard limit (ulimit -Hn)",
            maximum.unwrap_or_default()
        )
        .into());
    }
    let current = maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current, maximum })?)
}

async fn endure(servers: &Servers, target: &str, scene: Scene) -> Outcome<Report> {
    let secure = servers.first().config.secure.as_ref();
    let certificates = secure
        .ok_or("the members have no TLS")?
        .certificates
        .clone();
    let client_way = Way::new(servers.first().client_address(), &certificates, PAIR)?;
    let target_way = Way::new(target, &certificates, PAIR)?;
    let term = term_of(servers).await?;
    let mut report = Report::default();
    // The first round trips load code and open segments.
    Witness::start(&client_way)
        .await?
        .stop(&mut Report::default())
        .await?;
    servers.settle()?;
    let idle = Idle::of(servers)?;
    let witness = Witness::start(&client_way).await?;
    let attacked = Instant::now();
    let rounds = play_rounds(target, &target_way, scene);
    let (connections, peak) = peak_during(servers, rounds).await?;
    let after = term_of(servers).await;
    let seconds = attacked.elapsed().as_secs_f64();
    report.add("connections, all ended by the server", connections);
    report.add("in a round", scene.connections);
    report.add("time of the attack", format!("{seconds:.1} s"));
    witness.stop(&mut report).await?;
    report.add("most memory of a member", mebibytes(peak));
    idle.wait_for(servers, &mut report).await?;
    for member in &servers.cluster.members {
        let way = Way::new(member.client_address(), &certificates, PAIR)?;
        let served = Witness::start(&way).await?;
        served.stop(&mut Report::default()).await?;
    }
    let after = after?;
    report.add("term before and after", format!("{term}, {after}"));
    match term == after {
        true => Ok(report),
        false => Err(format!("the term went from {term} to {after}; {report}").into()),
    }
}

async fn term_of(servers: &Servers) -> Outcome<u64> {
    let statuses = servers.statuses().await?;
    Ok(statuses.iter().map(|it| it.raft_term).max().unwrap_or(0))
}

/// Plays rounds; returns the number of connections.
async fn play_rounds(target: &str, way: &Way, scene: Scene) -> Outcome<u64> {
    let deadline = Instant::now() + scene.lasting;
    let mut connections = 0;
    while connections == 0 || Instant::now() < deadline {
        play_round(target, way, scene).await?;
        connections += scene.connections;
    }
    Ok(connections)
}

/// Opens all connections, and waits until the server has ended each.
async fn play_round(target: &str, way: &Way, scene: Scene) -> Outcome {
    let opening = Arc::new(Semaphore::new(OPENING_MAX));
    let mut attackers = JoinSet::new();
    for number in 0..scene.connections {
        let (opening, target, way) = (Arc::clone(&opening), target.to_owned(), way.clone());
        attackers.spawn(async move {
            let permit = opening.acquire_owned().await?;
            match scene.attack {
                Attack::HalfOpen => {
                    let mut socket = TcpStream::connect(target).await?;
                    drop(permit);
                    // The server may have ended it already.
                    if number % 2 == 0 {
                        let _ = socket.write_all(RECORD).await;
                    }
                    wait_for_end(socket).await
                }
                Attack::DripBefore => {
                    let socket = TcpStream::connect(target).await?;
                    drop(permit);
                    drip(socket, RECORD).await
                }
                Attack::DripAfter => {
                    let stream = timeout(PATIENCE, way.connect(None)).await??;
                    drop(permit);
                    drip(stream, PREFACE).await
                }
            }
        });
    }
    while let Some(attacker) = attackers.join_next().await {
        attacker??;
    }
    Ok(())
}

/// Fails if the server keeps the connection.
async fn wait_for_end(mut stream: impl AsyncRead + Unpin) -> Outcome {
    let mut bytes = [0; 1024];
    let reading = async { while matches!(stream.read(&mut bytes).await, Ok(1..)) {} };
    let ended = timeout(HANDSHAKE_TIME_MAX + PATIENCE, reading).await;
    ended.map_err(|_| {
        "the server keeps a connection with a handshake or request that never ends".into()
    })
}

/// Sends one byte each second, until the server ends the connection.
async fn drip(stream: impl AsyncRead + AsyncWrite, bytes: &[u8]) -> Outcome {
    let (read, mut write) = tokio::io::split(stream);
    let dripping = async {
        for byte in bytes {
            if write.write_all(&[*byte]).await.is_err() || write.flush().await.is_err() {
                break;
            }
            sleep(BYTE_EVERY).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = wait_for_end(read) => ended,
        () = dripping => unreachable!("it waits for the end"),
    }
}

/// The log of the attacked member must say what to do, and must not have a line for each
/// connection.
fn judge_log(servers: &mut Servers, taken: Duration, report: &mut Report) -> Outcome {
    const ABOUT: [&str; 4] = [
        "rejected connection on",
        "rejected more connections on",
        "closed connections on which no request came",
        "refused a connection from",
    ];
    let log = servers.cluster.members[0].process()?.log();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| ABOUT.iter().any(|about| line.contains(about)))
        .collect();
    let Some(first) = lines.first() else {
        return Err("the log has no line about the attack".into());
    };
    report.add("lines of the log about them", lines.len());
    report.add("the first of them", first);
    let without = lines.iter().find(|line| !line.contains("firewall"));
    if let Some(line) = without {
        return Err(format!("a line does not say what to do: {line}").into());
    }
    let lines_max = KINDS * (2 + taken.as_secs() / SUMMARY_EVERY.as_secs());
    match lines.len() as u64 <= lines_max {
        true => Ok(()),
        false => Err(format!("{} lines:\n{}", lines.len(), lines.join("\n")).into()),
    }
}
