//! The machine: files, names, and the gate that every I/O passes.
//!
//! The gate numbers each call that changes something, crashes the machine at
//! the chosen number and hands out injected faults. A crash *at* an I/O means
//! that the I/O had begun: any part of it may have been done.
//!
//! Chance is drawn per I/O from (seed, number), never from one running
//! stream, so that threads which interleave differently do not change what
//! an I/O of the same number does.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fault::{Fault, crash_error, input_output_error};
use super::inode::{BLOCK_BYTES, Inode};
use super::names::{InodeId, NameChange, NameTable};
use super::restart::{PowerLoss, Restart, Weather};
use super::trace::{Action, Counters, Operation, Trace};
use crate::path_error::on_path;
use crate::randomness::Random;

/// Size of a disk without a set capacity.
const TOTAL_BYTES: u64 = 1 << 40;

/// Room and other resources that the machine may run out of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    /// Room on the disk, where limited.
    pub capacity_bytes: Option<u64>,
    /// Bytes that the files may take together, whatever room the disk has.
    pub quota_bytes: Option<u64>,
    /// Error number with which opening a file fails at present.
    pub opens_fail_with: Option<i32>,
    /// The file system cannot take room for bytes that were not written.
    pub refuses_reservations: bool,
    /// A killed process leaves no part of a write within one page.
    pub keeps_pages_whole: bool,
    /// Reads wait for the device from this byte of each file on.
    pub uncached_from: Option<u64>,
}

/// One life of the simulated machine, from a start to a crash.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Seed of the random choices of this life; differs from life to life.
    life_seed: u64,
    pub names: NameTable,
    pub inodes: BTreeMap<InodeId, Arc<Inode>>,
    next_inode: InodeId,
    /// Handles per file: an open file without a name still takes room.
    pub open_files: BTreeMap<InodeId, usize>,
    /// Directories with a `LOCK` that is held.
    pub locks: BTreeSet<PathBuf>,
    /// The I/O at which the machine crashes.
    pub crash_at: Option<u64>,
    /// The machine is down for good: a restart makes a new one.
    pub crashed: bool,
    /// The journal failed: nothing changes until the machine restarts.
    read_only: bool,
    /// Faults to come, each with the first I/O it may strike.
    pub faults: Vec<(u64, Fault)>,
    pub limits: Limits,
    /// Restarts tried from this crash: each draws its own random choices.
    restarts: u64,
    pub counters: Counters,
    pub trace: Trace,
    /// Reads that were announced: offset and bytes.
    pub announced: Vec<(u64, u64)>,
}

/// An I/O that passed the gate.
pub(super) struct Begun {
    /// The machine goes down during it.
    pub interrupted: bool,
    /// What strikes it.
    pub fault: Option<Fault>,
    /// Its own dice.
    pub random: Random,
}

impl State {
    pub fn new(seed: u64) -> State {
        let root = NameTable {
            directories: BTreeSet::from(["/".into()]),
            ..NameTable::default()
        };
        State {
            life_seed: seed,
            names: root,
            inodes: BTreeMap::new(),
            next_inode: 1,
            open_files: BTreeMap::new(),
            locks: BTreeSet::new(),
            crash_at: None,
            crashed: false,
            read_only: false,
            faults: Vec::new(),
            limits: Limits::default(),
            restarts: 0,
            counters: Counters::default(),
            trace: Trace::of_seed(seed),
            announced: Vec::new(),
        }
    }

    /// Fails when the machine is down.
    pub fn alive(&self) -> io::Result<()> {
        if self.crashed {
            Err(crash_error())
        } else {
            Ok(())
        }
    }

    /// Passes an I/O through the gate: counts it, and lets crash and fault strike.
    pub fn begin(&mut self, action: Action, path: &Path) -> io::Result<Begun> {
        self.alive()?;
        if self.read_only {
            return Err(rustix::io::Errno::ROFS.into());
        }
        let number = self.counters.ios;
        self.counters.ios += 1;
        self.crashed = self.crash_at == Some(number);
        let fault = self.take_fault(number, &action);
        let path = path.to_path_buf();
        self.trace.io(number, Operation { action, path });
        if self.crashed {
            self.trace.note("the machine went down during this");
        }
        let random = self.dice(number, 0);
        Ok(Begun {
            interrupted: self.crashed,
            fault,
            random,
        })
    }

    /// An I/O with one effect, which may or may not take place in a crash.
    pub fn change(
        &mut self,
        action: Action,
        path: &Path,
        effect: impl FnOnce(&mut State),
    ) -> io::Result<()> {
        let mut begun = self.begin(action, path)?;
        if !begun.interrupted || begun.random.chance(1, 2) {
            effect(self);
        }
        self.alive()
    }

    fn take_fault(&mut self, number: u64, action: &Action) -> Option<Fault> {
        let (writes, flushes) = (action.writes(), action.flushes());
        let due = |(from, fault): &(u64, Fault)| *from <= number && fault.strikes(writes, flushes);
        let at = self.faults.iter().position(due)?;
        let (_, fault) = self.faults.remove(at);
        self.trace.note(format!("strikes the next: {fault:?}"));
        Some(fault)
    }

    fn dice(&self, number: u64, salt: u64) -> Random {
        let mixed = self.life_seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Random::from_seed(mixed.wrapping_add(salt.wrapping_mul(0xd6e8_feb8_6659_fd93)))
    }

    /// The file behind a name.
    pub fn find(&self, path: &Path) -> io::Result<InodeId> {
        self.names
            .cached
            .get(path)
            .copied()
            .ok_or_else(|| on_path("find", path, io::ErrorKind::NotFound))
    }

