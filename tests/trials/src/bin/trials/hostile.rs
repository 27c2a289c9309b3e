//! Three members under load, with attackers at their peer ports.
//!
//! ```text
//!   load ──► a ◄─► b ◄─► c        puts, each counted once it is answered
//!            ▲     ▲     ▲
//!            └─────┴─────┴── attackers: bytes, halves of frames, frames drawn at random,
//!                            altered, replayed, in other members' names
//!            a ──► stub           poses as a learner: the frames that members send to
//!                                 it are replayed
//! ```
//!
//! There are three scenes: attackers without a member's id; attackers with the id of the
//! learner, which send only messages that no honest member sends; and attackers of both kinds
//! with all members' ids, against members that share a secret. At the end every member must run,
//! each answered put must be in the history of every member and nothing else, no member may have
//! taken more than 256 MiB above its idle memory, and no term may have changed.

mod attack;
mod load;
mod record;
mod stub;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use etcd_api::etcdserverpb::cluster_client::ClusterClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::{MemberAddRequest, MemberListRequest, StatusRequest};

use crate::live_line;
use crate::machine::Machine;
use crate::peer_secret;
use crate::process::{Outcome, inkstone_binary};
use crate::recorder::Recorder;
use crate::servers::Servers;
use attack::{Attacker, Target};
use stub::Stub;

/// Memory that a member may take above its idle memory.
const GROWTH_MIB_MAX: f64 = 256.0;
const ATTACKERS: u64 = 4;
const MEMBERS: usize = 3;

#[derive(clap::Args)]
pub struct Options {
    /// How long each scene takes
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Decides what is sent
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the scenes with this text in their name
    #[arg(long, default_value = "")]
    only: String,
    /// The server to attack [default: ours, built now]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Where the servers keep their data [default: a temporary folder]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Directory for the record; without it none is written
    #[arg(long)]
    records: Option<PathBuf>,
}

/// The ids that attackers use, and whether the members share a secret.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    name: &'static str,
    ids: Ids,
    has_secret: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// No id of a member.
    Strangers,
    /// The id of the learner, and no other member's.
    OwnMembers,
    /// The ids of all members.
    All,
}

const SCENES: [Scene; 3] = [
    Scene {
        name: "a stranger",
        ids: Ids::Strangers,
        has_secret: false,
    },
    Scene {
        name: "a member's id of its own",
        ids: Ids::OwnMembers,
        has_secret: false,
    },
    Scene {
        name: "all members' ids, and a secret",
        ids: Ids::All,
        has_secret: true,
    },
];

/// Result of a scene.
#[derive(Debug)]
pub struct Row {
    scene: &'static str,
    connections: u64,
    let_in: u64,
    frames: u64,
    puts: u64,
    terms: (u64, u64),
    idle_mib: f64,
    peak_mib: f64,
    wrong: Vec<String>,
}

/// Counts of the attackers so far.
#[derive(Debug, Default)]
pub struct Counts {
    connections: AtomicU64,
    let_in: AtomicU64,
    frames: AtomicU64,
    over: AtomicBool,
}

pub fn run(options: &Options) -> Outcome {
    let binary = inkstone_binary(options.binary.as_deref())?;
    let mut rows = Vec::new();
    for scene in SCENES {
        if scene.name.contains(&options.only) {
            rows.push(play(scene, &binary, options)?);
        }
    }
    record::write(&Machine::here()?, options, &rows)?;
    match rows.iter().all(|row| row.wrong.is_empty()) {
        true => Ok(()),
        false => Err("a scene broke a rule, see above".into()),
    }
}

