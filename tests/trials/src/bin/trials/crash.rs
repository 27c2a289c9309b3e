//! Kills the server with -9 again and again, and checks that no acknowledged write is lost.
//!
//! ```text
//!   start ─► verify what the last cycle left ─► load ─► kill -9 ─┐
//!     ▲                                                          │
//!     └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Each client owns its keys and has one operation in progress. After a restart
//! its keys must show exactly the acknowledged operations, or these and the whole of
//! the operation that was in progress: never half a transaction, never an older
//! value. Every operation takes one revision, so the store's revision is known
//! too, and a watch from the last verified revision must show each one.

pub mod load;
pub mod model;
pub mod verify;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use environment::randomness::Random;

use crate::{
    process::{Outcome, inkstone_binary},
    server_process::Program,
};
use model::Model;

/// Cycles between two compactions of the history.
const COMPACTION_CYCLES: u32 = 10;

#[derive(clap::Args)]
pub struct Options {
    /// Kills
    #[arg(long, default_value_t = 200)]
    cycles: u32,
    /// Clients at work at the same time
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// Decides the operations and the moments of the kills
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server to kill; etcd's own binary works too [default: ours, built now]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Where to keep the data; must not exist [default: a new temporary folder]
    #[arg(long)]
    directory: Option<PathBuf>,
}

/// Totals of all cycles.
#[derive(Default)]
struct Totals {
    acknowledged: u64,
    survivors: u64,
    slowest_start: Duration,
}

pub fn run(options: &Options) -> Outcome {
    let binary = inkstone_binary(options.binary.as_deref())?;
    let temporary = tempfile::tempdir()?;
    let data = match &options.directory {
        Some(directory) if directory.exists() => {
            return Err(format!("{} exists; name a new directory", directory.display()).into());
        }
        Some(directory) => directory.clone(),
        None => temporary.path().join("data"),
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let verdict = runtime.block_on(cycles(options, &binary, &data));
    if verdict.is_err() && options.directory.is_none() {
        eprintln!("the data is kept in {}", temporary.keep().display());
    }
    verdict
}

async fn cycles(options: &Options, binary: &Path, data: &Path) -> Outcome {
    let program = Program::new(binary, data);
    let mut random = Random::from_seed(options.seed);
    let mut models: Vec<Model> = (0..options.clients).map(Model::new).collect();
    let mut totals = Totals::default();
    // An empty store is at revision 1.
    let mut revision = 1;
    for cycle in 1..=options.cycles {
        revision = one_cycle(
            &program,
            &mut random,
            &mut models,
            &mut totals,
            revision,
            cycle,
        )
        .await
        .map_err(|error| format!("cycle {cycle}, seed {}: {error}", options.seed))?;
        if cycle % COMPACTION_CYCLES == 0 || cycle == options.cycles {
            println!(
                "{cycle:4} kills: revision {revision}, {} acknowledged and found, \
                 {} more survived whole, slowest start {} ms",
                totals.acknowledged,
                totals.survivors,
                totals.slowest_start.as_millis()
            );
        }
    }
    let server = program.start()?;
    revision = verify::everything(&server.url(), &mut models, revision, &mut totals).await?;
    println!(
        "{} kills, {} acknowledged writes, none lost, revision {revision}",
        options.cycles, totals.acknowledged
    );
    Ok(())
}

/// Starts, verifies, loads and kills the server. Returns the verified revision.
async fn one_cycle(
    program: &Program,
    random: &mut Random,
    models: &mut [Model],
    totals: &mut Totals,
    revision: i64,
    cycle: u32,
) -> Outcome<i64> {
    let started = Instant::now();
    let mut server = program.start()?;
    let revision = verify::everything(&server.url(), models, revision, totals).await?;
    totals.slowest_start = totals.slowest_start.max(started.elapsed());
    if cycle.is_multiple_of(COMPACTION_CYCLES) {
        verify::compact(&server.url(), revision).await?;
    }
    let killed = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = models
        .iter()
        .cloned()
        .map(|model| {
            tokio::spawn(load::run(
                server.url(),
                model,
                random.next_u64(),
                killed.clone(),
            ))
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(20 + random.below(500))).await;
    killed.store(true, Ordering::SeqCst);
    server.kill()?;
    for (model, client) in models.iter_mut().zip(clients) {
        *model = client.await??;
    }
    Ok(revision)
}
