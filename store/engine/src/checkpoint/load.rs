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

use super::block::BlockReader;
use super::builder::{Builder, Loads};
use super::format::{Foot, Head, Kind};
use super::portions::{PORTION_BYTES, Portions, block};
use super::unusable::Unusable;
use crate::Worker;
use crate::live::Live;
use crate::overruled::Overruled;
use crate::revision_marks::RevisionMarks;
use crate::trees::OF_VERSIONS;
use environment::{Disk, Mutex, OpenMode, threads};
use ordered_index::BulkLoad;
use std::collections::BTreeSet;
use std::mem;
use std::path::Path;
use std::thread::{Scope, ScopedJoinHandle};
use value_log::Position;

/// Reading, which takes turns, is a twentieth of the work; more threads than this were not tried.
const THREADS_MAX: usize = 4;

/// A checkpoint in memory, its trees ready to install.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) head: Head,
    pub(crate) state: Vec<u8>,
    pub(crate) trees: Loads,
    pub(crate) live: Live,
    /// Sum over the keys in the trees ([`crate::StateHash::keys`]).
    pub(crate) keys: u64,
    pub(crate) marks: RevisionMarks,
    pub(crate) overruled: Overruled,
    /// Greatest main revision in the trees: the log must reach at least that far.
    pub(crate) last_main: i64,
    pub(crate) file_bytes: u64,
}

/// Reads `path`. `present`: ids of the segments that exist; an entry that
/// points anywhere else makes the checkpoint unusable.
pub(crate) fn load(
    disk: &dyn Disk,
    path: &Path,
    present: &BTreeSet<u32>,
    worker: Worker,
) -> Result<Loaded, Unusable> {
    let file = disk
        .open(path, OpenMode::Read)
        .map_err(|error| format!("cannot be opened: {error}"))?;
    let size = file
        .size()
        .map_err(|error| format!("has no size: {error}"))?;
    load_with(BlockReader::new(file)?, present, threads_for(size, worker))
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

fn load_with(
    mut blocks: BlockReader,
    present: &BTreeSet<u32>,
    threads: usize,
) -> Result<Loaded, Unusable> {
    let head = read_head(&mut blocks, present)?;
    let mut portions = Portions::new(blocks, present);
    let mut builders = build(&mut portions, present, threads);
    let trees = join(&mut builders)?;
    let foot = portions.foot()?;
    let tables = &mut portions.tables;
    check(&foot, &builders, tables.state.len())?;
    let mut live = mem::take(&mut tables.live);
    builders
        .iter()
        .for_each(|builder| builder.live.add_to(&mut live));
    let keys = builders.iter().map(|builder| builder.keys);
    Ok(Loaded {
        head,
        state: mem::take(&mut tables.state),
        trees,
        live,
        keys: keys.fold(0, u64::wrapping_add),
        marks: mem::take(&mut tables.marks),
        overruled: mem::take(&mut tables.overruled),
        last_main: foot.last_main as i64,
        file_bytes: portions.file_bytes()?,
    })
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
fn build(portions: &mut Portions<'_>, present: &BTreeSet<u32>, threads: usize) -> Vec<Builder> {
    let portions = Mutex::new(portions);
    let run = || Builder::run(&portions, present);
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
fn help<'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl FnOnce() -> Builder + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, Builder>> {
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
fn check(foot: &Foot, builders: &[Builder], state_bytes: usize) -> Result<(), String> {
    let mut seen = Foot {
        state_bytes: state_bytes as u64,
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
