//! Packages of one binary: `.deb`, `.rpm` and `.tar.gz`.
//!
//! ```text
//!   cargo build ──► strip ──► binary ──┬─ manual, completions ──┐
//!                                      │                        ├─► contents ──► .deb .rpm .tar.gz
//!                           deploy/, docs/use/, LICENSE ────────┘   (sorted, one date)
//! ```
//!
//! The same sources and the same binary give the same bytes: the date of all files is that of the
//! last commit, or `SOURCE_DATE_EPOCH`.

mod archive;
mod binary;
mod contents;
mod debian;
mod red_hat;
mod release;
mod tarball;

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::process::{Outcome, root};
use binary::{Binary, Link};
use contents::Contents;
use release::Release;

#[derive(clap::Args)]
pub struct Options {
    /// Directory for the packages [default: target/package]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    /// Package this binary instead of building one
    #[arg(long, value_name = "FILE", conflicts_with = "link")]
    binary: Option<PathBuf>,
    /// How the binary is linked
    #[arg(long, value_enum, default_value_t = Link::Shared)]
    link: Link,
    /// Make only these
    #[arg(long = "format", value_enum, value_name = "FORMAT")]
    formats: Vec<Format>,
    /// Number of the package among those of one version
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    release: u32,
}

/// A kind of package.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Deb,
    Rpm,
    Tar,
}

/// Makes the packages and prints their paths.
pub fn run(options: &Options) -> Outcome {
    let place = tempfile::tempdir()?;
    let binary = match &options.binary {
        Some(path) => Binary::read(path, place.path())?,
        None => Binary::read(&binary::build(options.link)?, place.path())?,
    };
    let release = Release::of_this_tree(options.release)?;
    binary.check_version(&release.version)?;
    let out = options.out.clone();
    let out = out.unwrap_or_else(|| root().join("target/package"));
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}; see --out", out.display()))?;
    for format in [Format::Deb, Format::Rpm, Format::Tar] {
        if options.formats.is_empty() || options.formats.contains(&format) {
            make(format, &binary, &release, &out)?;
        }
    }
    Ok(())
}

fn make(format: Format, binary: &Binary, release: &Release, out: &Path) -> Outcome {
    let contents = Contents::gather(format, binary)?;
    let (name, bytes) = match format {
        Format::Deb => debian::package(&contents, binary, release)?,
        Format::Rpm => red_hat::package(&contents, binary, release)?,
        Format::Tar => tarball::package(contents, binary, release)?,
    };
    let path = out.join(name);
    fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}
