//! `inkstone elect`: takes part in an election, or shows its leaders.

use std::ffi::OsString;

use bytes::Bytes;
use etcd_api::etcdserverpb::{RangeResponse, ResponseHeader, WatchCreateRequest};
use etcd_api::mvccpb::Event;
use etcd_api::mvccpb::event::EventType;
use tokio::time::{Duration, sleep};

use crate::client::signals::EndSignals;
use crate::client::{
    Connection, ConnectionArguments, Endpoints, LeaseSession, OutputArguments, Printer, Turn,
    bytes_of, first_of, prefix_end,
};
use crate::failure::Failure;
use crate::get::{self, Shown};
use crate::watch;

/// Seconds after which another candidate is elected if the leader dies.
const TTL_SECONDS: i64 = 60;
/// Pause before another attempt to reach a server.
const PAUSE: Duration = Duration::from_millis(500);

/// Take part in an election, or show its leaders
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints the key and the proposal once elected, and stays the leader until Ctrl-C.

Examples:
  inkstone elect scheduler node-7      stands for election, with node-7 as its proposal
  inkstone elect scheduler -l          prints each leader, until Ctrl-C")]
pub(crate) struct Arguments {
    /// The election's name
    #[arg(value_name = "NAME")]
    name: OsString,
    /// The proposal, which is the value of the leader's key
    #[arg(
        value_name = "PROPOSAL",
        required_unless_present = "listen",
        conflicts_with = "listen"
    )]
    proposal: Option<OsString>,
    /// Print the leaders instead of standing for election
    #[arg(short, long)]
    listen: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let endpoints = Endpoints::new(arguments.connection)?;
    let mut signals = EndSignals::catch()?;
    let name = bytes_of(arguments.name);
    match arguments.proposal {
        Some(proposal) => {
            let proposal = bytes_of(proposal);
            campaign(&endpoints, &name, proposal, &mut printer, &mut signals).await
        }
        None => tokio::select! {
            result = observe(&endpoints, &name, &mut printer) => result,
            _ = signals.next_is_terminate() => Ok(()),
        },
    }
}

async fn campaign(
    endpoints: &Endpoints,
    name: &[u8],
    proposal: Bytes,
    printer: &mut Printer,
    signals: &mut EndSignals,
) -> Result<(), Failure> {
    let session = LeaseSession::open(endpoints, TTL_SECONDS).await?;
    let elected = async {
        let turn = Turn::join(&session, name, proposal).await?;
        turn.wait().await?;
        show(printer, &turn.pair().await?)
    };
    let lead = async {
        elected.await?;
        std::future::pending::<Result<(), Failure>>().await
    };
    let led = tokio::select! {
        result = lead => result,
        failure = session.lost() => Err(failure),
        _ = signals.next_is_terminate() => Ok(()),
    };
    let closed = session.close().await;
    led.and(closed)
}

fn show(printer: &mut Printer, found: &RangeResponse) -> Result<(), Failure> {
    get::print(printer, found, Shown::default())?;
    Ok(printer.flush()?)
}

/// Prints each leader, and each proposal of it.
async fn observe(endpoints: &Endpoints, name: &[u8], printer: &mut Printer) -> Result<(), Failure> {
    loop {
        let Some((connection, found)) = first_of(endpoints, name).await? else {
            sleep(PAUSE).await;
            continue;
        };
        let after = found.header.map_or(0, |header| header.revision) + 1;
        let ended = match found.kvs.first() {
            Some(pair) => {
                show(printer, &found)?;
                let key = Bytes::copy_from_slice(pair.key());
                follow(&connection, key, after, printer).await?
            }
            None => candidate(&connection, name, after).await,
        };
        if !ended {
            sleep(PAUSE).await;
        }
    }
}

/// Prints the proposals of a leader until its key is deleted; false if the watch ended before.
async fn follow(
    connection: &Connection,
    key: Bytes,
    after: i64,
    printer: &mut Printer,
) -> Result<bool, Failure> {
    let create = WatchCreateRequest {
        key,
        start_revision: after,
        ..WatchCreateRequest::default()
    };
    let Ok(mut responses) = watch::begin(connection, create).await else {
        return Ok(false);
    };
    while let Ok(Some(response)) = responses.message().await {
        for event in &response.events {
            if event.r#type() == EventType::Delete {
                return Ok(true);
            }
            show(printer, &as_range(response.header, event))?;
        }
        if response.canceled {
            return Ok(false);
        }
    }
    Ok(false)
}

/// Waits for a candidate; false if the watch ended before.
async fn candidate(connection: &Connection, name: &[u8], after: i64) -> bool {
    let prefix = Bytes::from([name, b"/"].concat());
    let create = WatchCreateRequest {
        range_end: prefix_end(&prefix),
        key: prefix,
        start_revision: after,
        ..WatchCreateRequest::default()
    };
    let Ok(mut responses) = watch::begin(connection, create).await else {
        return false;
    };
    while let Ok(Some(response)) = responses.message().await {
        let mut events = response.events.iter();
        if events.any(|event| event.r#type() == EventType::Put) {
            return true;
        }
        if response.canceled {
            return false;
        }
    }
    false
}

fn as_range(header: Option<ResponseHeader>, event: &Event) -> RangeResponse {
    RangeResponse {
        header,
        kvs: event.kv.iter().cloned().collect(),
        more: false,
        count: 0,
    }
}
