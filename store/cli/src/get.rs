//! `inkstone get`: read a key or a range.

use etcd_api::etcdserverpb::RangeRequest;
use etcd_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use serde_json::json;

use crate::client::{
    Connection, ConnectionArguments, KeyRange, KeyRangeArguments, OutputArguments, Printer,
    header_json, pair_json,
};
use crate::failure::Failure;

/// Read a key, or a range of keys
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints a line with the key and a line with the value for each pair found. If there is
no pair it prints nothing, and that is no error.

Examples:
  inkstone get greeting                       one key
  inkstone get user/ --prefix --keys-only     every key that begins with user/
  inkstone get a c                            the keys from a up to c, without c
  inkstone get \"\" --prefix --count-only       the number of keys
  inkstone get log/ --prefix --reverse --limit 1    the last one
  inkstone get greeting --rev 42              its value at revision 42
  inkstone get greeting -w json               with revisions, version and lease")]
pub(crate) struct Arguments {
    #[command(flatten)]
    keys: KeyRangeArguments,
    /// Print at most this many pairs; 0 for all
    #[arg(long, default_value_t = 0, hide_default_value = true, allow_negative_numbers = true, value_name = "N", help_heading = "Keys",
        value_parser = clap::value_parser!(i64).range(0..))]
    limit: i64,
    /// Read the state at this revision; 0 for the newest
    #[arg(long, default_value_t = 0, hide_default_value = true, allow_negative_numbers = true, value_name = "REVISION", help_heading = "Keys",
        value_parser = clap::value_parser!(i64).range(0..))]
    rev: i64,
    /// Print from the last key to the first
    #[arg(long, help_heading = "Keys")]
    reverse: bool,
    /// Print keys without values
    #[arg(long, help_heading = "Output", conflicts_with = "count_only")]
    keys_only: bool,
    /// Print only the number of keys
    #[arg(long, help_heading = "Output")]
    count_only: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let (keys_only, count_only) = (arguments.keys_only, arguments.count_only);
    let mut printer = Printer::new(arguments.output);
    let KeyRange { key, range_end } = arguments.keys.range()?;
    let order = if arguments.reverse {
        SortOrder::Descend
    } else {
        SortOrder::None
    };
    let request = RangeRequest {
        key,
        range_end,
        limit: arguments.limit,
        revision: arguments.rev,
        sort_order: order.into(),
        sort_target: SortTarget::Key.into(),
        keys_only,
        count_only,
        ..RangeRequest::default()
    };
    let connection = Connection::open(arguments.connection).await?;
    let response = connection
        .call(request, async |request| {
            connection.kv().range(request).await
        })
        .await?;
    if printer.json() {
        let pairs: Vec<_> = response.kvs.iter().map(pair_json).collect();
        printer.line(json!({
            "header": header_json(response.header.as_ref()),
            "kvs": pairs,
            "more": response.more,
            "count": response.count,
        }))?;
    } else if count_only {
        printer.line(response.count)?;
    } else {
        for pair in &response.kvs {
            match keys_only {
                true => printer.bytes(pair.key())?,
                false => printer.pair(pair)?,
            }
        }
    }
    Ok(printer.flush()?)
}
