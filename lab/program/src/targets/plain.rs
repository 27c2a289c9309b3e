//! A file that is filled with zeros before anything is measured, for targets without an
//! engine: a durable overwrite of it is one write and one flush.

use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, IoSlice, Read as _, Result, copy, repeat};
use std::path::Path;

use rustix::io::{ReadWriteFlags, pwritev2};

const ZEROS_BYTES: usize = 1 << 20;

/// Makes a file of `bytes` zeros, which have reached the device.
pub fn zeroed(path: &Path, bytes: u64) -> Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    let mut file = BufWriter::with_capacity(ZEROS_BYTES, options.open(path)?);
    copy(&mut repeat(0).take(bytes), &mut file)?;
    let file = file.into_inner()?;
    file.sync_all()?;
    Ok(file)
}

/// Writes all bytes at this offset; with `durable`, they have reached the device.
pub fn write_at(file: &File, mut bytes: &[u8], mut offset: u64, durable: bool) -> Result<()> {
    let flags = match durable {
        true => ReadWriteFlags::DSYNC,
        false => ReadWriteFlags::empty(),
    };
    while !bytes.is_empty() {
        let written = pwritev2(file, &[IoSlice::new(bytes)], offset, flags)?;
        if written == 0 {
            let what = "nothing was written; the disk may be full";
            return Err(Error::new(ErrorKind::WriteZero, what));
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}
