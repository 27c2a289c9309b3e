//! `inkstone defrag`: releases space of each endpoint that is no longer in use.

use environment::Clock;
use environment::real::RealClock;
use etcd_api::etcdserverpb::DefragmentRequest;

use crate::client::{
    Connection, ConnectionArguments, Endpoints, NamedEndpoint, OutputArguments, Printer, duration,
};
use crate::failure::{self, FAILED, Failure};

/// Release the space of each endpoint that is no longer in use
#[derive(Debug, clap::Args)]
#[command(after_help = "\
One endpoint after the other, so that never more than one is busy with it.

Examples:
  inkstone defrag --cluster
  inkstone defrag --endpoints 10.0.0.1:2379 --command-timeout 1m")]
pub(crate) struct Arguments {
    /// Ask all members of the cluster instead of the endpoints of --endpoint
    #[arg(long)]
    cluster: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let mut endpoints = Endpoints::new(arguments.connection)?;
    if arguments.cluster {
        endpoints = endpoints.of_cluster().await?;
    }
    let mut all_well = true;
    for endpoint in endpoints.iter() {
        if let Err(failure) = defragment(&endpoints, endpoint, &mut printer).await {
            all_well = false;
            failure::report(&failure.about(&endpoint.name));
        }
    }
    match all_well {
        true => Ok(()),
        false => Err(Failure::Reported { exit: FAILED }),
    }
}

async fn defragment(
    endpoints: &Endpoints,
    endpoint: &NamedEndpoint,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let connection = endpoints.connect(endpoint).await?;
    let begun = RealClock.now();
    let header = ask(&connection).await?;
    let took = duration::shown(RealClock.now().saturating_since(begun));
    let name = &endpoint.name;
    let text = format_args!("Finished defragmenting etcd member[{name}]. took {took}");
    printer.change(header.as_ref(), text)?;
    Ok(printer.flush()?)
}

/// Asks a member to release space.
pub(crate) async fn ask(
    connection: &Connection,
) -> Result<Option<etcd_api::etcdserverpb::ResponseHeader>, Failure> {
    let send = async |request| connection.maintenance().defragment(request).await;
    let answer = connection.call(DefragmentRequest {}, send).await?;
    Ok(answer.header)
}
