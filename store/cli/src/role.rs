//! `inkstone role`: roles and their permissions on keys.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use etcd_api::authpb::Permission;
use etcd_api::authpb::permission::Type;
use etcd_api::etcdserverpb::{
    AuthRoleAddRequest, AuthRoleDeleteRequest, AuthRoleGetRequest, AuthRoleGetResponse,
    AuthRoleGrantPermissionRequest, AuthRoleListRequest, AuthRoleRevokePermissionRequest,
};
use serde_json::{Map, Value, json};

use crate::client::{
    Connection, ConnectionArguments, Form, KeyRange, KeyRangeArguments, NO_END, OutputArguments,
    Printer, header_json, prefix_end,
};
use crate::failure::Failure;

/// Add roles, and say on which keys they have permissions
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  inkstone role add reader
  inkstone role grant-permission reader read greeting
  inkstone role grant-permission reader readwrite user/ --prefix
  inkstone role grant-permission reader write a c     the keys from a up to c, without c
  inkstone role revoke-permission reader user/ --prefix
  inkstone role get reader
  inkstone user grant-role alice reader"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: RoleAction,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum RoleAction {
    /// Add a role
    Add {
        /// The role
        #[arg(value_name = "ROLE")]
        name: String,
    },
    /// Delete a role, and take it from all its users
    Delete {
        /// The role
        #[arg(value_name = "ROLE")]
        name: String,
    },
    /// Print the permissions of a role
    Get {
        /// The role
        #[arg(value_name = "ROLE")]
        name: String,
    },
    /// Print the names of all roles
    List,
    /// Permit the users of a role to read or write a key, or a range of keys
    GrantPermission {
        /// The role
        #[arg(value_name = "ROLE")]
        name: String,
        /// read, write or readwrite
        #[arg(value_name = "PERMISSION", value_parser = permission)]
        permission: Type,
        #[command(flatten)]
        keys: KeyRangeArguments,
    },
    /// Take back a permission that was granted on just this key, or this range of keys
    RevokePermission {
        /// The role
        #[arg(value_name = "ROLE")]
        name: String,
        #[command(flatten)]
        keys: KeyRangeArguments,
    },
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let connection = arguments.connection;
    match arguments.action {
        RoleAction::Add { name } => add(name, connection, &mut printer).await?,
        RoleAction::Delete { name } => delete(name, connection, &mut printer).await?,
        RoleAction::Get { name } => get(&name, connection, &mut printer).await?,
        RoleAction::List => list(connection, &mut printer).await?,
        RoleAction::GrantPermission {
            name,
            permission,
            keys,
        } => grant(name, permission, keys, connection, &mut printer).await?,
        RoleAction::RevokePermission { name, keys } => {
            revoke(name, keys, connection, &mut printer).await?;
        }
    }
    Ok(printer.flush()?)
}

/// Reads a kind of permission, in small or large letters as etcdctl does.
fn permission(word: &str) -> Result<Type, String> {
    let known = Type::from_str_name(&word.to_ascii_uppercase());
    known.ok_or_else(|| format!("invalid permission type: {word}; write read, write or readwrite"))
}

async fn add(
    name: String,
    connection: ConnectionArguments,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let text = format!("Role {name} created");
    let connection = Connection::open(connection).await?;
    let send = async |request| connection.auth().role_add(request).await;
    let answer = connection.call(AuthRoleAddRequest { name }, send).await?;
    Ok(printer.change(answer.header.as_ref(), text)?)
}

async fn delete(
    role: String,
    connection: ConnectionArguments,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let text = format!("Role {role} deleted");
    let connection = Connection::open(connection).await?;
    let send = async |request| connection.auth().role_delete(request).await;
    let answer = connection
        .call(AuthRoleDeleteRequest { role }, send)
        .await?;
    Ok(printer.change(answer.header.as_ref(), text)?)
}

async fn get(
    role: &str,
    connection: ConnectionArguments,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let connection = Connection::open(connection).await?;
    let send = async |request| connection.auth().role_get(request).await;
    let message = AuthRoleGetRequest { role: role.into() };
    let answer = connection.call(message, send).await?;
    Ok(print(printer, role, &answer)?)
}

async fn list(connection: ConnectionArguments, printer: &mut Printer) -> Result<(), Failure> {
    let connection = Connection::open(connection).await?;
    let send = async |request| connection.auth().role_list(request).await;
    let answer = connection.call(AuthRoleListRequest {}, send).await?;
    Ok(printer.names("roles", answer.header.as_ref(), &answer.roles)?)
}

async fn grant(
    name: String,
    permission: Type,
    keys: KeyRangeArguments,
    connection: ConnectionArguments,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let text = format!("Role {name} updated");
    let KeyRange { key, range_end } = keys.range()?;
    let permission = Permission {
        perm_type: permission.into(),
        key,
        range_end,
    };
    let message = AuthRoleGrantPermissionRequest {
        name,
        perm: Some(permission),
    };
    let connection = Connection::open(connection).await?;
    let send = async |request| connection.auth().role_grant_permission(request).await;
    let answer = connection.call(message, send).await?;
    Ok(printer.change(answer.header.as_ref(), text)?)
}

