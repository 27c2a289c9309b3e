//! Reports of records: golden files that a reviewer can read, and rules that hold for every
//! page.
//!
//! `INKSTONE_GOLDEN=write cargo test -p lab --test report` rewrites the files in `golden/`; a
//! reviewer then reads the difference.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests write files and stop at the first surprise"
)]

mod across;
mod command;
mod csv;
mod fixture;
mod index;
mod pages;
mod readme;
mod share;
mod space;

use std::path::{Path, PathBuf};

/// Compares with a file of `golden/`.
pub fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/report/golden")
        .join(name);
    if std::env::var("INKSTONE_GOLDEN").is_ok_and(|it| it == "write") {
        std::fs::write(&path, text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, known, "{} is another", path.display());
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
