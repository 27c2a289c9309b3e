//! A handle on a simulated file.

use crate::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fault::{Fault, crash_error, input_output_error};
use super::inode::{BLOCK_BYTES, FileView, Flushed};
use super::names::InodeId;
use super::state::{Begun, State};
use super::trace::Action;
use crate::disk::{File, OpenMode};
use crate::path_error::on_path;

/// A handle; it fails once the machine it was opened on has crashed.
#[derive(Debug)]
pub(super) struct SimulatedFile {
    state: Arc<Mutex<State>>,
    inode: InodeId,
    /// Its path when it was opened; for messages and the trace.
    path: PathBuf,
    mode: OpenMode,
    /// The file must not be cut below this.
    kept_bytes: AtomicU64,
}

impl SimulatedFile {
    /// A handle on a file that the caller has just found, under the lock.
    pub fn new(
        shared: &Arc<Mutex<State>>,
        state: &mut State,
        inode: InodeId,
        path: &Path,
        mode: OpenMode,
    ) -> SimulatedFile {
        *state.open_files.entry(inode).or_default() += 1;
        SimulatedFile {
            state: Arc::clone(shared),
            inode,
            path: path.to_path_buf(),
            mode,
            kept_bytes: AtomicU64::new(0),
        }
    }

    fn require_writable(&self) -> io::Result<()> {
        match self.mode {
            OpenMode::ReadWrite | OpenMode::CreateNew => Ok(()),
            OpenMode::Read | OpenMode::ReadDevice => Err(on_path(
                "write (opened for reading)",
                &self.path,
                rustix::io::Errno::BADF,
            )),
        }
    }

    /// Writes into the cache, as far as crash, fault and free room allow.
    fn write(
        &self,
        state: &mut State,
        parts: &[&[u8]],
        offset: u64,
        durable: bool,
    ) -> io::Result<(Begun, u64)> {
        let contents = parts.concat();
        let bytes = contents.len() as u64;
        let write = Action::Write {
            offset,
            bytes,
            durable,
        };
        let mut begun = state.begin(write, &self.path)?;
        let (length, answer) = self.allowed(state, &mut begun, offset, bytes);
        state
            .inode_mut(self.inode)
            .write(&contents[..length as usize], offset);
        state.counters.writes += 1;
        state.counters.bytes_written += length;
        if let Err(error) = &answer {
            let note = format!("{length} of {bytes} bytes written: {error}");
            state.trace.note(note);
        }
        answer.map(|()| (begun, length))
    }

    /// The number of bytes of a write that get through, and its answer.
    fn allowed(
        &self,
        state: &State,
        begun: &mut Begun,
        offset: u64,
        length: u64,
    ) -> (u64, io::Result<()>) {
        if begun.interrupted {
            let is_whole = state.limits.keeps_pages_whole && is_in_one_page(offset, length);
            let reached = match begun.random.below(4) {
                0 => 0,
                1 if !is_whole => begun.random.below(length + 1),
                _ => length,
            };
            return (reached, Err(crash_error()));
        }
        if let Some(Fault::ShortWrite { bytes }) = begun.fault {
            return (
                bytes.min(length),
                Err(input_output_error("write", &self.path)),
            );
        }
        if state.limits.capacity_bytes.is_none() && state.limits.quota_bytes.is_none() {
            return (length, Ok(()));
        }
        let free = state.free_blocks();
        let quota = state.free_quota_blocks().filter(|&left| left < free);
        let inode = state.inode(self.inode);
        match inode.length_that_fits(offset, length, quota.unwrap_or(free)) {
            fits if fits == length => (length, Ok(())),
            fits => {
                let errno = match quota {
                    Some(_) => rustix::io::Errno::DQUOT,
                    None => rustix::io::Errno::NOSPC,
                };
                (fits, Err(on_path("write", &self.path, errno)))
            }
        }
    }

