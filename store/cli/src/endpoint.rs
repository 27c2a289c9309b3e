//! `inkstone endpoint`: health, status and hash of each endpoint.
//!
//! All endpoints are asked at the same time, and printed in the order of the flag: one that
//! does not answer holds none of the others up.

mod health;
mod status;

use std::io;

use clap::Subcommand;
use etcd_api::etcdserverpb::{HashKvRequest, HashKvResponse};
use futures_util::future::join_all;
use serde_json::{Value, json};

use self::status::EndpointStatus;
use crate::client::{
    Connection, ConnectionArguments, Endpoints, Form, OutputArguments, Printer, header_json,
    without_empty,
};
use crate::failure::{self, FAILED, Failure};
use crate::table::Table;

/// Print health, status or hash of each endpoint
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Exit code: 0 if every endpoint has answered and is healthy, else 1.

Examples:
  inkstone endpoint health --cluster
  inkstone endpoint status --cluster -w table
  inkstone endpoint status --endpoints 10.0.0.1:2379,10.0.0.2:2379 -w json
  inkstone endpoint hashkv --cluster --rev 1000      equal hashes mean equal keys and histories"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: EndpointAction,
    /// Ask all members of the cluster instead of the endpoints of --endpoint
    #[arg(long, global = true)]
    cluster: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum EndpointAction {
    /// Print whether each endpoint commits a read, and has no alarm
    Health,
    /// Print id, version, size, role and indices of each endpoint
    Status,
    /// Print the hash of each endpoint's keys and histories
    Hashkv {
        /// The revision to hash; 0 for the newest
        #[arg(
            long,
            value_name = "REVISION",
            default_value_t = 0,
            allow_negative_numbers = true,
            value_parser = clap::value_parser!(i64).range(0..)
        )]
        rev: i64,
    },
}

/// An answer of one kind from one endpoint.
trait Asked: Sized {
    /// The names of the columns of a table.
    const COLUMNS: &'static [&'static str];

    /// The row of a table.
    fn cells(&self) -> Vec<String>;

    fn json(&self) -> Value;

    fn print_fields(&self, printer: &mut Printer) -> io::Result<()>;
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::with_tables(arguments.output);
    let mut endpoints = Endpoints::new(arguments.connection)?;
    if arguments.cluster {
        endpoints = endpoints.of_cluster().await?;
    }
    let all_well = match arguments.action {
        EndpointAction::Health => health::run(&endpoints, &mut printer).await?,
        EndpointAction::Status => {
            let ask = async |name: &str, connection: &Connection| {
                EndpointStatus::of(name, connection).await
            };
            ask_each(&endpoints, &mut printer, ask).await?
        }
        EndpointAction::Hashkv { rev } => {
            let ask = async |name: &str, connection: &Connection| {
                EndpointHash::of(name, rev, connection).await
            };
            ask_each(&endpoints, &mut printer, ask).await?
        }
    };
    printer.flush()?;
    match all_well {
        true => Ok(()),
        false => Err(Failure::Reported { exit: FAILED }),
    }
}

/// Asks each endpoint, and prints the answers; false if one has failed.
async fn ask_each<A: Asked>(
    endpoints: &Endpoints,
    printer: &mut Printer,
    ask: impl AsyncFn(&str, &Connection) -> Result<A, Failure>,
) -> Result<bool, Failure> {
    let answers = endpoints.iter().map(async |endpoint| {
        let connection = endpoints.connect(endpoint).await?;
        ask(&endpoint.name, &connection).await
    });
    let (mut answered, mut failures) = (Vec::new(), Vec::new());
    for (endpoint, answer) in endpoints.iter().zip(join_all(answers).await) {
        match answer {
            Ok(answer) => answered.push(answer),
            Err(failure) => failures.push(failure.about(&endpoint.name)),
        }
    }
    print(printer, &answered)?;
    printer.flush()?;
    failures.iter().for_each(failure::report);
    Ok(failures.is_empty())
}

fn print<A: Asked>(printer: &mut Printer, answers: &[A]) -> io::Result<()> {
    match printer.form() {
        Form::Json => printer.line(answers.iter().map(A::json).collect::<Value>()),
        Form::Simple => {
            let mut rows = answers.iter().map(A::cells);
            rows.try_for_each(|row| printer.row(&row))
        }
        Form::Table => {
            let mut table = Table::new(A::COLUMNS);
            answers.iter().for_each(|answer| table.row(answer.cells()));
            printer.table(&table)
        }
        Form::Fields => answers.iter().try_for_each(|answer| {
            answer.print_fields(printer)?;
            printer.line("")
        }),
    }
}

/// The hash of an endpoint's keys and histories.
struct EndpointHash {
    endpoint: String,
    answer: HashKvResponse,
}

impl EndpointHash {
    async fn of(
        name: &str,
        revision: i64,
        connection: &Connection,
    ) -> Result<EndpointHash, Failure> {
        let send = async |request| connection.maintenance().hash_kv(request).await;
        let answer = connection.call(HashKvRequest { revision }, send).await?;
        let endpoint = name.to_owned();
        Ok(EndpointHash { endpoint, answer })
    }
}

impl Asked for EndpointHash {
    const COLUMNS: &'static [&'static str] = &["<ENDPOINT", "HASH", "HASH REVISION"];

    fn cells(&self) -> Vec<String> {
        let HashKvResponse {
            hash,
            hash_revision,
            ..
        } = &self.answer;
        vec![
            self.endpoint.clone(),
            hash.to_string(),
            hash_revision.to_string(),
        ]
    }

    fn json(&self) -> Value {
        let mut hash = json!({
            "header": header_json(self.answer.header.as_ref()),
            "hash": self.answer.hash,
            "compact_revision": self.answer.compact_revision,
            "hash_revision": self.answer.hash_revision,
        });
        without_empty(&mut hash);
        json!({ "Endpoint": self.endpoint, "HashKV": hash })
    }

    fn print_fields(&self, printer: &mut Printer) -> io::Result<()> {
        printer.header_fields(self.answer.header.as_ref())?;
        printer.text_field("Endpoint", &self.endpoint)?;
        printer.field("Hash", self.answer.hash)?;
        printer.field("HashRevision", self.answer.hash_revision)
    }
}
