//! The block in which the log ends, as its device has it.
//!
//! After a failed flush the page cache may show the last frame longer than the device has it, with
//! another header (docs/decisions/0041-longer-last-frames.md). The next frame of that block is written to the cache,
//! so the longer header would reach the device with it, in front of records that are not there.

use std::path::Path;

use environment::{Disk, File, OpenMode, error_number};

use crate::Error;
use crate::format::{BLOCK_BYTES, FRAMES_START};
use crate::window::EIO;

/// Gives the page cache the bytes before `end` that the device has in that block. To be called
/// before anything is written behind `end`, which is where the frames end that the device has.
pub(crate) fn show_as_on_device(
    disk: &dyn Disk,
    path: &Path,
    file: &dyn File,
    end: u64,
) -> Result<(), Error> {
    if end <= FRAMES_START {
        return Ok(());
    }
    let start = (end - 1) / BLOCK_BYTES * BLOCK_BYTES;
    let device = disk.open(path, OpenMode::ReadDevice);
    let device = device.map_err(Error::io("open", path))?;
    let mut bytes = [[0; BLOCK_BYTES as usize]; 2];
    let [kept, cached] = bytes.each_mut().map(|it| &mut it[..(end - start) as usize]);
    for (source, bytes) in [(&*device, &mut *kept), (file, &mut *cached)] {
        match source.read_at(bytes, start) {
            // No frame was found in a block that the device cannot read.
            Err(error) if error_number(&error) == Some(EIO) => return Ok(()),
            read => assert_eq!(
                read.map_err(Error::io("read", path))?,
                bytes.len(),
                "a segment reaches beyond its frames"
            ),
        }
    }
    if kept == cached {
        return Ok(());
    }
    let written = file.write_at(&[kept], start);
    written.map_err(Error::io("write to", path))
}
