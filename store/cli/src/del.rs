//! `inkstone del`: delete a key or a range.

use etcd_api::etcdserverpb::DeleteRangeRequest;
use serde_json::json;

use crate::client::{
    Connection, ConnectionArguments, KeyRange, KeyRangeArguments, OutputArguments, Printer,
    header_json, pair_json,
};
use crate::failure::Failure;

/// Delete a key, or a range of keys
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints the number of deleted keys; 0 is no error.

Examples:
  inkstone del greeting
  inkstone del session/ --prefix          every key that begins with session/
  inkstone del a c                        the keys from a up to c, without c
  inkstone del greeting --prev-kv         print the deleted pairs")]
pub(crate) struct Arguments {
    #[command(flatten)]
    keys: KeyRangeArguments,
    /// Print the pairs that were deleted
    #[arg(long, help_heading = "Output")]
    prev_kv: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output);
    let KeyRange { key, range_end } = arguments.keys.range()?;
    let request = DeleteRangeRequest {
        key,
        range_end,
        prev_kv: arguments.prev_kv,
    };
    let connection = Connection::open(arguments.connection).await?;
    let response = connection
        .call(request, async |request| {
            connection.kv().delete_range(request).await
        })
        .await?;
    if printer.json() {
        let pairs: Vec<_> = response.prev_kvs.iter().map(pair_json).collect();
        printer.line(json!({
            "header": header_json(response.header.as_ref()),
            "deleted": response.deleted,
            "prev_kvs": pairs,
        }))?;
    } else {
        printer.line(response.deleted)?;
        for pair in &response.prev_kvs {
            printer.pair(pair)?;
        }
    }
    Ok(printer.flush()?)
}