/// One scene on fresh members.
fn play(scene: Scene, binary: &std::path::Path, options: &Options) -> Outcome<Row> {
    let folder = match &options.directory {
        Some(directory) => tempfile::tempdir_in(directory)?,
        None => tempfile::tempdir()?,
    };
    let mut flags = vec!["--log-level=error".to_owned()];
    if scene.has_secret {
        let file = peer_secret::write(folder.path())?;
        flags.push(format!("--peer-secret-file={}", file.display()));
    }
    let servers = Servers::start_in(folder, binary, MEMBERS, &flags)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let stub = Stub::listen()?;
    let targets = runtime.block_on(meet(&servers, &stub))?;
    servers.settle()?;
    let idle_mib = resident_mib(&servers)?;
    let term = runtime.block_on(term_of(&servers))?;
    let counts = &Counts::default();
    let recorder = &Recorder::new();
    let url = &servers.cluster.leader().client_url();
    let (mut wrong, peak_mib) = std::thread::scope(|scope| {
        for number in 0..ATTACKERS {
            let attacker = Attacker::new(options.seed * 1000 + number, scene.ids, &targets, &stub);
            scope.spawn(move || attacker.attack(counts));
        }
        let loading = scope.spawn(|| load::put_until_over(url, counts, recorder));
        let watched = watch(scene, &servers, (counts, recorder), options.seconds);
        counts.over.store(true, Ordering::Relaxed);
        let loaded = loading.join().map_err(|_| "the load panicked".to_owned());
        let mut wrong = Vec::new();
        match loaded {
            Ok(Ok(())) => {}
            Ok(Err(error)) => wrong.push(format!("the load ended: {error}")),
            Err(what) => wrong.push(what),
        }
        match watched {
            Ok(peak) => (wrong, peak),
            Err(error) => {
                wrong.push(error.to_string());
                (wrong, 0.0)
            }
        }
    });
    let puts = recorder.acknowledged.load(Ordering::Relaxed);
    if let Err(error) = runtime.block_on(load::judge(&servers, recorder)) {
        wrong.push(error.to_string());
    }
    let term_after = runtime.block_on(term_of(&servers)).unwrap_or(0);
    if term_after != term {
        wrong.push(format!("the term went from {term} to {term_after}"));
    }
    if peak_mib > idle_mib + GROWTH_MIB_MAX {
        wrong.push(format!(
            "{peak_mib:.0} MiB resident, {idle_mib:.0} when idle"
        ));
    }
    Ok(Row {
        scene: scene.name,
        connections: counts.connections.load(Ordering::Relaxed),
        let_in: counts.let_in.load(Ordering::Relaxed),
        frames: counts.frames.load(Ordering::Relaxed),
        puts,
        terms: (term, term_after),
        idle_mib,
        peak_mib,
        wrong,
    })
}

/// Adds the stub as a learner, and returns the peer ports and ids of the members.
async fn meet(servers: &Servers, stub: &Stub) -> Outcome<Vec<Target>> {
    let mut cluster = ClusterClient::connect(servers.cluster.leader().client_url()).await?;
    let request = MemberAddRequest {
        peer_ur_ls: vec![stub.url()],
        is_learner: true,
    };
    let mut added = cluster.member_add(request.clone()).await;
    // Members publish their names first, and one change is under way at a time.
    for _ in 0..100 {
        if added.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        added = cluster.member_add(request.clone()).await;
    }
    let added = added?.into_inner();
    let cluster_id = added.header.unwrap_or_default().cluster_id;
    let own = added.member.unwrap_or_default().id;
    stub.serve_as(cluster_id, own);
    let request = MemberListRequest { linearizable: true };
    let members = cluster.member_list(request).await?.into_inner().members;
    let others = members.into_iter().filter(|member| member.id != own);
    let target = |member: etcd_api::etcdserverpb::Member| {
        let url = member.peer_ur_ls.first().cloned().unwrap_or_default();
        let address = url.strip_prefix("http://").unwrap_or(&url).to_owned();
        Target {
            address,
            cluster: cluster_id,
            member: member.id,
        }
    };
    Ok(others.map(target).collect())
}

async fn term_of(servers: &Servers) -> Outcome<u64> {
    let mut most = 0;
    for server in &servers.cluster.members {
        let mut client = MaintenanceClient::connect(server.client_url()).await?;
        let status = client.status(StatusRequest::default()).await?.into_inner();
        most = most.max(status.raft_term);
    }
    Ok(most)
}

fn resident_mib(servers: &Servers) -> Outcome<f64> {
    Ok(servers.resident_bytes()? as f64 / f64::from(1 << 20))
}

/// Reads the members' memory each second and returns the largest value. Fails if a member has
/// ended.
fn watch(
    scene: Scene,
    servers: &Servers,
    (counts, recorder): (&Counts, &Recorder),
    seconds: u64,
) -> Outcome<f64> {
    let began = Instant::now();
    let mut peak: f64 = 0.0;
    for second in 0.. {
        if began.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
        let now = resident_mib(servers).map_err(|error| format!("a member has ended: {error}"))?;
        peak = peak.max(now);
        let line = format!(
            "{}: {second} of {seconds} s, {} connections, {} let in, {} frames, {} puts, \
             {now:.0} MiB",
            scene.name,
            counts.connections.load(Ordering::Relaxed),
            counts.let_in.load(Ordering::Relaxed),
            counts.frames.load(Ordering::Relaxed),
            recorder.acknowledged.load(Ordering::Relaxed),
        );
        live_line::show(&line, second % 60 == 0);
    }
    Ok(peak)
}
