//! `inkstone downgrade`: prepares a cluster for members of an earlier version.

use clap::Subcommand;
use etcd_api::etcdserverpb::DowngradeRequest;
use etcd_api::etcdserverpb::downgrade_request::DowngradeAction;
use serde_json::json;

use crate::client::{
    Connection, ConnectionArguments, Form, OutputArguments, Printer, header_json, without_empty,
};
use crate::failure::Failure;

/// Prepare the cluster for members of an earlier version of etcd
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  inkstone downgrade validate 3.6
  inkstone downgrade enable 3.6
  inkstone downgrade cancel"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: DowngradeVerb,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum DowngradeVerb {
    /// Print whether a downgrade to this version is possible
    Validate {
        /// The version, such as 3.6
        #[arg(value_name = "VERSION")]
        version: String,
    },
    /// Begin a downgrade to this version
    Enable {
        /// The version, such as 3.6
        #[arg(value_name = "VERSION")]
        version: String,
    },
    /// End a downgrade that was begun
    Cancel,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let (action, version, name) = match arguments.action {
        DowngradeVerb::Validate { version } => (DowngradeAction::Validate, version, "validate"),
        DowngradeVerb::Enable { version } => (DowngradeAction::Enable, version, "enable"),
        DowngradeVerb::Cancel => (DowngradeAction::Cancel, String::new(), "cancel"),
    };
    let connection = Connection::open(arguments.connection).await?;
    let send = async |request| connection.maintenance().downgrade(request).await;
    let action = action.into();
    let answer = connection
        .call(DowngradeRequest { action, version }, send)
        .await?;
    if printer.form() == Form::Json {
        let header = header_json(answer.header.as_ref());
        let mut object = json!({ "header": header, "version": answer.version });
        without_empty(&mut object);
        printer.line(object)?;
    } else {
        let version = answer.version;
        let text = format_args!("Downgrade {name} success, cluster version {version}");
        printer.change(answer.header.as_ref(), text)?;
    }
    Ok(printer.flush()?)
}
