//! `inkstone compaction`: forgets the history before a revision.

use etcd_api::etcdserverpb::CompactionRequest;

use crate::client::{Connection, ConnectionArguments, OutputArguments, Printer};
use crate::failure::Failure;

/// Forget the history before a revision
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Afterwards nothing can be read at an earlier revision, and no watch can begin there.

Examples:
  inkstone compaction 1000
  inkstone compaction 1000 --physical      waits until the space is released")]
pub(crate) struct Arguments {
    /// The first revision that is kept
    #[arg(value_name = "REVISION", allow_negative_numbers = true)]
    revision: i64,
    /// Wait until the old revisions are removed from the disk
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "false",
        action = clap::ArgAction::Set,
        hide_default_value = true,
        hide_possible_values = true
    )]
    physical: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments {
        revision, physical, ..
    } = arguments;
    let mut printer = Printer::new(arguments.output)?;
    let connection = Connection::open(arguments.connection).await?;
    let send = async |request| connection.kv().compact(request).await;
    let message = CompactionRequest { revision, physical };
    let answer = connection.call(message, send).await?;
    let text = format_args!("compacted revision {revision}");
    printer.change(answer.header.as_ref(), text)?;
    Ok(printer.flush()?)
}
