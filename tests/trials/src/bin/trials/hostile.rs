//! Three members under load, with attackers at their peer ports.
//!
//! ```text
//!   load ──► a ◄─► b ◄─► c        reads and writes through any member, all recorded
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
//! the members' histories must be the same and explain what clients saw, no member may have
//! taken more than 256 MiB above its idle memory, and no term may have changed.

mod attack;
mod stub;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use environment::randomness::Random;
use history::{History, Restarts};

use crate::caller::Caller;
use crate::load::{self, Keys, Mix, Running};
use crate::machine::Machine;
use crate::member::Member;
use crate::process::{Outcome, inkstone_binary};
use crate::recorder::Recorder;
use crate::request::Client;
use crate::servers::{self, Servers};
use crate::{client, live_line, peer_secret, report};
use attack::{Attacker, Target};
use stub::Stub;

/// Memory that a member may take above its idle memory.
const GROWTH_MIB_MAX: f64 = 256.0;
const ATTACKERS: u64 = 4;
/// Time limit for adding the learner.
const MEETING: Duration = Duration::from_secs(10);
const MEMBERS: usize = 3;
const CLIENTS: u32 = 4;
/// Operations per second of all clients together.
const RATE: u32 = 2_000;
/// Number of the first client that reads at the end; there is one for each member.
const READERS: u32 = 1_000;
/// Longest time for a call, and for the load without an answer.
const PATIENCE: Duration = Duration::from_secs(30);

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// No id of a member.
    Strangers,
    /// The id of the learner, and no other member's.
    OwnMembers,
    /// The ids of all members.
    All,
}

/// Names, the ids that attackers use, and whether the members share a secret.
const SCENES: [(&str, Ids, bool); 3] = [
    ("a stranger", Ids::Strangers, false),
    ("a member's id of its own", Ids::OwnMembers, false),
    ("all members' ids, and a secret", Ids::All, true),
];

const HEADS: [&str; 9] = [
    "scene",
    "connections",
    "let in",
    "frames",
    "calls answered",
    "term before and after",
    "most memory of a member, idle",
    "the same, attacked",
    "wrong",
];

/// Counts of the attackers so far.
#[derive(Debug, Default)]
pub struct Counts {
    connections: AtomicU64,
    let_in: AtomicU64,
    frames: AtomicU64,
    over: AtomicBool,
}

impl Counts {
    /// Connections, those that were let in, and frames.
    fn read(&self) -> [u64; 3] {
        let all = [&self.connections, &self.let_in, &self.frames];
        all.map(|count| count.load(Ordering::Relaxed))
    }
}

pub fn run(options: &Options) -> Outcome {
    let binary = inkstone_binary(options.binary.as_deref())?;
    let machine = Machine::here()?;
    let (mut rows, mut is_right) = (Vec::new(), true);
    for scene in SCENES {
        if scene.0.contains(&options.only) {
            let (row, wrong) = play(scene, &binary, options)?;
            rows.push(row);
            is_right &= wrong.is_empty();
        }
    }
    let page = format!(
        "# Hostile peers, {}\n\n\
         {}. Three members under load, attacked at their peer ports for {} s in each scene, \
         seed {}. In the scene of a member's id of its own nothing was sent that an honest \
         member could say, since no member could tell it from the truth \
         (docs/decisions/0017-peers-are-not-trusted.md). Written by `cargo trials hostile`.\n\n{}",
        machine.date,
        machine.line(),
        options.seconds,
        options.seed,
        report::table(&HEADS, rows)
    );
    report::record(options.records.as_deref(), &machine, "hostile", &page)?;
    match is_right {
        true => Ok(()),
        false => Err("a scene broke a rule, see above".into()),
    }
}

