//! `inkstone get`: read a key or a range.

use std::io;

use clap::ValueEnum;
use etcd_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd_api::etcdserverpb::{RangeRequest, RangeResponse};
use serde_json::{Value, json};

use crate::client::{
    Connection, ConnectionArguments, Form, KeyRange, KeyRangeArguments, OutputArguments, Printer,
    header_json, pair_json, without_empty,
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
    words: RangeWords,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Words that say what to read; a transaction has them, too.
#[derive(Debug, clap::Args)]
pub(crate) struct RangeWords {
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
    #[arg(long, help_heading = "Keys", conflicts_with = "order")]
    reverse: bool,
    /// Print in this order
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        value_name = "ORDER",
        help_heading = "Keys"
    )]
    order: Option<Order>,
    /// Sort by this; the key unless --order or --sort-by says otherwise
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        value_name = "FIELD",
        help_heading = "Keys"
    )]
    sort_by: Option<SortBy>,
    /// Print only pairs that were changed last at this revision or later; 0 for all
    #[arg(
        long,
        default_value_t = 0,
        hide_default_value = true,
        value_name = "REVISION",
        help_heading = "Keys"
    )]
    min_mod_rev: i64,
    /// Print only pairs that were changed last at this revision or before; 0 for all
    #[arg(
        long,
        default_value_t = 0,
        hide_default_value = true,
        value_name = "REVISION",
        help_heading = "Keys"
    )]
    max_mod_rev: i64,
    /// Print only pairs that were created at this revision or later; 0 for all
    #[arg(
        long,
        default_value_t = 0,
        hide_default_value = true,
        value_name = "REVISION",
        help_heading = "Keys"
    )]
    min_create_rev: i64,
    /// Print only pairs that were created at this revision or before; 0 for all
    #[arg(
        long,
        default_value_t = 0,
        hide_default_value = true,
        value_name = "REVISION",
        help_heading = "Keys"
    )]
    max_create_rev: i64,
    /// l reads the newest state (linearizable), s that of the member asked (serializable)
    #[arg(long, value_enum, default_value_t = Consistency::L, hide_default_value = true, value_name = "l|s", help_heading = "Keys")]
    consistency: Consistency,
    #[command(flatten)]
    shown: Shown,
}

/// Parts of the pairs that are printed.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Shown {
    /// Print keys without values
    #[arg(long, help_heading = "Output", conflicts_with = "count_only")]
    keys_only: bool,
    /// Print only the number of keys
    #[arg(long, help_heading = "Output")]
    count_only: bool,
    /// Print values without keys
    #[arg(long, help_heading = "Output", conflicts_with_all = ["count_only", "keys_only"])]
    print_value_only: bool,
}

// No doc comments on the values: clap would add them to the help of each verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    Ascend,
    Descend,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortBy {
    Create,
    Key,
    Modify,
    Value,
    Version,
}

/// Whether a read sees every write that was acknowledged before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Consistency {
    L,
    S,
}

impl RangeWords {
    /// The request that the words mean.
    pub(crate) fn request(self) -> Result<RangeRequest, Failure> {
        let KeyRange { key, range_end } = self.keys.range()?;
        let order = match self.order {
            Some(Order::Ascend) => SortOrder::Ascend,
            Some(Order::Descend) => SortOrder::Descend,
            None if self.reverse => SortOrder::Descend,
            None => SortOrder::None,
        };
        let target = match self.sort_by {
            Some(SortBy::Create) => SortTarget::Create,
            Some(SortBy::Modify) => SortTarget::Mod,
            Some(SortBy::Value) => SortTarget::Value,
            Some(SortBy::Version) => SortTarget::Version,
            Some(SortBy::Key) | None => SortTarget::Key,
        };
        Ok(RangeRequest {
            key,
            range_end,
            limit: self.limit,
            revision: self.rev,
            sort_order: order.into(),
            sort_target: target.into(),
            serializable: self.consistency == Consistency::S,
            keys_only: self.shown.keys_only,
            count_only: self.shown.count_only,
            min_mod_revision: self.min_mod_rev,
            max_mod_revision: self.max_mod_rev,
            min_create_revision: self.min_create_rev,
            max_create_revision: self.max_create_rev,
        })
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let shown = arguments.words.shown;
    let mut printer = Printer::new(arguments.output)?;
    let request = arguments.words.request()?;
    let connection = Connection::open(arguments.connection).await?;
    let response = connection
        .call(request, async |request| {
            connection.kv().range(request).await
        })
        .await?;
    print(&mut printer, &response, shown)?;
    Ok(printer.flush()?)
}

/// Prints the pairs that were found.
pub(crate) fn print(
    printer: &mut Printer,
    response: &RangeResponse,
    shown: Shown,
) -> io::Result<()> {
    match printer.form() {
        Form::Json => return printer.line(range_json(response)),
        Form::Fields => return print_fields(printer, response),
        Form::Simple | Form::Table if shown.count_only => return printer.line(response.count),
        Form::Simple | Form::Table => {}
    }
    for pair in &response.kvs {
        match shown {
            Shown {
                keys_only: true, ..
            } => printer.bytes(pair.key())?,
            Shown {
                print_value_only: true,
                ..
            } => printer.bytes(pair.value())?,
            _ => printer.pair(pair)?,
        }
    }
    Ok(())
}

fn print_fields(printer: &mut Printer, response: &RangeResponse) -> io::Result<()> {
    printer.header_fields(response.header.as_ref())?;
    for pair in &response.kvs {
        printer.pair_fields("", pair)?;
    }
    printer.field("More", response.more)?;
    printer.field("Count", response.count)
}

/// The pairs that were found, in etcd's JSON.
pub(crate) fn range_json(response: &RangeResponse) -> Value {
    let pairs: Vec<_> = response.kvs.iter().map(pair_json).collect();
    let mut object = json!({
        "header": header_json(response.header.as_ref()),
        "kvs": pairs,
        "more": response.more,
        "count": response.count,
    });
    without_empty(&mut object);
    object
}
