//! `inkstone auth`: whether the server checks users.

use clap::Subcommand;
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{
    AuthDisableRequest, AuthEnableRequest, AuthRoleAddRequest, AuthStatusRequest,
    AuthUserGrantRoleRequest,
};
use serde_json::{Value, json};

use crate::client::{Connection, ConnectionArguments, Form, OutputArguments, Printer, header_json};
use crate::failure::Failure;

/// The user and the role that may do everything.
const ROOT: &str = "root";

/// Switch the checking of users on or off
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Once it is on, each call needs a user, and the user needs roles with permissions on the keys.
The user root may do everything.

Examples:
  inkstone user add root                  asks for the password
  inkstone auth enable                    root gets the role root, if it lacks it
  inkstone auth status
  inkstone auth disable --user root       asks for the password of root"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: AuthAction,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum AuthAction {
    /// Check users from now on; the user root must exist
    Enable,
    /// Check no users any more
    Disable,
    /// Print whether users are checked, and the revision of users and roles
    Status,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let connection = Connection::open(arguments.connection).await?;
    match arguments.action {
        AuthAction::Enable => enable(&connection, &mut printer).await?,
        AuthAction::Disable => disable(&connection, &mut printer).await?,
        AuthAction::Status => status(&connection, &mut printer).await?,
    }
    Ok(printer.flush()?)
}

/// Switches users on. If `root` lacks its role, it gets it first, as etcdctl does.
async fn enable(connection: &Connection, printer: &mut Printer) -> Result<(), Failure> {
    let enable = async || {
        let message = AuthEnableRequest {};
        let send = async |request| connection.auth().auth_enable(request).await;
        connection.attempt(message, send).await
    };
    let mut answer = enable().await?;
    let lacks_role =
        |status: &tonic::Status| status.message() == Refusal::RootRoleNotExist.message();
    if answer.as_ref().is_err_and(lacks_role) {
        make_root_an_administrator(connection).await?;
        answer = enable().await?;
    }
    let answer = answer.map_err(|status| connection.refused(&status))?;
    Ok(printer.change(answer.header.as_ref(), "Authentication Enabled")?)
}

async fn make_root_an_administrator(connection: &Connection) -> Result<(), Failure> {
    let role = AuthRoleAddRequest { name: ROOT.into() };
    let add = async |request| connection.auth().role_add(request).await;
    match connection.attempt(role, add).await? {
        // etcdctl fails here if the role exists and only the grant is missing.
        Err(status) if status.message() != Refusal::RoleAlreadyExist.message() => {
            return Err(connection.refused(&status));
        }
        _ => {}
    }
    let message = AuthUserGrantRoleRequest {
        user: ROOT.into(),
        role: ROOT.into(),
    };
    let grant = async |request| connection.auth().user_grant_role(request).await;
    connection.call(message, grant).await.map(drop)
}

async fn disable(connection: &Connection, printer: &mut Printer) -> Result<(), Failure> {
    let send = async |request| connection.auth().auth_disable(request).await;
    let answer = connection.call(AuthDisableRequest {}, send).await?;
    Ok(printer.change(answer.header.as_ref(), "Authentication Disabled")?)
}

async fn status(connection: &Connection, printer: &mut Printer) -> Result<(), Failure> {
    let send = async |request| connection.auth().auth_status(request).await;
    let answer = connection.call(AuthStatusRequest {}, send).await?;
    if printer.json() {
        let mut object = json!({ "header": header_json(answer.header.as_ref()) });
        if answer.enabled {
            object["enabled"] = Value::Bool(true);
        }
        object["authRevision"] = answer.auth_revision.into();
        printer.line(object)?;
    } else if printer.form() == Form::Fields {
        printer.header_fields(answer.header.as_ref())?;
        printer.field("Enabled", answer.enabled)?;
        printer.field("AuthRevision", answer.auth_revision)?;
    } else {
        printer.line(format_args!("Authentication Status: {}", answer.enabled))?;
        printer.line(format_args!("AuthRevision: {}", answer.auth_revision))?;
    }
    Ok(())
}
