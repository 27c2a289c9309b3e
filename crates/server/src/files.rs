//! Small files read whole, through the same door as all others.

use std::io;
use std::path::Path;

use environment::real::RealDisk;
use environment::{Disk, OpenMode};

/// Larger files are surely not what was meant.
const BYTES_MAX: usize = 1 << 20;

/// The text of a file. Files of `/proc` have no size, so it is read until
/// nothing more comes.
pub fn read_text(path: &Path) -> io::Result<String> {
    read_text_from(&RealDisk, path)
}

/// The same on any disk.
pub(crate) fn read_text_from(disk: &dyn Disk, path: &Path) -> io::Result<String> {
    let file = disk.open(path, OpenMode::Read)?;
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
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}
