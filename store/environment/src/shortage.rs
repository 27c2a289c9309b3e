//! Errors for want of a resource, which end by themselves.
//!
//! A call that fails for want of a resource has changed nothing that matters, and may succeed
//! after another program has ended or an operator has made room. A call that fails for another
//! reason, such as a device that does not answer (EIO), is no shortage.

use std::error::Error;
use std::io;

use rustix::io::Errno;

/// The resource that the operating system has run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shortage {
    /// Room on the disk, or within the quota of a user or a project.
    Room,
    /// File descriptors of the process, or of the system.
    Descriptors,
    Memory,
}

impl Shortage {
    /// Returns the shortage that an error of a [`crate::Disk`] or a socket reports, if it is one.
    pub fn of(error: &io::Error) -> Option<Shortage> {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(Shortage::Room),
            io::ErrorKind::OutOfMemory => Some(Shortage::Memory),
            _ => Shortage::of_number(error_number(error)?),
        }
    }

    fn of_number(number: i32) -> Option<Shortage> {
        match Errno::from_raw_os_error(number) {
            Errno::NOSPC | Errno::DQUOT => Some(Shortage::Room),
            Errno::MFILE | Errno::NFILE => Some(Shortage::Descriptors),
            Errno::NOMEM => Some(Shortage::Memory),
            _ => None,
        }
    }
}

/// Returns the kernel's error number; an error that names its path has it in its chain of sources.
pub fn error_number(error: &io::Error) -> Option<i32> {
    if let Some(number) = error.raw_os_error() {
        return Some(number);
    }
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return number_of_source(error);
        }
        source = error.source();
    }
    None
}

fn number_of_source(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| error_number(error))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::path_error::on_path;

    #[test]
    fn shortages_are_known_by_their_numbers_with_and_without_a_path() {
        for (errno, shortage) in [
            (Errno::NOSPC, Some(Shortage::Room)),
            (Errno::DQUOT, Some(Shortage::Room)),
            (Errno::MFILE, Some(Shortage::Descriptors)),
            (Errno::NFILE, Some(Shortage::Descriptors)),
            (Errno::NOMEM, Some(Shortage::Memory)),
            (Errno::IO, None),
            (Errno::ROFS, None),
            (Errno::NOENT, None),
        ] {
            assert_eq!(Shortage::of(&errno.into()), shortage, "{errno:?}");
            let on_path = on_path("write", Path::new("/data/1.log"), errno);
            assert_eq!(Shortage::of(&on_path), shortage, "{on_path}");
        }
        assert_eq!(Shortage::of(&io::Error::other("without a number")), None);
    }
}
