//! `inkstone user`: users, their passwords and their roles.

use clap::Subcommand;
use etcd_api::authpb::UserAddOptions;
use etcd_api::etcdserverpb::{
    AuthRoleGetRequest, AuthUserAddRequest, AuthUserChangePasswordRequest, AuthUserDeleteRequest,
    AuthUserGetRequest, AuthUserGrantRoleRequest, AuthUserListRequest, AuthUserRevokeRoleRequest,
};
use serde_json::json;

use crate::client::{
    Connection, ConnectionArguments, Form, OutputArguments, Printer, Secret, ask_new, from_stdin,
    header_json,
};
use crate::failure::Failure;
use crate::role;

/// Add users, and say which roles they have
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Users count once `inkstone auth enable` has switched them on.

Examples:
  inkstone user add alice                           asks for the password twice
  inkstone user add alice --interactive=false < file    the password is the first line of stdin
  inkstone user add alice --no-password             is known by a client certificate only
  inkstone user grant-role alice reader
  inkstone user get alice --detail                  with the permissions of each role
  inkstone user passwd alice --user root            asks for that of root, then for the new one"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: UserAction,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum UserAction {
    /// Add a user; without a password it is asked for
    Add(Add),
    /// Delete a user
    Delete {
        /// The user
        #[arg(value_name = "USER")]
        name: String,
    },
    /// Print the roles of a user
    Get {
        /// The user
        #[arg(value_name = "USER")]
        name: String,
        /// Print the permissions of each role, too
        #[arg(long)]
        detail: bool,
    },
    /// Print the names of all users
    List,
    /// Change the password of a user; it is asked for
    Passwd {
        /// The user
        #[arg(value_name = "USER")]
        name: String,
        #[command(flatten)]
        asking: Asking,
    },
    /// Give a role to a user
    GrantRole {
        /// The user
        #[arg(value_name = "USER")]
        name: String,
        /// The role
        #[arg(value_name = "ROLE")]
        role: String,
    },
    /// Take a role from a user
    RevokeRole {
        /// The user
        #[arg(value_name = "USER")]
        name: String,
        /// The role
        #[arg(value_name = "ROLE")]
        role: String,
    },
}

#[derive(Debug, clap::Args)]
struct Add {
    /// The user's name, or its name and password
    #[arg(value_name = "NAME[:PASSWORD]")]
    name: Secret,
    /// The password; NAME may then have a colon
    #[arg(long, value_name = "PASSWORD", conflicts_with = "no_password")]
    new_user_password: Option<Secret>,
    /// Add a user without a password, which is known by its client certificate only
    #[arg(long)]
    no_password: bool,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, clap::Args)]
struct Asking {
    /// With =false, read the password from the first line of stdin, without a question
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "true",
        action = clap::ArgAction::Set,
        hide_default_value = true,
        hide_possible_values = true
    )]
    interactive: bool,
}

