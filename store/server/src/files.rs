//! Reads small files whole, through the `Disk` interface like all files.

use std::io;
use std::path::Path;

use environment::real::RealDisk;
use environment::{Disk, OpenMode};

/// A larger file is taken for a mistake and refused.
const BYTES_MAX: usize = 1 << 20;

/// The text of a file.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read_bytes(path)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

/// The bytes of a file. Files of `/proc` have no size, so it is read until a read returns
/// nothing.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = RealDisk.open(path, OpenMode::Read)?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        match file.read_at(&mut chunk, bytes.len() as u64)? {
            0 => break,
            read => bytes.extend_from_slice(&chunk[..read]),
        }
        if bytes.len() > BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "larger than 1 MiB",
            ));
        }
    }
    Ok(bytes)
}

/// Number of files and sockets that this process has open; `None` if the system does not
/// report it.
pub(crate) fn open_files() -> Option<u64> {
    const OPEN: &str = "/proc/self/fd";
    // Linux 6.2 and later state the number as the directory's size; before, it is 0.
    let size = rustix::fs::stat(OPEN).ok()?.st_size;
    match u64::try_from(size) {
        Ok(size) if size > 0 => Some(size),
        _ => std::fs::read_dir(OPEN).ok().map(|it| it.count() as u64),
    }
}
