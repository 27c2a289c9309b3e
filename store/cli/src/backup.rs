//! `inkstone backup`: continuous backups of a running cluster, and restores of any revision of them.

mod bases;
mod cloud;
mod destination;
mod follow;
mod history;
mod leases;
mod list;
mod moments;
mod polls;
mod queue;
mod restore;
mod run;
mod said;
mod tail;
mod verify;

use clap::Subcommand;

use crate::client::run_to_end;
use crate::failure::Failure;

/// Back a running cluster up continuously, and restore any revision of it
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
`run` follows a cluster of Inkstone or etcd and stores every change within a second, in a folder
or in S3, Google Cloud Storage or Azure. `restore` makes a file of any revision, which
`inkstone snapshot restore` and `etcdutl snapshot restore` turn into a data directory.

Examples:
  inkstone backup run --to /backups                    until Ctrl-C
  inkstone backup run --to s3://bucket/etcd --keep 30d --endpoint https://10.0.0.1:2379
  inkstone backup list --from /backups                 what can be restored
  inkstone backup verify --from /backups               reads and checks every object
  inkstone backup restore store.db --from /backups     the newest revision
  inkstone backup restore store.db --from /backups --at-revision 1000
  inkstone backup restore store.db --from /backups --at 2026-11-27T05:30:00Z
  inkstone snapshot restore store.db --data-dir restored.inkstone"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Follow a cluster and store its changes, until Ctrl-C
    Run(Box<run::Arguments>),
    /// Show what a place has: clusters, histories, revisions that can be restored, gaps
    List(list::Arguments),
    /// Read every object, and restore the newest revision into a temporary file
    Verify(verify::Arguments),
    /// Make an etcd database file of a revision
    Restore(restore::Arguments),
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Run(run) => run_to_end(run::run(*run)),
        Action::List(list) => run_to_end(list::run(list)),
        Action::Verify(verify) => run_to_end(verify::run(verify)),
        Action::Restore(restore) => run_to_end(restore::run(restore)),
    }
}