    /// Ends a flush: it succeeds, is ignored, or fails as on Linux.
    fn finish_flush(
        &self,
        state: &mut State,
        mut begun: Begun,
        range: Option<(u64, u64)>,
    ) -> io::Result<()> {
        if begun.interrupted {
            return Err(crash_error());
        }
        if begun.fault == Some(Fault::IgnoredFlush) {
            return Ok(());
        }
        let inode = state.inode_mut(self.inode);
        if begun.fault == Some(Fault::FailedFlush) {
            let story = inode.fail_flush(range, &mut begun.random);
            let path = self.path.display();
            story
                .iter()
                .for_each(|line| state.trace.note(format!("{path}: {line}")));
            return Err(input_output_error("sync", &self.path));
        }
        let flushed = match range {
            Some((offset, length)) => inode.flush_range(offset, length),
            None => inode.flush(),
        };
        count_flush(state, flushed);
        Ok(())
    }
}

fn is_in_one_page(offset: u64, length: u64) -> bool {
    offset % BLOCK_BYTES + length <= BLOCK_BYTES
}

fn count_flush(state: &mut State, flushed: Flushed) {
    state.counters.durable_flushes += 1;
    let counters = &mut state.counters;
    counters.blocks_flushed += flushed.blocks;
    counters.blocks_flushed_max = counters.blocks_flushed_max.max(flushed.blocks);
    counters.journal_commits += u64::from(flushed.metadata);
}

impl File for SimulatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.alive()?;
        let view = match self.mode {
            OpenMode::ReadDevice => FileView::Device,
            _ => FileView::Cached,
        };
        let read = state
            .inode(self.inode)
            .read(buffer, offset, view)
            .ok_or_else(|| input_output_error("read", &self.path))?;
        state.counters.reads += 1;
        state.counters.bytes_read += read as u64;
        Ok(read)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.require_writable()?;
        let mut state = self.state.lock();
        self.write(&mut state, parts, offset, false).map(drop)
    }

    fn write_durable_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.require_writable()?;
        let mut state = self.state.lock();
        let (begun, length) = self.write(&mut state, parts, offset, true)?;
        self.finish_flush(&mut state, begun, Some((offset, length)))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let begun = state.begin(Action::Sync, &self.path)?;
        self.finish_flush(&mut state, begun, None)
    }

    fn size(&self) -> io::Result<u64> {
        let state = self.state.lock();
        state.alive()?;
        Ok(state.inode(self.inode).cached_size)
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        let state = self.state.lock();
        state.alive()?;
        Ok(state.inode(self.inode).used_blocks() * BLOCK_BYTES)
    }

    fn keep_size(&self) {
        let size = self.state.lock().inode(self.inode).cached_size;
        self.kept_bytes.store(size, Ordering::Relaxed);
    }

    fn is_cached(&self, offset: u64, bytes: u64) -> bool {
        let uncached_from = self.state.lock().limits.uncached_from;
        uncached_from.is_none_or(|from| offset + bytes <= from)
    }

    fn announce(&self, offset: u64, bytes: u64) {
        self.state.lock().announced.push((offset, bytes));
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.require_writable()?;
        if size < self.kept_bytes.load(Ordering::Relaxed) {
            return Err(on_path("cut", &self.path, rustix::io::Errno::BUSY));
        }
        let mut state = self.state.lock();
        state.change(Action::SetSize(size), &self.path, |state| {
            state.inode_mut(self.inode).set_size(size);
        })
    }

    fn reserve(&self, size: u64) -> io::Result<()> {
        self.require_writable()?;
        let mut state = self.state.lock();
        let refused = |error: io::Error| on_path("reserve room for", &self.path, error);
        if state.limits.refuses_reservations {
            return Err(refused(io::ErrorKind::Unsupported.into()));
        }
        let wanted = state.inode(self.inode).blocks_to_reserve(size);
        if state.free_blocks() < wanted {
            return Err(refused(rustix::io::Errno::NOSPC.into()));
        }
        if state.free_quota_blocks().is_some_and(|left| left < wanted) {
            return Err(refused(rustix::io::Errno::DQUOT.into()));
        }
        state.change(Action::Reserve(size), &self.path, |state| {
            state.inode_mut(self.inode).reserve(size);
        })
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if let Some(handles) = state.open_files.get_mut(&self.inode) {
            *handles -= 1;
            if *handles == 0 {
                state.open_files.remove(&self.inode);
            }
        }
    }
}
