//! A disk in memory that does whatever a real one is not required to avoid.
//!
//! It keeps two images of everything: what callers see, and what survives.
//! Only a sync moves bytes from one to the other for certain; a crash decides about
//! the rest at random, block by block and sector by sector. The seed determines the
//! random choices, so a failure can be reproduced.
//!
//! Trade-off: the model is harsher than ext4 in a few places (names and
//! bytes are unrelated; a durable write makes only its own range durable).
//! Code that passes here does not depend on one file system's habits. What the disk
//! does *not* break is listed, with reasons, in `docs/assumptions.md`.

use crate::Mutex;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fault::Fault;
use super::file::SimulatedFile;
use super::inode::{BLOCK_BYTES, SECTOR_BYTES};
use super::names::InodeId;
use super::restart::Restart;
use super::state::State;
use super::trace::{Action, Counters, Trace};
use crate::disk::{DirectoryLock, Disk, File, OpenMode, Space};
use crate::path_error::on_path;

/// A simulated disk; clones are the same disk.
///
/// An I/O is a call that changes something: creating, renaming and removing
/// files, making a directory, writing, setting a size, syncing. I/Os are
/// numbered from 0 in every life. Reads are not I/Os in this sense: a crash
/// between two reads leaves what a crash before the next change leaves.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

impl SimulatedDisk {
    /// An empty disk; `seed` determines what crashes leave.
    pub fn new(seed: u64) -> SimulatedDisk {
        SimulatedDisk::of(State::new(seed))
    }

    fn of(state: State) -> SimulatedDisk {
        SimulatedDisk {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The machine goes down during I/O `number`: any part of it may be
    /// done. That call and all later ones fail with [`super::CRASHED`].
    pub fn crash_at(&self, number: u64) {
        let mut state = self.state.lock();
        assert!(number >= state.counters.ios, "I/O {number} is already done");
        state.crash_at = Some(number);
    }

    /// The machine goes down now, between two I/Os.
    pub fn crash(&self) {
        let mut state = self.state.lock();
        state.crashed = true;
        state.trace.note("the machine went down");
    }

    /// Whether the machine is down.
    pub fn has_crashed(&self) -> bool {
        self.state.lock().crashed
    }

    /// The disk as the next start of the machine finds it. This one stays
    /// down for ever (threads that still use it do no harm), and can be
    /// restarted again: each restart draws new random choices.
    #[must_use = "the restarted disk is a new one; this one stays down"]
    pub fn restart(&self, restart: Restart) -> SimulatedDisk {
        SimulatedDisk::of(self.state.lock().restart(restart))
    }

    /// An independent copy of the running machine, dirty pages and all, with
    /// no file open, no fault to come and its I/Os numbered from 0. Cheap:
    /// contents are shared until they are written.
    #[must_use = "the copy is the only effect"]
    pub fn fork(&self) -> SimulatedDisk {
        SimulatedDisk::of(self.state.lock().fork())
    }

    /// I/Os of this life: the next one has this number.
    pub fn io_count(&self) -> u64 {
        self.state.lock().counters.ios
    }

    /// What was done in this life.
    pub fn counters(&self) -> Counters {
        self.state.lock().counters
    }

    /// The events so far, of earlier lives too.
    pub fn trace(&self) -> Trace {
        self.state.lock().trace.clone()
    }

    /// Lets `fault` strike the first I/O from number `from_io` on that it
    /// applies to.
    pub fn inject(&self, from_io: u64, fault: Fault) {
        self.state.lock().faults.push((from_io, fault));
    }

    /// Gives the disk a size; writes that need more fail with `StorageFull`.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().limits.capacity_bytes = Some(bytes);
    }

    /// Limits what all files take together, as the quota of a user or a project does:
    /// writes that need more fail with `QuotaExceeded`, and [`Disk::space`] knows
    /// nothing of it. `None`: no limit.
    pub fn set_quota(&self, bytes: Option<u64>) {
        self.state.lock().limits.quota_bytes = bytes;
    }

    /// From here on reservations fail: the file system has none, as NFS before version 4.2.
    pub fn refuse_reservations(&self) {
        self.state.lock().limits.refuses_reservations = true;
    }

    /// From here on a killed process leaves all or nothing of a write within one page, as Linux does
    /// (docs/assumptions.md). Otherwise a write may end at any byte.
    pub fn keep_pages_whole(&self) {
        self.state.lock().limits.keeps_pages_whole = true;
    }

    /// From now on every read waits for the device, as files say that are asked
    /// ([`File::is_cached`]).
    ///
    /// [`File::is_cached`]: crate::File::is_cached
    pub fn cache_nothing(&self) {
        self.cache_first_bytes(0);
    }

    /// From now on each file has its first `bytes` in the cache, and a read of others waits for the device.
    pub fn cache_first_bytes(&self, bytes: u64) {
        self.state.lock().limits.uncached_from = Some(bytes);
    }

    /// Ends what [`SimulatedDisk::cache_nothing`] has begun.
    pub fn cache_all(&self) {
        self.state.lock().limits.uncached_from = None;
    }

    /// Takes the list of reads that were announced ([`File::announce`]): offset and bytes.
    ///
    /// [`File::announce`]: crate::File::announce
    pub fn take_announced(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.state.lock().announced)
    }

