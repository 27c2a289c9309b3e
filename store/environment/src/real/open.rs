//! Opening a file.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

/// Permissions of a new file: only its owner may read and write it, as it may hold secrets of
/// users.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Opens a file with the flags and permissions that all files here have.
pub(super) fn open_with(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, FILE_MODE)
}

/// Room that a file takes ([`File::allocated_bytes`](crate::File::allocated_bytes)).
pub(super) fn allocated_bytes(file: &OwnedFd) -> rustix::io::Result<u64> {
    const UNIT_BYTES: u64 = 512;
    let status = rustix::fs::fstat(file)?;
    Ok(u64::try_from(status.st_blocks).unwrap_or(0) * UNIT_BYTES)
}

/// The text of a short file of the kernel's, without white space around it.
pub(super) fn short_text(path: &str) -> Option<String> {
    let file = open_with(Path::new(path), OFlags::RDONLY).ok()?;
    let mut text = [0; 64];
    let read = rustix::io::pread(&file, &mut text, 0).ok()?;
    Some(std::str::from_utf8(&text[..read]).ok()?.trim().to_owned())
}
