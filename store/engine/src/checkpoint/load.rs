//! Reading a checkpoint in bulk. The file is input: nothing in it is trusted
//! before its checksum, and no length in it can make this panic.
//!
//! ```text
//!   file   [head] [tables] [e e e e] [e e e e] [e e e e] ... [foot]
//!                          portion 1 portion 2 portion 3
//!   thread 1 ─────────────►  leaves             leaves
//!   thread 2                           leaves
//!   this thread                                              joins 1, 2, 3, ... in order
//! ```
//!
//! Each block of entries can be read without the one before, so threads turn portions into
//! leaves side by side, and only reading takes turns (`portions.rs`). Joining them compares
//! the keys at their edges. Of several things that are wrong the first in the file is
//! reported, as one thread alone would do.
//!
//! A store without history reads the log between the tables and the entries: then each leaf is made
//! once, with what the log has changed in it (`last_changes.rs`).

use super::block::BlockReader;
use super::builder::{Builder, Loads};
use super::format::{Foot, Head, Kind};
use super::portions::{EntryBlocks, PORTION_BYTES, Portions, block};
use super::tables::Tables;
use crate::Worker;
use crate::live::Live;
use crate::sorted_changes::SortedRuns;
use crate::trees::OF_VERSIONS;
use environment::{Disk, Mutex, OpenMode, threads};
use ordered_index::BulkLoad;
use std::collections::BTreeSet;
use std::mem;
use std::path::Path;
use std::thread::{Scope, ScopedJoinHandle};
use value_log::Position;

pub(crate) use super::builder::LoadRules;
pub(crate) use super::unusable::Unusable;

/// Reading takes turns; more threads than this were not tried.
const THREADS_MAX: usize = 4;

/// A checkpoint of which the head and the tables are read.
#[derive(Debug)]
pub(crate) struct BegunCheckpoint {
    pub(crate) head: Head,
    /// Bytes of the file, as it would be written now.
    pub(crate) file_bytes: u64,
    tables: Tables,
    state_bytes: u64,
    entries: EntryBlocks,
    threads: usize,
}

/// The entries of a checkpoint in memory, its trees ready to install.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) trees: Loads,
    pub(crate) live: Live,
    /// Sum over the keys in the trees ([`crate::StateHash::keys`]).
    pub(crate) keys: u64,
    /// Greatest main revision in the file: the log must reach at least that far.
    pub(crate) last_main: i64,
    /// Bytes of the file, as it would be written now.
    pub(crate) file_bytes: u64,
}

/// Reads the beginning of `path`. `present`: ids of the segments that exist; an entry that
/// points anywhere else makes the checkpoint unusable.
pub(crate) fn begin(
    disk: &dyn Disk,
    path: &Path,
    present: &BTreeSet<u32>,
    worker: Worker,
) -> Result<BegunCheckpoint, Unusable> {
    let file = disk
        .open(path, OpenMode::Read)
        .map_err(|error| format!("cannot be opened: {error}"))?;
    let size = file
        .size()
        .map_err(|error| format!("has no size: {error}"))?;
    begin_with(
        BlockReader::new(file)?,
        size,
        present.clone(),
        threads_for(size, worker),
    )
}