async fn revoke(
    role: String,
    keys: KeyRangeArguments,
    connection: ConnectionArguments,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let written = keys.key();
    let KeyRange { key, range_end } = keys.range()?;
    let message = AuthRoleRevokePermissionRequest {
        role: role.clone(),
        key,
        range_end: range_end.clone(),
    };
    let connection = Connection::open(connection).await?;
    let send = async |request| connection.auth().role_revoke_permission(request).await;
    let answer = connection.call(message, send).await?;
    if printer.form() != Form::Simple {
        return Ok(printer.change(answer.header.as_ref(), "")?);
    }
    if range_end.is_empty() {
        printer.raw(b"Permission of key ")?;
        printer.key(&written)?;
    } else {
        printer.raw(b"Permission of range ")?;
        range(printer, &written, &range_end)?;
    }
    Ok(printer.line(format_args!(" is revoked from role {role}"))?)
}

/// Prints a role with its permissions.
pub(crate) fn print(
    printer: &mut Printer,
    role: &str,
    answer: &AuthRoleGetResponse,
) -> io::Result<()> {
    if printer.json() {
        let permissions: Vec<Value> = answer.perm.iter().map(permission_json).collect();
        let mut object = json!({ "header": header_json(answer.header.as_ref()) });
        if !permissions.is_empty() {
            object["perm"] = permissions.into();
        }
        return printer.line(object);
    }
    if printer.form() == Form::Fields {
        return print_fields(printer, answer);
    }
    printer.line(format_args!("Role {role}"))?;
    for (title, kind) in [("KV Read:", Type::Read), ("KV Write:", Type::Write)] {
        printer.line(title)?;
        let permits = |it: &&Permission| [kind, Type::Readwrite].contains(&it.perm_type());
        for permission in answer.perm.iter().filter(permits) {
            print_keys(printer, permission)?;
        }
    }
    Ok(())
}

fn print_fields(printer: &mut Printer, answer: &AuthRoleGetResponse) -> io::Result<()> {
    printer.header_fields(answer.header.as_ref())?;
    for permission in &answer.perm {
        printer.field("PermType", permission.perm_type().as_str_name())?;
        printer.text_field("Key", &permission.key)?;
        printer.text_field("RangeEnd", &permission.range_end)?;
    }
    Ok(())
}

fn print_keys(printer: &mut Printer, permission: &Permission) -> io::Result<()> {
    let (key, end) = (&permission.key[..], &permission.range_end[..]);
    printer.raw(b"\t")?;
    if end.is_empty() {
        return printer.bytes(key);
    }
    range(printer, key, end)?;
    if !key.is_empty() && prefix_end(key) == end {
        printer.raw(b" (prefix ")?;
        printer.key(key)?;
        printer.raw(b")")?;
    }
    printer.raw(b"\n")
}

/// Prints a range as etcdctl writes it.
fn range(printer: &mut Printer, key: &[u8], end: &[u8]) -> io::Result<()> {
    printer.raw(b"[")?;
    printer.key(key)?;
    printer.raw(b", ")?;
    match end == NO_END {
        true => printer.raw(b"<open ended>"),
        false => {
            printer.key(end)?;
            printer.raw(b")")
        }
    }
}

/// A permission; fields without a value are left out as etcd does, and READ is one.
fn permission_json(permission: &Permission) -> Value {
    let mut map = Map::new();
    if permission.perm_type != 0 {
        map.insert("permType".into(), permission.perm_type.into());
    }
    for (name, bytes) in [
        ("key", &permission.key),
        ("range_end", &permission.range_end),
    ] {
        if !bytes.is_empty() {
            map.insert(name.into(), STANDARD.encode(bytes).into());
        }
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_is_written_in_small_or_large_letters() {
        assert_eq!(permission("readwrite"), Ok(Type::Readwrite));
        assert_eq!(permission("Read"), Ok(Type::Read));
        let refused = permission("rw").unwrap_err();
        assert!(refused.starts_with("invalid permission type: rw"));
    }

    #[test]
    fn a_permission_in_json_has_no_empty_fields() {
        let one = Permission {
            perm_type: Type::Read.into(),
            key: "ink".into(),
            range_end: "".into(),
        };
        assert_eq!(permission_json(&one), json!({ "key": "aW5r" }));
        let range = Permission {
            perm_type: Type::Readwrite.into(),
            range_end: "inl".into(),
            ..one
        };
        let expected = json!({ "permType": 2, "key": "aW5r", "range_end": "aW5s" });
        assert_eq!(permission_json(&range), expected);
    }
}
