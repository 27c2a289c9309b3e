//! Errors of a disk, with the path they are about.
//!
//! The kernel answers with a bare number. A person needs the file's name, a
//! caller still needs the kind (`NotFound`, `StorageFull`): both are kept,
//! and the number itself stays reachable as the source.

use std::io;
use std::path::Path;

/// What was tried on which path, and what the kernel said.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {path}: {source}")]
struct OnPath {
    /// A verb, as in "cannot write".
    what: &'static str,
    /// One path, or two for a rename.
    path: String,
    source: io::Error,
}

/// Names `path` in an error and keeps its kind.
pub(crate) fn on_path(what: &'static str, path: &Path, error: impl Into<io::Error>) -> io::Error {
    named(what, path.display().to_string(), error.into())
}

/// The same for a call with two paths.
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
