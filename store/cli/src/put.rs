//! `inkstone put`: write a key.

use std::ffi::OsString;
use std::io::Read;

use bytes::Bytes;
use etcd_api::etcdserverpb::PutRequest;
use serde_json::json;

use crate::client::{
    Connection, ConnectionArguments, OutputArguments, Printer, bytes_of, header_json, pair_json,
};
use crate::failure::Failure;

/// Write a key
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints OK when the server has acknowledged the write: by default once it is on stable
storage, in a cluster on that of a majority of the members.

Examples:
  inkstone put greeting hello
  inkstone put config < config.toml       the value is all bytes of stdin
  inkstone put greeting hi --prev-kv      print the previous pair as well
  inkstone put -- -5 -x                   a key and a value that begin with a dash")]
pub(crate) struct Arguments {
    /// The key
    #[arg(value_name = "KEY")]
    key: OsString,
    /// The value; read from stdin when absent or '-'
    #[arg(value_name = "VALUE")]
    value: Option<OsString>,
    /// Attach the key to this lease, a hexadecimal number: the key is deleted when the lease
    /// ends
    #[arg(long, value_name = "LEASE", value_parser = lease_id)]
    lease: Option<i64>,
    /// Print the pair that was replaced
    #[arg(long, help_heading = "Output")]
    prev_kv: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let key = bytes_of(arguments.key);
    if key.is_empty() {
        return Err(Failure::wrong_use(
            "the key is empty",
            "A key has at least one byte.",
        ));
    }
    let request = PutRequest {
        key,
        value: value_of(arguments.value)?,
        lease: arguments.lease.unwrap_or_default(),
        prev_kv: arguments.prev_kv,
        ..PutRequest::default()
    };
    let mut printer = Printer::new(arguments.output);
    let connection = Connection::open(arguments.connection).await?;
    let response = connection
        .call(request, async |request| connection.kv().put(request).await)
        .await?;
    let previous = response.prev_kv.as_ref();
    if printer.json() {
        let mut answer = json!({ "header": header_json(response.header.as_ref()) });
        if let Some(pair) = previous {
            answer["prev_kv"] = pair_json(pair);
        }
        printer.line(answer)?;
    } else {
        printer.line("OK")?;
        previous.map_or(Ok(()), |pair| printer.pair(pair))?;
    }
    Ok(printer.flush()?)
}

fn value_of(word: Option<OsString>) -> Result<Bytes, Failure> {
    match word {
        Some(word) if word != "-" => Ok(bytes_of(word)),
        _ => {
            let mut value = Vec::new();
            std::io::stdin().read_to_end(&mut value).map_err(|error| {
                Failure::failed(
                    format_args!("cannot read the value from stdin: {error}"),
                    "",
                )
            })?;
            Ok(value.into())
        }
    }
}

fn lease_id(word: &str) -> Result<i64, String> {
    i64::from_str_radix(word, 16)
        .map_err(|_| "a lease is a hexadecimal number such as 694d8f3c1b2a4e05".to_owned())
}
