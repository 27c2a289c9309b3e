//! Which start of the kernel this is.

use std::path::Path;

use super::RealDisk;
use crate::{Disk, OpenMode};

/// Drawn by Linux when it starts; the same for all processes and containers.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What tells this start of the kernel from all others: what was in the page cache
/// under another one is gone. `None`: that cannot be read here.
pub fn boot_id() -> Option<String> {
    let file = RealDisk.open(Path::new(BOOT_ID), OpenMode::Read).ok()?;
    let mut text = [0; 64];
    let read = file.read_at(&mut text, 0).ok()?;
    let id = std::str::from_utf8(&text[..read]).ok()?.trim();
    let is_id = !id.is_empty() && id.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-');
    is_id.then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_the_same_while_the_kernel_runs() {
        assert!(boot_id().is_some_and(|id| id.len() == 36));
        assert_eq!(boot_id(), boot_id());
    }
}
