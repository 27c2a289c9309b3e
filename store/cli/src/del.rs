//! `inkstone del`: delete a key or a range.

use std::io;

use etcd_api::etcdserverpb::{DeleteRangeRequest, DeleteRangeResponse};
use serde_json::{Value, json};

use crate::client::{
    Connection, ConnectionArguments, Form, KeyRange, KeyRangeArguments, OutputArguments, Printer,
    header_json, pair_json, without_empty,
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
    words: DeleteWords,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Words that say what to delete; a transaction has them, too.
#[derive(Debug, clap::Args)]
pub(crate) struct DeleteWords {
    #[command(flatten)]
    keys: KeyRangeArguments,
    /// Print the pairs that were deleted
    #[arg(long, help_heading = "Output")]
    prev_kv: bool,
}

impl DeleteWords {
    /// The request that the words mean.
    pub(crate) fn request(self) -> Result<DeleteRangeRequest, Failure> {
        let KeyRange { key, range_end } = self.keys.range()?;
        Ok(DeleteRangeRequest {
            key,
            range_end,
            prev_kv: self.prev_kv,
        })
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let request = arguments.words.request()?;
    let connection = Connection::open(arguments.connection).await?;
    let response = connection
        .call(request, async |request| {
            connection.kv().delete_range(request).await
        })
        .await?;
    print(&mut printer, &response)?;
    Ok(printer.flush()?)
}

/// Prints the number of deleted keys.
pub(crate) fn print(printer: &mut Printer, response: &DeleteRangeResponse) -> io::Result<()> {
    match printer.form() {
        Form::Json => printer.line(delete_json(response)),
        Form::Fields => {
            printer.header_fields(response.header.as_ref())?;
            printer.field("Deleted", response.deleted)?;
            let mut pairs = response.prev_kvs.iter();
            pairs.try_for_each(|pair| printer.pair_fields("Prev", pair))
        }
        Form::Simple | Form::Table => {
            printer.line(response.deleted)?;
            response
                .prev_kvs
                .iter()
                .try_for_each(|pair| printer.pair(pair))
        }
    }
}

/// The answer to a deletion in etcd's JSON.
pub(crate) fn delete_json(response: &DeleteRangeResponse) -> Value {
    let pairs: Vec<_> = response.prev_kvs.iter().map(pair_json).collect();
    let mut object = json!({
        "header": header_json(response.header.as_ref()),
        "deleted": response.deleted,
        "prev_kvs": pairs,
    });
    without_empty(&mut object);
    object
}
