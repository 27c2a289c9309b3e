//! The last frame of the log, as its device has it.
//!
//! After a failed flush the page cache may show that frame longer than the device has it, with
//! another header (docs/decisions/0041-longer-last-frames.md). The next frame of its block is written to the
//! cache, so the longer header would reach the device with it, in front of records that are not there.

use std::ops::Range;
use std::path::Path;

use environment::{Disk, File, OpenMode, error_number};

use crate::Error;
use crate::format::{BLOCK_BYTES, FRAME_HEADER_BYTES, FrameHeader, Salt};
use crate::frame::Finisher;
use crate::window::EIO;

/// Gives the page cache the frame that lies at these offsets of the device's file, if the cache
/// has something else there. To be called before anything is written behind it. A frame that touches
/// two blocks was never made longer.
pub(crate) fn show_as_on_device(
    disk: &dyn Disk,
    path: &Path,
    file: &dyn File,
    frame: Range<u64>,
    salt: Salt,
) -> Result<(), Error> {
    if frame.is_empty() || frame.start / BLOCK_BYTES != (frame.end - 1) / BLOCK_BYTES {
        return Ok(());
    }
    let device = disk.open(path, OpenMode::ReadDevice);
    let device = device.map_err(Error::io("open", path))?;
    let read = |source: &dyn File| {
        let mut bytes = vec![0; (frame.end - frame.start) as usize];
        let read_bytes = match source.read_at(&mut bytes, frame.start) {
            // No frame was found in a block that the device cannot read.
            Err(error) if error_number(&error) == Some(EIO) => 0,
            read_bytes => read_bytes.map_err(Error::io("read", path))?,
        };
        bytes.truncate(read_bytes);
        Ok::<_, Error>(bytes)
    };
    let (kept, cached) = (read(&*device)?, read(file)?);
    if kept == cached || !is_one_frame(&kept, salt, frame.end - frame.start) {
        return Ok(());
    }
    let written = file.write_at(&[&kept], frame.start);
    written.map_err(Error::io("write to", path))
}

fn is_one_frame(bytes: &[u8], salt: Salt, frame_bytes: u64) -> bool {
    let decoded = FrameHeader::decode(bytes, salt).ok();
    let header = decoded.filter(|(header, _)| header.frame_bytes() == frame_bytes);
    header.is_some_and(|(header, _)| {
        let payload = bytes.get(FRAME_HEADER_BYTES..).unwrap_or_default();
        Finisher::default().verify(&header, payload)
    })
}
