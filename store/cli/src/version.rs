//! `inkstone version`: versions of this program and of etcd's API.

use std::io::Write;

use crate::failure::Failure;

/// Print the versions of this program and of etcd's API
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  inkstone version      also `inkstone --version`, which has etcd's words")]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> Result<(), Failure> {
    let api = etcd_api::ETCD_VERSION;
    let api = api.rsplit_once('.').map_or(api, |(minor, _)| minor);
    let own = env!("CARGO_PKG_VERSION");
    let text = format!("inkstone version: {own}\nAPI version: {api}\n");
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
