//! `inkstone lease`: leases, which delete their keys when they end.

use std::io;

use clap::Subcommand;
use etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveResponse, LeaseLeasesRequest, LeaseRevokeRequest,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use serde_json::{Value, json};

use crate::client::signals::EndSignals;
use crate::client::{
    Connection, ConnectionArguments, Endpoints, Form, KeepAlive, OutputArguments, Printer, base64,
    header_json,
};
use crate::failure::Failure;
use crate::put::lease_id;

/// Grant, list, renew and revoke leases
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A lease ends when it is not renewed in time, or is revoked; its keys are deleted with it.

Examples:
  inkstone lease grant 60                           prints the id of a lease of 60 seconds
  inkstone put session/7 up --lease 694d8f3c1b2a4e05
  inkstone lease timetolive 694d8f3c1b2a4e05 --keys
  inkstone lease keep-alive 694d8f3c1b2a4e05        renews it until Ctrl-C
  inkstone lease keep-alive --once 694d8f3c1b2a4e05
  inkstone lease revoke 694d8f3c1b2a4e05"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: LeaseAction,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum LeaseAction {
    /// Grant a lease, and print its id
    Grant {
        /// Seconds that the lease lasts if it is not renewed; the server may extend a short time
        #[arg(value_name = "TTL", allow_negative_numbers = true)]
        ttl: i64,
    },
    /// End a lease now, and delete its keys
    Revoke {
        /// The lease, a hexadecimal number
        #[arg(value_name = "LEASE", value_parser = lease_id)]
        id: i64,
    },
    /// Print how long a lease still lasts
    Timetolive {
        /// The lease, a hexadecimal number
        #[arg(value_name = "LEASE", value_parser = lease_id)]
        id: i64,
        /// Print the keys of the lease, too
        #[arg(long)]
        keys: bool,
    },
    /// Print the ids of all leases
    List,
    /// Renew a lease again and again, until it is revoked
    KeepAlive {
        /// The lease, a hexadecimal number
        #[arg(value_name = "LEASE", value_parser = lease_id)]
        id: i64,
        /// Renew it once
        #[arg(long)]
        once: bool,
    },
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let endpoints = Endpoints::new(arguments.connection)?;
    match arguments.action {
        LeaseAction::Grant { ttl } => grant(ttl, &endpoints.any().await?, &mut printer).await?,
        LeaseAction::Revoke { id } => revoke(id, &endpoints.any().await?, &mut printer).await?,
        LeaseAction::Timetolive { id, keys } => {
            time_to_live(id, keys, &endpoints.any().await?, &mut printer).await?;
        }
        LeaseAction::List => list(&endpoints.any().await?, &mut printer).await?,
        LeaseAction::KeepAlive { id, once: true } => once(id, &endpoints, &mut printer).await?,
        LeaseAction::KeepAlive { id, once: false } => keep(id, &endpoints, &mut printer).await?,
    }
    Ok(printer.flush()?)
}

async fn grant(ttl: i64, connection: &Connection, printer: &mut Printer) -> Result<(), Failure> {
    let send = async |request| connection.lease().lease_grant(request).await;
    let answer = connection
        .call(LeaseGrantRequest { ttl, id: 0 }, send)
        .await?;
    let (id, ttl) = (answer.id, answer.ttl);
    match printer.form() {
        Form::Json => {
            let mut object = header_json(answer.header.as_ref());
            object["ID"] = id.into();
            object["TTL"] = ttl.into();
            object["Error"] = answer.error.into();
            printer.line(object)?;
        }
        Form::Fields => {
            printer.header_fields(answer.header.as_ref())?;
            printer.lease_field("ID", id)?;
            printer.field("TTL", ttl)?;
        }
        Form::Simple | Form::Table => {
            printer.line(format_args!("lease {id:016x} granted with TTL({ttl}s)"))?;
        }
    }
    Ok(())
}

async fn revoke(id: i64, connection: &Connection, printer: &mut Printer) -> Result<(), Failure> {
    let send = async |request| connection.lease().lease_revoke(request).await;
    let answer = connection.call(LeaseRevokeRequest { id }, send).await?;
    let text = format_args!("lease {id:016x} revoked");
    Ok(printer.change(answer.header.as_ref(), text)?)
}