    pub fn require_directory(&self, directory: &Path) -> io::Result<()> {
        if self.names.directories.contains(directory) {
            return Ok(());
        }
        Err(on_path(
            "find directory",
            directory,
            io::ErrorKind::NotFound,
        ))
    }

    /// Makes an empty file without a name.
    pub fn new_inode(&mut self) -> InodeId {
        let id = self.next_inode;
        self.next_inode += 1;
        assert!(
            self.inodes.insert(id, Arc::default()).is_none(),
            "a number is used once"
        );
        id
    }

    pub fn inode(&self, id: InodeId) -> &Inode {
        self.inodes.get(&id).expect("a handle keeps its file")
    }

    pub fn inode_mut(&mut self, id: InodeId) -> &mut Inode {
        Arc::make_mut(self.inodes.get_mut(&id).expect("a handle keeps its file"))
    }

    /// Makes a directory's changes durable.
    pub fn sync_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.require_directory(directory)?;
        // A locked directory has a descriptor already.
        if !self.locks.contains(directory) {
            self.take_descriptor("sync directory", directory)?;
        }
        let begun = self.begin(Action::SyncDirectory, directory)?;
        match begun.fault {
            Some(Fault::FailedFlush) => {
                self.read_only = true;
                self.trace.note("the journal failed: read-only from here");
                return Err(input_output_error("sync directory", directory));
            }
            Some(Fault::IgnoredFlush) => return self.alive(),
            _ => {}
        }
        if !begun.interrupted {
            self.names.sync(directory);
            self.counters.directory_syncs += 1;
            self.forget_unreachable();
        }
        self.alive()
    }

    /// Frees files that no name, handle or change under way leads to.
    pub fn forget_unreachable(&mut self) {
        let State {
            inodes,
            names,
            open_files,
            ..
        } = self;
        inodes.retain(|&id, _| names.mentions(id) || open_files.contains_key(&id));
    }

    /// Blocks that may still be taken.
    pub fn free_blocks(&self) -> u64 {
        let capacity = self.limits.capacity_bytes.unwrap_or(TOTAL_BYTES) / BLOCK_BYTES;
        capacity.saturating_sub(self.used_blocks())
    }

    /// Blocks that the quota leaves; `None` without one.
    pub fn free_quota_blocks(&self) -> Option<u64> {
        let quota = self.limits.quota_bytes? / BLOCK_BYTES;
        Some(quota.saturating_sub(self.used_blocks()))
    }

    /// Fails if a call needs a descriptor and none can be opened.
    pub fn take_descriptor(&self, what: &'static str, path: &Path) -> io::Result<()> {
        match self.limits.opens_fail_with {
            Some(number) => Err(on_path(what, path, io::Error::from_raw_os_error(number))),
            None => Ok(()),
        }
    }

    pub fn total_bytes(&self) -> u64 {
        self.limits.capacity_bytes.unwrap_or(TOTAL_BYTES)
    }

    fn used_blocks(&self) -> u64 {
        let linked: BTreeSet<InodeId> = self.names.cached.values().copied().collect();
        let counts = |id: &InodeId| linked.contains(id) || self.open_files.contains_key(id);
        let used = self.inodes.iter().filter(|(id, _)| counts(id));
        used.map(|(_, inode)| inode.used_blocks()).sum()
    }

    /// An independent copy without open files and locks.
    pub fn fork(&self) -> State {
        let mut copy = self.clone();
        copy.open_files.clear();
        copy.locks.clear();
        copy.faults.clear();
        copy.crash_at = None;
        copy.limits.opens_fail_with = None;
        copy.crashed = false;
        copy.restarts = 0;
        copy.counters = Counters::default();
        copy.forget_unreachable();
        copy
    }

    /// The next life. This one is over, even if handles are still open.
    pub fn restart(&mut self, restart: Restart) -> State {
        self.crashed = true;
        let mut random = self.dice(self.counters.ios, self.restarts + 1);
        self.restarts += 1;
        let mut next = self.fork();
        next.life_seed = random.next_u64();
        next.trace
            .note(format!("restart {}: {restart:?}", self.restarts));
        if let Restart::PowerLoss(loss) = restart {
            next.lose_power(loss, &mut random);
        }
        next.forget_unreachable();
        next
    }

    fn lose_power(&mut self, loss: PowerLoss, random: &mut Random) {
        self.read_only = false;
        let weather = Weather::roll(random);
        self.lose_writes(weather, loss, random);
        let pending = std::mem::take(&mut self.names.pending);
        let survived = weather.surviving_names(&pending, loss.names, random);
        if !pending.is_empty() {
            let kept: Vec<String> = survived.iter().map(NameChange::to_string).collect();
            let text = format!("of {} un-synced names kept: {kept:?}", pending.len());
            self.trace.note(text);
        }
        self.names.keep_only(&survived);
    }

    fn lose_writes(&mut self, weather: Weather, loss: PowerLoss, random: &mut Random) {
        for (&id, inode) in &mut self.inodes {
            if inode.is_stable() {
                continue;
            }
            let inode = Arc::make_mut(inode);
            let story = weather.decide(inode, loss.writes, random);
            inode.forget_volatile();
            let name = self.names.cached.iter().find(|(_, it)| **it == id);
            let name =
                name.map_or_else(|| format!("file {id}"), |(it, _)| it.display().to_string());
            story
                .iter()
                .for_each(|line| self.trace.note(format!("{name}: {line}")));
        }
    }
}