/// Threads that are worth their start for a file of this size.
fn threads_for(file_bytes: u64, worker: Worker) -> usize {
    if worker == Worker::Caller {
        return 1;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let portions = usize::try_from(file_bytes).unwrap_or(usize::MAX) / PORTION_BYTES;
    portions.clamp(1, cores.min(THREADS_MAX))
}

fn begin_with(
    mut blocks: BlockReader,
    file_bytes: u64,
    present: BTreeSet<u32>,
    threads: usize,
) -> Result<BegunCheckpoint, Unusable> {
    let file_bytes = blocks.bytes_now(file_bytes);
    let head = read_head(&mut blocks, &present)?;
    let mut tables = Tables::new(present);
    let entries = EntryBlocks::behind(blocks, &mut tables)?;
    Ok(BegunCheckpoint {
        head,
        file_bytes,
        state_bytes: tables.state.len() as u64,
        tables,
        entries,
        threads,
    })
}

impl BegunCheckpoint {
    /// The tables, which are empty here from now on.
    pub(crate) fn take_tables(&mut self) -> Tables {
        let present = self.tables.present.clone();
        mem::replace(&mut self.tables, Tables::new(present))
    }

    /// Reads the entries, and merges `changes` with those of keys. There are none with history.
    pub(crate) fn load(self, rules: LoadRules, changes: SortedRuns) -> Result<Loaded, Unusable> {
        let (present, state_bytes) = (&self.tables.present, self.state_bytes);
        let mut portions = Portions::new(self.entries, changes);
        let mut builders = build(&mut portions, present, rules, self.threads);
        let trees = join(&mut builders)?;
        let (foot, file_bytes) = portions.foot()?;
        check(&foot, &builders, state_bytes)?;
        let mut live = Live::default();
        builders
            .iter()
            .for_each(|builder| builder.live.add_to(&mut live));
        let keys = builders.iter().map(|builder| builder.keys);
        Ok(Loaded {
            trees,
            live,
            keys: keys.fold(0, u64::wrapping_add),
            last_main: foot.last_main as i64,
            file_bytes,
        })
    }
}

fn read_head(blocks: &mut BlockReader, present: &BTreeSet<u32>) -> Result<Head, Unusable> {
    let (Kind::Head, payload) = block(blocks)? else {
        return Err("it has no head".into());
    };
    let head = Head::decode(payload).ok_or("its head has another size")?;
    let replay = head.replay_position;
    if replay != Position::NONE && !present.contains(&replay.segment()) {
        return Err(Unusable::lost(format!(
            "the log no longer has {replay:?}, where it goes on"
        )));
    }
    Ok(head)
}

/// Lets threads, of which this is one, take all portions.
fn build(
    portions: &mut Portions,
    present: &BTreeSet<u32>,
    rules: LoadRules,
    threads: usize,
) -> Vec<Builder> {
    let portions = Mutex::new(portions);
    let run = || Builder::run(&portions, present, rules);
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map_while(|_| help(scope, run)).collect();
        let own = run();
        let others = helpers.into_iter().map(|helper| {
            let ended = helper.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        others.chain([own]).collect()
    })
}

/// Starts another thread. Without it loading only takes longer.
fn help<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    let started = threads::spawn_scoped(scope, "engine-load", run);
    let failed = |error: &_| tracing::warn!(%error, "a checkpoint is loaded by fewer threads");
    started.inspect_err(failed).ok()
}

/// The whole trees, of the parts that the threads have built.
fn join(builders: &mut [Builder]) -> Result<Loads, Unusable> {
    let mut parts: Vec<_> = builders
        .iter_mut()
        .flat_map(|builder| mem::take(&mut builder.built))
        .collect();
    parts.sort_unstable_by_key(|(number, _)| *number);
    let mut trees = OF_VERSIONS.map(|_| BulkLoad::new());
    for (_, part) in parts {
        for (tree, later) in trees.iter_mut().zip(part?) {
            tree.append(later).map_err(|error| error.to_string())?;
        }
    }
    Ok(trees)
}

/// Compares the foot with what was read.
fn check(foot: &Foot, builders: &[Builder], state_bytes: u64) -> Result<(), String> {
    let mut seen = Foot {
        state_bytes,
        ..Foot::default()
    };
    for builder in builders {
        for (sum, entries) in seen.entries.iter_mut().zip(builder.seen.entries) {
            *sum += entries;
        }
        seen.last_main = seen.last_main.max(builder.seen.last_main);
    }
    if seen != *foot {
        return Err(format!("it holds {seen:?} where its foot says {foot:?}"));
    }
    Ok(())
}

const _: () = assert!(
    OF_VERSIONS[0] == 0 && OF_VERSIONS[1] == 1 && OF_VERSIONS[2] == 2,
    "tree numbers in the file"
);

#[cfg(test)]
mod tests;