async fn time_to_live(
    id: i64,
    keys: bool,
    connection: &Connection,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let send = async |request| connection.lease().lease_time_to_live(request).await;
    let message = LeaseTimeToLiveRequest { id, keys };
    let answer = connection.call(message, send).await?;
    match printer.form() {
        Form::Json => printer.line(time_to_live_json(&answer))?,
        Form::Fields => {
            printer.header_fields(answer.header.as_ref())?;
            printer.lease_field("ID", answer.id)?;
            printer.field("TTL", answer.ttl)?;
            printer.field("GrantedTTL", answer.granted_ttl)?;
            for key in &answer.keys {
                printer.text_field("Key", key)?;
            }
        }
        Form::Simple | Form::Table => print_time_to_live(printer, &answer, keys)?,
    }
    Ok(())
}

fn time_to_live_json(answer: &LeaseTimeToLiveResponse) -> Value {
    let mut object = header_json(answer.header.as_ref());
    object["id"] = answer.id.into();
    object["ttl"] = answer.ttl.into();
    object["granted-ttl"] = answer.granted_ttl.into();
    let keys: Vec<Value> = answer.keys.iter().map(|key| base64(key).into()).collect();
    object["keys"] = if keys.is_empty() {
        Value::Null
    } else {
        keys.into()
    };
    object
}

fn print_time_to_live(
    printer: &mut Printer,
    answer: &LeaseTimeToLiveResponse,
    keys: bool,
) -> io::Result<()> {
    let (id, ttl, granted) = (answer.id, answer.ttl, answer.granted_ttl);
    if granted == 0 && ttl == -1 {
        return printer.line(format_args!("lease {id:016x} already expired"));
    }
    let text = format!("lease {id:016x} granted with TTL({granted}s), remaining({ttl}s)");
    printer.raw(text.as_bytes())?;
    if keys {
        printer.raw(b", attached keys([")?;
        for (number, key) in answer.keys.iter().enumerate() {
            printer.raw(if number == 0 { b"" } else { b" " })?;
            printer.key(key)?;
        }
        printer.raw(b"])")?;
    }
    printer.raw(b"\n")
}

async fn list(connection: &Connection, printer: &mut Printer) -> Result<(), Failure> {
    let send = async |request| connection.lease().lease_leases(request).await;
    let answer = connection.call(LeaseLeasesRequest {}, send).await?;
    let ids = answer.leases.iter().map(|lease| lease.id);
    match printer.form() {
        Form::Json => {
            let mut object = header_json(answer.header.as_ref());
            object["leases"] = ids.map(|id| json!({ "id": id })).collect();
            printer.line(object)?;
        }
        Form::Fields => {
            printer.header_fields(answer.header.as_ref())?;
            for id in ids {
                printer.lease_field("ID", id)?;
            }
        }
        Form::Simple | Form::Table => {
            printer.line(format_args!("found {} leases", answer.leases.len()))?;
            for id in ids {
                printer.line(format_args!("{id:016x}"))?;
            }
        }
    }
    Ok(())
}

async fn once(id: i64, endpoints: &Endpoints, printer: &mut Printer) -> Result<(), Failure> {
    match KeepAlive::new(endpoints, id).renew().await? {
        Some(answer) => Ok(print_renewal(printer, &answer)?),
        None => Err(Failure::failed(
            etcd_api::Error::LeaseNotFound.message(),
            "",
        )),
    }
}

async fn keep(id: i64, endpoints: &Endpoints, printer: &mut Printer) -> Result<(), Failure> {
    let mut renewals = KeepAlive::new(endpoints, id);
    let mut signals = EndSignals::catch()?;
    loop {
        let answer = tokio::select! {
            answer = renewals.next() => answer?,
            _ = signals.next_is_terminate() => return Ok(()),
        };
        let Some(answer) = answer else { break };
        print_renewal(printer, &answer)?;
        printer.flush()?;
    }
    if printer.form() == Form::Simple {
        printer.line(format_args!("lease {id:016x} expired or revoked."))?;
    }
    Ok(())
}

fn print_renewal(printer: &mut Printer, answer: &LeaseKeepAliveResponse) -> io::Result<()> {
    let (id, ttl) = (answer.id, answer.ttl);
    match printer.form() {
        Form::Json => {
            let mut object = header_json(answer.header.as_ref());
            object["ID"] = id.into();
            object["TTL"] = ttl.into();
            printer.line(object)
        }
        Form::Fields => {
            printer.header_fields(answer.header.as_ref())?;
            printer.lease_field("ID", id)?;
            printer.field("TTL", ttl)
        }
        Form::Simple | Form::Table => {
            printer.line(format_args!("lease {id:016x} keepalived with TTL({ttl})"))
        }
    }
}
