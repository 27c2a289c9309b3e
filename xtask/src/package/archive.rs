//! Archives with the same bytes for the same contents: sorted, one date, one owner.

use std::io::Write;

use flate2::{Compression, GzBuilder, write::GzEncoder};
use tar::{Builder, EntryType, Header};

use super::contents::{Contents, Kind};
use crate::process::Outcome;

/// A compressed tar of all contents, with their directories, below `top` (`./` or `name/`).
pub fn tar_gz(contents: &Contents, top: &str, date: u32) -> Outcome<Vec<u8>> {
    let mut archive = Builder::new(encoder());
    for directory in contents.directories() {
        let mut header = header(EntryType::Directory, 0o755, date);
        archive.append_data(&mut header, format!("{top}{directory}/"), &[][..])?;
    }
    for (path, entry) in contents.entries() {
        let path = format!("{top}{path}");
        match &entry.kind {
            Kind::File(bytes) => {
                let mut header = header(EntryType::Regular, entry.mode, date);
                header.set_size(bytes.len() as u64);
                archive.append_data(&mut header, path, &bytes[..])?;
            }
            Kind::Link(target) => {
                let mut header = header(EntryType::Symlink, 0o777, date);
                archive.append_link(&mut header, path, target)?;
            }
        }
    }
    Ok(archive.into_inner()?.finish()?)
}

/// The bytes, compressed, without a name and a date.
pub fn gz(bytes: &[u8]) -> Outcome<Vec<u8>> {
    let mut encoder = encoder();
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn encoder() -> GzEncoder<Vec<u8>> {
    GzBuilder::new().write(Vec::new(), Compression::best())
}

fn header(kind: EntryType, mode: u32, date: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(date.into());
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header
}
