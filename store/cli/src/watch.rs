//! `inkstone watch`: print changes as they happen.
//!
//! One stream with one watch. It ends with success on Ctrl-C or when the reader of stdout
//! closes it, and with a failure when the server ends it; the message then names the
//! revision to continue from.

use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use etcd_api::mvccpb::Event;
use etcd_api::mvccpb::event::EventType;
use serde_json::{Value, json};
use tokio_stream::StreamExt;
use tonic::Streaming;

use crate::client::{
    Connection, ConnectionArguments, Form, KeyRange, KeyRangeArguments, OutputArguments, Printer,
    header_json, pair_json,
};
use crate::failure::Failure;

/// Print changes as they happen, until Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints PUT or DELETE, then a line with the key and a line with the value.

Examples:
  inkstone watch greeting
  inkstone watch user/ --prefix             every key that begins with user/
  inkstone watch \"\" --prefix --rev 1        all history that is kept, then new changes
  inkstone watch greeting --prev-kv         print the pair before each change as well
  inkstone watch \"\" --prefix -w json        one JSON object per line, for programs")]
pub(crate) struct Arguments {
    #[command(flatten)]
    keys: KeyRangeArguments,
    /// The first revision to show; 0 shows changes from now on
    #[arg(long, default_value_t = 0, hide_default_value = true, allow_negative_numbers = true, value_name = "REVISION", help_heading = "Keys",
        value_parser = clap::value_parser!(i64).range(0..))]
    rev: i64,
    /// Print the pair before the change, too
    #[arg(long, help_heading = "Output")]
    prev_kv: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Watches until the user or the server ends it.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let interrupted = tokio::signal::ctrl_c();
    tokio::select! {
        result = watch(arguments) => result,
        _ = interrupted => Ok(()),
    }
}

async fn watch(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let KeyRange { key, range_end } = arguments.keys.range()?;
    let create = WatchCreateRequest {
        key,
        range_end,
        start_revision: arguments.rev,
        prev_kv: arguments.prev_kv,
        ..WatchCreateRequest::default()
    };
    let connection = Connection::open(arguments.connection).await?;
    let mut responses = begin(&connection, create).await?;
    let from_now_on = arguments.rev == 0;
    let mut next_revision = arguments.rev;
    loop {
        match responses.next().await {
            Some(Ok(response)) => {
                show(&mut printer, &response)?;
                if from_now_on || !response.created {
                    next_revision = next_revision.max(after(&response));
                }
            }
            Some(Err(status)) => return Err(ended(connection.refused(&status), next_revision)),
            None => {
                let ended_by_server = Failure::failed("the server ended the watch", "");
                return Err(ended(ended_by_server, next_revision));
            }
        }
    }
}

/// First revision that is not fully covered by this and earlier responses; 0 if the response
/// does not tell. The header's revision is not enough: it is ahead while a watch catches up.
fn after(response: &WatchResponse) -> i64 {
    let last = response.events.last().and_then(|event| event.kv.as_ref());
    match (last, response.header) {
        (Some(pair), _) if response.fragment => pair.mod_revision(),
        (Some(pair), _) => pair.mod_revision() + 1,
        (None, Some(header)) if response.created => header.revision + 1,
        _ => 0,
    }
}

/// Begins a watch: a stream with one watch on it.
pub(crate) async fn begin(
    connection: &Connection,
    create: WatchCreateRequest,
) -> Result<Streaming<WatchResponse>, Failure> {
    let request = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    // The stream of requests must stay open: its end would end the watch.
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let requests = connection.request(requests);
    connection.answer(connection.watch().watch(requests)).await
}

fn show(printer: &mut Printer, response: &WatchResponse) -> Result<(), Failure> {
    if response.canceled {
        return Err(canceled(response));
    }
    if response.events.is_empty() {
        return Ok(());
    }
    if printer.form() == Form::Fields {
        printer.header_fields(response.header.as_ref())?;
        for event in &response.events {
            show_event_fields(printer, event)?;
        }
    } else if printer.json() {
        let events: Vec<Value> = response.events.iter().map(event_json).collect();
        let header = header_json(response.header.as_ref());
        printer.line(json!({ "header": header, "events": events }))?;
    } else {
        for event in &response.events {
            show_event(printer, event)?;
        }
    }
    Ok(printer.flush()?)
}

fn show_event(printer: &mut Printer, event: &Event) -> Result<(), Failure> {
    printer.line(name_of(event))?;
    if let Some(previous) = &event.prev_kv {
        printer.pair(previous)?;
    }
    if let Some(pair) = &event.kv {
        printer.pair(pair)?;
    }
    Ok(())
}

fn show_event_fields(printer: &mut Printer, event: &Event) -> Result<(), Failure> {
    printer.field("Type", name_of(event))?;
    if let Some(previous) = &event.prev_kv {
        printer.pair_fields("Prev", previous)?;
    }
    if let Some(pair) = &event.kv {
        printer.pair_fields("", pair)?;
    }
    Ok(())
}

fn name_of(event: &Event) -> &'static str {
    match event.r#type() {
        EventType::Put => "PUT",
        EventType::Delete => "DELETE",
    }
}

fn event_json(event: &Event) -> Value {
    let mut object = json!({ "type": name_of(event) });
    if let Some(pair) = &event.kv {
        object["kv"] = pair_json(pair);
    }
    if let Some(previous) = &event.prev_kv {
        object["prev_kv"] = pair_json(previous);
    }
    object
}

/// The failure for a watch that the server has canceled.
pub(crate) fn canceled(response: &WatchResponse) -> Failure {
    let revision = response.compact_revision;
    if revision > 0 {
        return Failure::failed(
            format_args!("the history before revision {revision} is compacted"),
            format_args!("Begin at that revision: --rev {revision}"),
        );
    }
    match response.cancel_reason.as_str() {
        "" => Failure::failed("the server canceled the watch", ""),
        reason => Failure::failed(reason, ""),
    }
}

/// Adds to a failure how to continue without losing a change.
fn ended(failure: Failure, next_revision: i64) -> Failure {
    match failure {
        Failure::Message { exit, what, .. } if next_revision > 0 => Failure::Message {
            exit,
            what,
            remedy: format!("Continue without losing a change: --rev {next_revision}"),
        },
        other => other,
    }
}