/// One scene on fresh members: its row of the table, and what was wrong.
fn play(
    (name, ids, has_secret): (&str, Ids, bool),
    binary: &Path,
    options: &Options,
) -> Outcome<(Vec<String>, Vec<String>)> {
    let folder = servers::folder(options.directory.as_deref())?;
    let mut flags = vec!["--log-level=error".to_owned()];
    if has_secret {
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
    let recorder = Arc::new(Recorder::new());
    let members = servers.cluster.members.iter();
    let members = members.map(|it| Member::voter(it.program.clone(), it.config.clone()));
    let members: Vec<Arc<Member>> = members.collect();
    let load = runtime.block_on(async {
        let mut random = Random::from_seed(options.seed);
        let mix = Mix::new(CLIENTS, Some(RATE), keys, |_| PATIENCE);
        mix.start(&members, &recorder, &mut random, &Restarts::default())
    });
    let watched = std::thread::scope(|scope| {
        for number in 0..ATTACKERS {
            let attacker = Attacker::new(options.seed * 1000 + number, ids, &targets, &stub);
            scope.spawn(move || attacker.attack(counts));
        }
        let watched = watch(name, &servers, (counts, &recorder), options.seconds);
        counts.over.store(true, Ordering::Relaxed);
        watched
    });
    let judged = runtime.block_on(judge(&members, &recorder, load));
    let mut wrong: Vec<String> = judged.err().iter().map(ToString::to_string).collect();
    let peak_mib = watched.unwrap_or_else(|error| {
        wrong.push(error.to_string());
        0.0
    });
    let term_after = runtime.block_on(term_of(&servers)).unwrap_or(0);
    if term_after != term {
        wrong.push(format!("the term went from {term} to {term_after}"));
    }
    if peak_mib > idle_mib + GROWTH_MIB_MAX {
        wrong.push(format!(
            "{peak_mib:.0} MiB resident, {idle_mib:.0} when idle"
        ));
    }
    let [connections, let_in, frames] = counts.read().map(|count| count.to_string());
    let row = vec![
        name.to_owned(),
        connections,
        let_in,
        frames,
        recorder.acknowledged.load(Ordering::Relaxed).to_string(),
        format!("{term}, {term_after}"),
        format!("{idle_mib:.0} MiB"),
        format!("{peak_mib:.0} MiB"),
        match wrong.is_empty() {
            true => "nothing".to_owned(),
            false => wrong.join("; "),
        },
    ];
    Ok((row, wrong))
}

/// Few keys, so that clients often meet at one.
fn keys(_: u32, _: &Recorder) -> Keys {
    Keys {
        prefix: "k/".to_owned(),
        many: 20,
        value_bytes: |random| random.below(30),
        are_own: false,
    }
}

/// Ends the load, reads all keys and all revisions from every member, and judges them with what
/// clients saw.
async fn judge(members: &[Arc<Member>], recorder: &Arc<Recorder>, load: Running) -> Outcome {
    recorder.end();
    load::join(load.tasks, PATIENCE, "a client's call").await?;
    for (place, number) in (0..members.len()).zip(READERS..) {
        let mut reader = Caller::to_one(number, place, members, recorder);
        let read = reader.call(client::read_of_all(0), PATIENCE).await;
        if read.as_ref().is_none_or(|it| it.answer().is_none()) {
            return Err(format!("a last read: {read:?}").into());
        }
    }
    let newest = recorder.revision.load(Ordering::Relaxed);
    let ledger = load::history_of_all(members, newest).await?;
    let (operations, watches) = recorder.take();
    let violations = report::judge(&History {
        operations,
        watches,
        ledger,
        ..History::default()
    });
    match violations.len() {
        0 => Ok(()),
        many => Err(format!("{many} violations").into()),
    }
}

/// Adds the stub as a learner, and returns the peer ports and ids of the members.
async fn meet(servers: &Servers, stub: &Stub) -> Outcome<Vec<Target>> {
    let client = Client {
        address: servers.cluster.leader().client_address().to_owned(),
        patience: MEETING,
    };
    let began = Instant::now();
    // Members publish their names first, and one change is under way at a time.
    let own = loop {
        match client.add(stub.url(), true).await {
            Err(_) if began.elapsed() < MEETING => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            added => break added?,
        }
    };
    let statuses = servers.statuses().await?;
    let targets = statuses.into_iter().zip(&servers.cluster.members);
    let targets: Vec<Target> = targets
        .map(|(status, member)| {
            let header = status.header.unwrap_or_default();
            Target {
                address: member.config.peer.clone(),
                cluster: header.cluster_id,
                member: header.member_id,
            }
        })
        .collect();
    stub.serve_as(targets[0].cluster, own);
    Ok(targets)
}

async fn term_of(servers: &Servers) -> Outcome<u64> {
    let statuses = servers.statuses().await?;
    let terms = statuses.iter().map(|status| status.raft_term);
    Ok(terms.max().unwrap_or(0))
}

fn resident_mib(servers: &Servers) -> Outcome<f64> {
    Ok(servers.resident_bytes()? as f64 / f64::from(1 << 20))
}

/// Reads the members' memory each second and returns the largest value. Fails if a member has
/// ended, or the load gets no answers any more.
fn watch(
    scene: &str,
    servers: &Servers,
    (counts, recorder): (&Counts, &Recorder),
    seconds: u64,
) -> Outcome<f64> {
    let began = Instant::now();
    let mut peak: f64 = 0.0;
    let mut served = (0, began);
    for second in 0.. {
        if began.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
        let now = resident_mib(servers).map_err(|error| format!("a member has ended: {error}"))?;
        peak = peak.max(now);
        let [connections, let_in, frames] = counts.read();
        let answers = recorder.acknowledged.load(Ordering::Relaxed);
        if answers > served.0 {
            served = (answers, Instant::now());
        } else if served.1.elapsed() > PATIENCE {
            return Err(format!("no answer in {} s", PATIENCE.as_secs()).into());
        }
        let line = format!(
            "{scene}: {second} of {seconds} s, {connections} connections, {let_in} let in, \
             {frames} frames, {answers} answers, {now:.0} MiB"
        );
        live_line::show(&line, second % 60 == 0);
    }
    Ok(peak)
}