    /// Makes each call that needs a new descriptor fail with this error number, such as
    /// EMFILE. `None` ends that. Open files and locked directories can be used as before.
    pub fn fail_opens(&self, raw_os_error: Option<i32>) {
        let mut state = self.state.lock();
        state.limits.opens_fail_with = raw_os_error;
        state.trace.note(match raw_os_error {
            Some(number) => format!("from here on nothing is opened: error {number}"),
            None => "files are opened again".to_owned(),
        });
    }

    /// Turns over bit `bit` (0 to 7) of the byte at `offset`, on the device
    /// and in the cache.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) {
        let mut state = self.state.lock();
        let inode = existing(&state, path);
        state.inode_mut(inode).flip_bit(offset, bit);
        state.trace.note(format!(
            "{}: bit {bit} of byte {offset} flipped",
            path.display()
        ));
    }

    /// Makes the sectors that hold `range` unreadable (EIO) until they are
    /// written again.
    pub fn fail_reads(&self, path: &Path, range: Range<u64>) {
        let mut state = self.state.lock();
        let inode = existing(&state, path);
        let sectors = range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES);
        state.inode_mut(inode).bad_sectors.extend(sectors);
        state
            .trace
            .note(format!("{}: bytes {range:?} unreadable", path.display()));
    }

    /// Empties the page cache of clean pages, as memory pressure does: what a
    /// failed flush lost is then gone for readers too.
    pub fn evict_clean_pages(&self) {
        let mut state = self.state.lock();
        let ids: Vec<InodeId> = state.inodes.keys().copied().collect();
        ids.into_iter().for_each(|id| state.inode_mut(id).evict());
        state.trace.note("clean pages evicted");
    }
}

fn existing(state: &State, path: &Path) -> InodeId {
    state.find(path).expect("a test damages a file that exists")
}

impl Disk for SimulatedDisk {
    fn create_directories(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.alive()?;
        if state.names.directories.contains(path) {
            return Ok(());
        }
        state.change(Action::CreateDirectories, path, |state| {
            let levels = path.ancestors().map(Path::to_path_buf);
            state.names.directories.extend(levels);
        })
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        state.alive()?;
        state.take_descriptor("open", path)?;
        let inode = match mode {
            OpenMode::CreateNew => create(&mut state, path)?,
            _ => state.find(path)?,
        };
        Ok(Arc::new(SimulatedFile::new(
            &self.state,
            &mut state,
            inode,
            path,
            mode,
        )))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        assert_eq!(
            from.parent(),
            to.parent(),
            "a rename stays in its directory"
        );
        let mut state = self.state.lock();
        state.alive()?;
        let inode = state.find(from)?;
        state.change(Action::RenameTo(to.to_path_buf()), from, |state| {
            state.names.change(Some(from), Some(to), inode);
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.alive()?;
        let inode = state.find(path)?;
        state.change(Action::Remove, path, |state| {
            state.names.change(Some(path), None, inode);
        })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        state.alive()?;
        state.require_directory(directory)?;
        state.take_descriptor("list", directory)?;
        let inside = state
            .names
            .cached
            .keys()
            .filter(|path| path.parent() == Some(directory));
        Ok(inside
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.alive()?;
        state.sync_directory(directory)
    }

    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let mut state = self.state.lock();
        state.alive()?;
        state.require_directory(directory)?;
        state.take_descriptor("lock", directory)?;
        if !state.locks.insert(directory.to_path_buf()) {
            return Err(lock_is_held(directory));
        }
        make_lock_file(&mut state, directory.join("LOCK"));
        let (state, directory) = (Arc::clone(&self.state), directory.to_path_buf());
        Ok(Box::new(SimulatedLock { state, directory }))
    }

    fn space(&self, directory: &Path) -> io::Result<Space> {
        let state = self.state.lock();
        state.alive()?;
        state.require_directory(directory)?;
        Ok(Space {
            available_bytes: state.free_blocks() * BLOCK_BYTES,
            total_bytes: state.total_bytes(),
        })
    }
}

fn create(state: &mut State, path: &Path) -> io::Result<InodeId> {
    if let Some(directory) = path.parent() {
        state.require_directory(directory)?;
    }
    if state.find(path).is_ok() {
        return Err(on_path("create", path, io::ErrorKind::AlreadyExists));
    }
    let inode = state.new_inode();
    state.change(Action::Create, path, |state| {
        state.names.change(None, Some(path), inode);
    })?;
    Ok(inode)
}

/// Creates a lock file. No recovery depends on its name: it is no I/O, and durable at once.
fn make_lock_file(state: &mut State, path: PathBuf) {
    if state.find(&path).is_err() {
        let inode = state.new_inode();
        state.names.cached.insert(path.clone(), inode);
        state.names.stable.insert(path, inode);
    }
}

fn lock_is_held(directory: &Path) -> io::Error {
    let id = std::process::id();
    let message = format!(
        "directory {} is in use by this process ({id})",
        directory.display()
    );
    io::Error::new(io::ErrorKind::WouldBlock, message)
}

/// Held until dropped, or until the machine goes down.
#[derive(Debug)]
struct SimulatedLock {
    state: Arc<Mutex<State>>,
    directory: PathBuf,
}

impl DirectoryLock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.locks.remove(&self.directory);
    }
}
