//! Restarts of three members under clients with users, over TLS.
//!
//! ```text
//!   clients      log in once, then put and get with their own token, through any member
//!   restarts     each member in turn: SIGTERM, its end, a start
//!                then kill -9 of the leader, and a start
//!   at the end   every acknowledged put must be there, at every member
//! ```
//!
//! A client repeats what clients of etcd repeat: gets that failed because a server or a connection
//! was away, puts only if no server has got them. Any other error fails the trial, an
//! `invalid auth token` first of all: a token must count whichever member is asked.

mod client;
mod failure;
mod tally;
mod written;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::Signal;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::sleep;
use tonic::transport::Channel;

use crate::logins::{Login, create_users};
use crate::servers::{Servers, channel, way_to};
use crate::{Outcome, Report};
use client::Client;
use tally::Tally;
use written::Written;

pub use tally::Counts;

const MEMBERS: usize = 3;
/// A login takes little time with the smallest cost.
const FLAGS: [&str; 2] = ["--bcrypt-cost=4", "--log-level=error"];

/// Sizes of the trial.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub clients: usize,
    /// Users; each has an equal part of the clients; each client logs in by itself.
    pub users: usize,
    /// Connections to each member, which the clients share.
    pub connections: usize,
    /// Mean pause of a client between an answer and its next request.
    pub pause: Duration,
    /// Time between a restart and the next one.
    pub settle: Duration,
    /// How often all members are restarted, and the leader is killed.
    pub rounds: usize,
}

/// Counts and errors of a played scene.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Counts during each step, in order.
    pub steps: Vec<(String, Counts)>,
    /// Errors that a retrying client repeats, or after which it does not know the outcome of a
    /// put: how many of each at graceful stops, and how many at kills.
    pub repeated: BTreeMap<String, [usize; 2]>,
    /// Answers that no retrying client repeats; the trial failed if there are any.
    pub wrong: Report,
    pub logins: usize,
    pub logins_took: Duration,
    /// Puts found at every member, all acknowledged ones among them.
    pub found: usize,
    /// Puts without an answer, or with an error after which a client does not know.
    pub unknown: usize,
}

impl Seen {
    fn note(&mut self, step: String, tally: &Tally, is_kill: bool) {
        let (counts, errors) = tally.take();
        self.steps.push((step, counts));
        for (error, count) in errors {
            self.repeated.entry(error).or_default()[usize::from(is_kill)] += count;
        }
    }
}

/// Plays the scene with a server program, which may be etcd. Fails if an acknowledged put is
/// missing; other errors of clients are in [`Seen::wrong`].
pub async fn run(binary: &Path, scene: Scene) -> Outcome<Seen> {
    let mut servers = Servers::start_secure(binary, MEMBERS, |member| {
        member.program = member.program.clone().with(&FLAGS);
        Ok(())
    })?;
    let played = play(&mut servers, scene).await;
    // If a process ended, that explains every other failure.
    servers.check().and(played)
}

async fn play(servers: &mut Servers, scene: Scene) -> Outcome<Seen> {
    let names: Vec<String> = (0..scene.users).map(|it| format!("user{it}")).collect();
    create_users(channel(servers.first()).await?, &names).await?;
    let tally = Arc::new(Tally::default());
    let links = links(servers, scene.connections)?;
    let began = Instant::now();
    let clients = log_in(&links, &names, scene, &tally).await?;
    let mut seen = Seen {
        logins: clients.len(),
        logins_took: began.elapsed(),
        ..Seen::default()
    };
    let mut running: JoinSet<Written> = JoinSet::new();
    for client in clients {
        running.spawn(client.work(scene.pause));
    }
    let stepped = restarts(servers, scene, &tally, &mut seen).await;
    tally.end();
    let written = running.join_all().await;
    stepped?;
    let mut members = Vec::new();
    for member in &servers.cluster.members {
        let channel = channel(member).await?;
        // A new token, so that lost puts of etcd are found although it has forgotten old ones.
        let token = Login::of(&names[0]).token(channel.clone()).await?;
        members.push((channel, token));
    }
    seen.found = written::check(&members, &written).await?;
    seen.unknown = written.iter().map(Written::unknown).sum();
    seen.wrong = tally.wrong();
    Ok(seen)
}

/// For each connection of the scene one channel to each member.
fn links(servers: &Servers, connections: usize) -> Outcome<Vec<Arc<[Channel]>>> {
    let ways = servers.cluster.members.iter().map(way_to);
    let ways = ways.collect::<Outcome<Option<Vec<_>>>>()?;
    let ways = ways.ok_or("the members have no TLS")?;
    let link = |_| ways.iter().map(|way| way.lazy_channel()).collect();
    (0..connections).map(link).collect()
}

/// Logs all clients in, at all members alike.
async fn log_in(
    links: &[Arc<[Channel]>],
    names: &[String],
    scene: Scene,
    tally: &Arc<Tally>,
) -> Outcome<Vec<Client>> {
    let mut logins: JoinSet<Outcome<Client>> = JoinSet::new();
    for number in 0..scene.clients {
        let link = Arc::clone(&links[number % links.len()]);
        let login = Login::of(&names[number % names.len()]);
        logins.spawn(Client::open(number, link, login, Arc::clone(tally)));
    }
    let mut clients = Vec::new();
    while let Some(client) = logins.join_next().await {
        clients.push(client??);
    }
    Ok(clients)
}

async fn restarts(servers: &mut Servers, scene: Scene, tally: &Tally, seen: &mut Seen) -> Outcome {
    sleep(scene.settle).await;
    seen.note("no restart".to_owned(), tally, false);
    for _ in 0..scene.rounds {
        for place in 0..MEMBERS {
            let leads = block_in_place(|| servers.cluster.find_leader())? == place;
            let member = &mut servers.cluster.members[place];
            let status = block_in_place(|| member.stop())?;
            // etcd ends itself with the signal that it got.
            if !status.success() && status.signal() != Some(Signal::TERM.as_raw()) {
                let (name, lines) = (&member.config.name, member.last_lines());
                return Err(format!("{name} ended with {status}: {lines}").into());
            }
            block_in_place(|| member.start_and_wait())?;
            sleep(scene.settle).await;
            let what = if leads { ", the leader" } else { "" };
            let name = format!("SIGTERM, {}{what}", member.config.name);
            seen.note(name, tally, false);
        }
        let leader = block_in_place(|| servers.cluster.find_leader())?;
        let member = &mut servers.cluster.members[leader];
        block_in_place(|| member.kill())?;
        // The others elect a leader before this one is back.
        sleep(scene.settle).await;
        block_in_place(|| member.start_and_wait())?;
        sleep(scene.settle).await;
        let name = format!("kill -9, {}, the leader", member.config.name);
        seen.note(name, tally, true);
    }
    Ok(())
}
