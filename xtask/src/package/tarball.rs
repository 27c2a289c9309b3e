//! `.tar.gz`: everything below one folder, for other systems.
//!
//! `bin` has the binary, `lib/inkstone/bin` the names of etcd's programs, `share` pages and
//! completions, `deploy` the unit and the manifests.

use super::{archive, binary::Binary, contents::Contents, release::Release};
use crate::process::Outcome;

/// The name and the bytes of the package.
pub fn package(
    contents: Contents,
    binary: &Binary,
    release: &Release,
) -> Outcome<(String, Vec<u8>)> {
    let folder = format!("inkstone-{}-{}", release.full(), binary.machine.red_hat);
    let bytes = archive::tar_gz(&contents.without_usr(), &format!("{folder}/"), release.date)?;
    Ok((format!("{folder}.tar.gz"), bytes))
}
