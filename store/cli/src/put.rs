//! `inkstone put`: write a key.

use std::ffi::OsString;
use std::io::{self, Read};

use bytes::Bytes;
use etcd_api::etcdserverpb::{PutRequest, PutResponse};
use serde_json::{Value, json};

use crate::client::{
    Connection, ConnectionArguments, Form, OutputArguments, Printer, bytes_of, header_json,
    pair_json,
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
    #[command(flatten)]
    words: PutWords,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Words that say what to write; a transaction has them, too.
#[derive(Debug, clap::Args)]
pub(crate) struct PutWords {
    /// The key
    #[arg(value_name = "KEY")]
    key: OsString,
    /// The value; read from stdin when absent or '-'
    #[arg(value_name = "VALUE", conflicts_with = "ignore_value")]
    value: Option<OsString>,
    /// Attach the key to this lease, a hexadecimal number: the key is deleted when the lease
    /// ends
    #[arg(long, value_name = "LEASE", value_parser = lease_id, conflicts_with = "ignore_lease")]
    lease: Option<i64>,
    /// Keep the key's value as it is
    #[arg(long)]
    ignore_value: bool,
    /// Keep the key's lease as it is
    #[arg(long)]
    ignore_lease: bool,
    /// Print the pair that was replaced
    #[arg(long, help_heading = "Output")]
    prev_kv: bool,
}

impl PutWords {
    /// Whether the value is to be read from stdin.
    pub(crate) fn lacks_value(&self) -> bool {
        let given = self.value.as_ref().is_some_and(|value| value != "-");
        !given && !self.ignore_value
    }

    /// The request that the words mean.
    pub(crate) fn request(self) -> Result<PutRequest, Failure> {
        let key = bytes_of(self.key);
        if key.is_empty() {
            return Err(Failure::wrong_use(
                "the key is empty",
                "A key has at least one byte.",
            ));
        }
        let value = match self.ignore_value {
            true => Bytes::new(),
            false => value_of(self.value)?,
        };
        Ok(PutRequest {
            key,
            value,
            lease: self.lease.unwrap_or_default(),
            prev_kv: self.prev_kv,
            ignore_value: self.ignore_value,
            ignore_lease: self.ignore_lease,
        })
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let request = arguments.words.request()?;
    let connection = Connection::open(arguments.connection).await?;
    let response = connection
        .call(request, async |request| connection.kv().put(request).await)
        .await?;
    print(&mut printer, &response)?;
    Ok(printer.flush()?)
}

/// Prints that a key was written.
pub(crate) fn print(printer: &mut Printer, response: &PutResponse) -> io::Result<()> {
    let previous = response.prev_kv.as_ref();
    match printer.form() {
        Form::Json => printer.line(put_json(response)),
        Form::Fields => {
            printer.header_fields(response.header.as_ref())?;
            previous.map_or(Ok(()), |pair| printer.pair_fields("Prev", pair))
        }
        Form::Simple | Form::Table => {
            printer.line("OK")?;
            previous.map_or(Ok(()), |pair| printer.pair(pair))
        }
    }
}

/// The answer to a put in etcd's JSON.
pub(crate) fn put_json(response: &PutResponse) -> Value {
    let mut object = json!({ "header": header_json(response.header.as_ref()) });
    if let Some(pair) = &response.prev_kv {
        object["prev_kv"] = pair_json(pair);
    }
    object
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

/// Reads the id of a lease.
pub(crate) fn lease_id(word: &str) -> Result<i64, String> {
    i64::from_str_radix(word, 16)
        .map_err(|_| "a lease is a hexadecimal number such as 694d8f3c1b2a4e05".to_owned())
}
