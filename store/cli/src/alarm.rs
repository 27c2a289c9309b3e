//! `inkstone alarm`: alarms of the members.

use std::io;

use clap::Subcommand;
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmMember, AlarmRequest, AlarmResponse};
use serde_json::{Value, json};

use crate::client::{
    Connection, ConnectionArguments, Form, OutputArguments, Printer, header_json, without_empty,
};
use crate::failure::Failure;

/// Show or disarm the alarms of the members
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A member without space raises NOSPACE, and the cluster then refuses writes. Make space
(`inkstone compaction`, `inkstone del`) before you disarm the alarm.

Examples:
  inkstone alarm list
  inkstone alarm disarm"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: AlarmVerb,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum AlarmVerb {
    /// Print all alarms
    List,
    /// Disarm all alarms, and print them
    Disarm,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let connection = Connection::open(arguments.connection).await?;
    match arguments.action {
        AlarmVerb::List => {
            let answer = ask(&connection, AlarmAction::Get, AlarmMember::default()).await?;
            print(&mut printer, &answer)?;
        }
        AlarmVerb::Disarm => disarm(&connection, &mut printer).await?,
    }
    Ok(printer.flush()?)
}

async fn ask(
    connection: &Connection,
    action: AlarmAction,
    of: AlarmMember,
) -> Result<AlarmResponse, Failure> {
    let message = AlarmRequest {
        action: action.into(),
        member_id: of.member_id,
        alarm: of.alarm,
    };
    let send = async |request| connection.maintenance().alarm(request).await;
    connection.call(message, send).await
}

/// Disarms each alarm of the list: a server disarms one at a time.
async fn disarm(connection: &Connection, printer: &mut Printer) -> Result<(), Failure> {
    let mut all = ask(connection, AlarmAction::Get, AlarmMember::default()).await?;
    let mut disarmed = Vec::new();
    for alarm in std::mem::take(&mut all.alarms) {
        let answer = ask(connection, AlarmAction::Deactivate, alarm).await?;
        disarmed.extend(answer.alarms);
        all.header = answer.header;
    }
    all.alarms = disarmed;
    Ok(print(printer, &all)?)
}

fn print(printer: &mut Printer, answer: &AlarmResponse) -> io::Result<()> {
    match printer.form() {
        Form::Json => {
            let mut object = json!({ "header": header_json(answer.header.as_ref()) });
            if !answer.alarms.is_empty() {
                object["alarms"] = answer.alarms.iter().map(alarm_json).collect();
            }
            printer.line(object)
        }
        Form::Fields => {
            printer.header_fields(answer.header.as_ref())?;
            answer.alarms.iter().try_for_each(|alarm| {
                printer.id_field("MemberID", alarm.member_id)?;
                printer.field("AlarmType", alarm.alarm().as_str_name())?;
                printer.line("")
            })
        }
        Form::Simple | Form::Table => answer.alarms.iter().try_for_each(|alarm| {
            let (member, name) = (alarm.member_id, alarm.alarm().as_str_name());
            printer.line(format_args!("memberID:{member} alarm:{name}"))
        }),
    }
}

fn alarm_json(alarm: &AlarmMember) -> Value {
    let mut object = json!({ "memberID": alarm.member_id, "alarm": alarm.alarm });
    without_empty(&mut object);
    object
}
