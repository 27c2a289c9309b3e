//! I/O errors that name their path.
//!
//! The kernel answers with a bare number. A person needs the file's name, and a caller needs the
//! kind (`NotFound`, `StorageFull`): the error has both, and the number itself stays reachable as
//! its source.

use std::io;
use std::path::Path;

/// An operation, the path that it was tried on, and the kernel's error.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {path}: {source}")]
struct OnPath {
    /// A verb, as in "cannot write".
    what: &'static str,
    /// One path, or two for a rename.
    path: String,
    source: io::Error,
}

/// Adds the operation and the path to an error; the error's kind stays.
pub(crate) fn on_path(what: &'static str, path: &Path, error: impl Into<io::Error>) -> io::Error {
    named(what, path.display().to_string(), error.into())
}

/// As [`on_path`], for an operation with two paths.
pub(crate) fn on_paths(what: &'static str, from: &Path, to: &Path, error: io::Error) -> io::Error {
    named(
        what,
        format!("{} to {}", from.display(), to.display()),
        error,
    )
}

fn named(what: &'static str, path: String, source: io::Error) -> io::Error {
    io::Error::new(source.kind(), OnPath { what, path, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn the_message_names_the_path_and_the_kind_survives() {
        let error = on_path("write", Path::new("/data/1.log"), Errno::NOSPC);
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let text = error.to_string();
        assert!(
            text.starts_with("cannot write /data/1.log: No space left"),
            "{text}"
        );
    }
}
