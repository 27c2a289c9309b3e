//! `inkstone move-leader`: hands the leadership to another member.

use etcd_api::etcdserverpb::{MoveLeaderRequest, StatusRequest};

use crate::client::{Connection, ConnectionArguments, Endpoints, OutputArguments, Printer};
use crate::failure::Failure;
use crate::member::member_id;

/// Hand the leadership to another member
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The leader itself must be asked: one of the endpoints has to be the leader's.

Examples:
  inkstone endpoint status --cluster -w table       shows the leader, and the ids
  inkstone move-leader 8e9e05c52164694d --endpoints 10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379")]
pub(crate) struct Arguments {
    /// The id of the member that is to lead, a hexadecimal number
    #[arg(value_name = "MEMBER", value_parser = member_id)]
    target: u64,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let endpoints = Endpoints::new(arguments.connection)?;
    let (connection, leader) = leader(&endpoints).await?;
    let target = arguments.target;
    let send = async |request| connection.maintenance().move_leader(request).await;
    let message = MoveLeaderRequest { target_id: target };
    let answer = connection.call(message, send).await?;
    let text = format_args!("Leadership transferred from {leader:x} to {target:x}");
    printer.change(answer.header.as_ref(), text)?;
    Ok(printer.flush()?)
}

/// A connection to the endpoint that leads, and the leader's id.
async fn leader(endpoints: &Endpoints) -> Result<(Connection, u64), Failure> {
    for endpoint in endpoints.iter() {
        let connection = endpoints.connect(endpoint).await?;
        let send = async |request| connection.maintenance().status(request).await;
        let status = connection.call(StatusRequest {}, send).await?;
        let member = status.header.map_or(0, |header| header.member_id);
        if member == status.leader {
            return Ok((connection, member));
        }
    }
    let names = endpoints.iter().map(|endpoint| endpoint.name.as_str());
    let names = names.collect::<Vec<_>>().join(" ");
    Err(Failure::failed(
        format_args!("no leader endpoint given at [{names}]"),
        "Name the leader's endpoint; `inkstone endpoint status --cluster -w table` shows it.",
    ))
}