impl Asking {
    fn password(&self, name: &str) -> Result<Secret, Failure> {
        match self.interactive {
            true => ask_new(name),
            false => from_stdin(name),
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let connection = arguments.connection;
    match arguments.action {
        UserAction::Add(words) => add(words, connection, &mut printer).await?,
        UserAction::Delete { name } => delete(name, connection, &mut printer).await?,
        UserAction::Get { name, detail } => get(name, detail, connection, &mut printer).await?,
        UserAction::List => list(connection, &mut printer).await?,
        UserAction::Passwd { name, asking } => {
            passwd(name, &asking, connection, &mut printer).await?
        }
        UserAction::GrantRole { name, role } => grant(name, role, connection, &mut printer).await?,
        UserAction::RevokeRole { name, role } => {
            revoke(name, role, connection, &mut printer).await?
        }
    }
    Ok(printer.flush()?)
}

/// The user to add. Asks for the password if the words have none.
fn user_of(words: Add) -> Result<AuthUserAddRequest, Failure> {
    let whole = || words.name.text().to_owned();
    let (name, password) = match words.new_user_password.filter(|it| !it.is_empty()) {
        Some(password) => (whole(), Some(password)),
        None if words.no_password => (whole(), None),
        None => match words.name.split() {
            (name, _) if name.is_empty() => {
                return Err(Failure::wrong_use(
                    "empty user name is not allowed",
                    "Write a name, or NAME:PASSWORD.",
                ));
            }
            (name, Some(password)) => (name, Some(password)),
            (name, None) => {
                let password = words.asking.password(&name)?;
                (name, Some(password))
            }
        },
    };
    let options = UserAddOptions {
        no_password: words.no_password,
    };
    Ok(AuthUserAddRequest {
        name,
        password: password.map_or_else(String::new, |it| it.text().to_owned()),
        options: Some(options),
        ..AuthUserAddRequest::default()
    })
}

async fn add(
    words: Add,
    connection: ConnectionArguments,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let request = user_of(words)?;
    let text = format!("User {} created", request.name);
    let connection = Connection::open(connection).await?;
    let send = async |request| connection.auth().user_add(request).await;
    let answer = connection.call(request, send).await?;
    Ok(printer.change(answer.header.as_ref(), text)?)
}

async fn delete(
    name: String,
    connection: ConnectionArguments,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let text = format!("User {name} deleted");
    let connection = Connection::open(connection).await?;
    let send = async |request| connection.auth().user_delete(request).await;
    let answer = connection
        .call(AuthUserDeleteRequest { name }, send)
        .await?;
    Ok(printer.change(answer.header.as_ref(), text)?)
}

async fn get(
    name: String,
    detail: bool,
    connection: ConnectionArguments,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let connection = Connection::open(connection).await?;
    let send = async |request| connection.auth().user_get(request).await;
    let message = AuthUserGetRequest { name: name.clone() };
    let answer = connection.call(message, send).await?;
    if printer.json() {
        let mut object = json!({ "header": header_json(answer.header.as_ref()) });
        if !answer.roles.is_empty() {
            object["roles"] = answer.roles.clone().into();
        }
        printer.line(object)?;
    } else if printer.form() == Form::Fields {
        printer.names("roles", answer.header.as_ref(), &answer.roles)?;
    } else {
        printer.line(format_args!("User: {name}"))?;
    }
    if detail {
        for role in &answer.roles {
            role_of(&connection, role, printer).await?;
        }
    } else if printer.form() == Form::Simple {
        let roles = answer.roles.iter().map(|role| format!(" {role}"));
        printer.line(format_args!("Roles:{}", roles.collect::<String>()))?;
    }
    Ok(())
}

async fn role_of(
    connection: &Connection,
    role: &str,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let send = async |request| connection.auth().role_get(request).await;
    let message = AuthRoleGetRequest { role: role.into() };
    let answer = connection.call(message, send).await?;
    if printer.form() == Form::Simple {
        printer.line("")?;
    }
    Ok(role::print(printer, role, &answer)?)
}

async fn list(connection: ConnectionArguments, printer: &mut Printer) -> Result<(), Failure> {
    let connection = Connection::open(connection).await?;
    let send = async |request| connection.auth().user_list(request).await;
    let answer = connection.call(AuthUserListRequest {}, send).await?;
    Ok(printer.names("users", answer.header.as_ref(), &answer.users)?)
}

async fn passwd(
    name: String,
    asking: &Asking,
    connection: ConnectionArguments,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let connection = Connection::open(connection).await?;
    let request = AuthUserChangePasswordRequest {
        password: asking.password(&name)?.text().to_owned(),
        name,
        ..AuthUserChangePasswordRequest::default()
    };
    let send = async |request| connection.auth().user_change_password(request).await;
    let answer = connection.call(request, send).await?;
    Ok(printer.change(answer.header.as_ref(), "Password updated")?)
}

async fn grant(
    user: String,
    role: String,
    connection: ConnectionArguments,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let text = format!("Role {role} is granted to user {user}");
    let connection = Connection::open(connection).await?;
    let send = async |request| connection.auth().user_grant_role(request).await;
    let message = AuthUserGrantRoleRequest { user, role };
    let answer = connection.call(message, send).await?;
    Ok(printer.change(answer.header.as_ref(), text)?)
}

async fn revoke(
    name: String,
    role: String,
    connection: ConnectionArguments,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let text = format!("Role {role} is revoked from user {name}");
    let connection = Connection::open(connection).await?;
    let send = async |request| connection.auth().user_revoke_role(request).await;
    let message = AuthUserRevokeRoleRequest { name, role };
    let answer = connection.call(message, send).await?;
    Ok(printer.change(answer.header.as_ref(), text)?)
}
