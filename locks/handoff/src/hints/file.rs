//! Opening the file of a page by its path, without allocating.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Opens a page by its path, which may be `/proc/PROCESS/fd/NUMBER` of the process that has
/// made it. A BPF map cannot be opened that way; then its descriptor is copied from that
/// process, which takes the right to trace it.
pub fn open_file(path: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: a string that ends with a zero.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if file >= 0 {
        // SAFETY: it was opened just now.
        return Ok(unsafe { OwnedFd::from_raw_fd(file) });
    }
    let error = io::Error::last_os_error();
    match descriptor_of(path.to_bytes()) {
        Some((process, number)) if error.raw_os_error() == Some(libc::ENXIO) => {
            copy(process, number)
        }
        _ => Err(error),
    }
}

/// The process and the number in `/proc/PROCESS/fd/NUMBER`.
fn descriptor_of(path: &[u8]) -> Option<(libc::pid_t, RawFd)> {
    let path = std::str::from_utf8(path).ok()?;
    let (process, number) = path.strip_prefix("/proc/")?.split_once("/fd/")?;
    Some((process.parse().ok()?, number.parse().ok()?))
}

fn copy(process: libc::pid_t, number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor, which is closed on exec.
    let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })?;
    // SAFETY: as above.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })
}

fn owned(made: libc::c_long) -> io::Result<OwnedFd> {
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    let made = RawFd::try_from(made).expect("descriptors fit into their type");
    // SAFETY: the kernel has made it just now for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_descriptors_give_a_process_and_a_number() {
        assert_eq!(descriptor_of(b"/proc/17/fd/4"), Some((17, 4)));
        for other in [&b"/proc/self/fd/4"[..], b"/proc/17/fd/", b"/tmp/page", b""] {
            assert_eq!(descriptor_of(other), None);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no pidfd_open")]
    fn a_descriptor_that_cannot_be_opened_is_copied_from_its_process() {
        // SAFETY: makes a descriptor that cannot be opened by its path, like that of a BPF map.
        let made = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) });
        let made = made.unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), made.as_raw_fd());
        let path = std::ffi::CString::new(path).unwrap();
        let copied = open_file(&path).unwrap();
        assert_ne!(copied.as_raw_fd(), made.as_raw_fd());
    }
}
