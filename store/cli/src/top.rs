//! `inkstone top`: the members and the hottest keys, live.
//!
//! ```text
//!   each member   Status, /metrics ──each interval──► Reading ─┐
//!                                    the one before ► Reading ─┴► rates ──► a row
//!   one member    a watch of all keys ──► HotPrefixes: 1000 counters that fade ──► the top ten
//! ```

mod metrics;
mod prefixes;
mod reading;
mod screen;
mod view;

use std::io::{IsTerminal, Write};
use std::time::Duration;

use etcd_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use tokio::time::{Instant, interval_at};
use tonic::Streaming;

use self::prefixes::HotPrefixes;
use self::reading::{Members, Reading};
use self::screen::Screen;
use crate::client::signals::EndSignals;
use crate::client::{ConnectionArguments, Endpoints, NO_END, duration};
use crate::failure::Failure;
use crate::watch;

/// Show the members, their rates and the hottest keys, live
#[derive(Debug, clap::Args)]
#[command(after_help = "\
LAG is the number of entries that a member has to apply to reach the leader's log. FLUSH is
the time of a flush of the log to the device, the mean and a bound of 99 % of the flushes.
Rates and flush times come from http://ENDPOINT/metrics, and are - where that does not answer.
The hottest keys come from a watch of all keys, which costs the server what any watch does.

Examples:
  inkstone top --cluster                    until Ctrl-C
  inkstone top --cluster --interval 5s
  inkstone top --cluster --once             one table, for a log or a ticket
  inkstone top --no-keys                    without the watch")]
pub(crate) struct Arguments {
    /// Show all members of the cluster instead of the endpoints of --endpoint
    #[arg(long)]
    cluster: bool,
    /// Time between two readings
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    interval: Duration,
    /// Print one table, of two readings, and end; needs no terminal
    #[arg(long)]
    once: bool,
    /// Do not watch the keys
    #[arg(long)]
    no_keys: bool,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// State of the view.
struct Known {
    endpoints: Endpoints,
    members: Members,
    /// `None` with --no-keys.
    prefixes: Option<HotPrefixes>,
    before: Reading,
    now: Reading,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    if !arguments.once && !std::io::stdout().is_terminal() {
        return Err(Failure::wrong_use(
            "stdout is no terminal",
            "Print one table with --once.",
        ));
    }
    let mut endpoints = Endpoints::new(arguments.connection)?;
    if arguments.cluster {
        endpoints = endpoints.of_cluster().await?;
    }
    // A first connection tells a wrong address or password from a member that is down.
    drop(endpoints.any().await?);
    let mut members = Members::of(&endpoints);
    let first = members.read(&endpoints).await;
    let mut known = Known {
        members,
        prefixes: (!arguments.no_keys).then(HotPrefixes::default),
        endpoints,
        before: first.clone(),
        now: first,
    };
    match arguments.once {
        true => known.print_once(arguments.interval).await,
        false => known.show_live(arguments.interval).await,
    }
}

impl Known {
    async fn print_once(&mut self, interval: Duration) -> Result<(), Failure> {
        let mut events = None;
        let end = Instant::now() + interval;
        tokio::select! {
            _ = self.count_events(&mut events) => {}
            _ = tokio::time::sleep_until(end) => {}
        }
        self.read().await;
        let text = view::text(self);
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }

    async fn show_live(&mut self, interval: Duration) -> Result<(), Failure> {
        let mut signals = EndSignals::catch()?;
        let mut ticks = interval_at(Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut events = None;
        let screen = Screen::open()?;
        screen.draw(&view::text(self))?;
        loop {
            tokio::select! {
                _ = signals.next_is_terminate() => return Ok(()),
                _ = self.count_events(&mut events) => {}
                _ = ticks.tick() => {
                    tokio::select! {
                        _ = signals.next_is_terminate() => return Ok(()),
                        _ = self.read() => {}
                    }
                    screen.draw(&view::text(self))?;
                }
            }
        }
    }

    async fn read(&mut self) {
        let now = self.members.read(&self.endpoints).await;
        self.before = std::mem::replace(&mut self.now, now);
        if let Some(prefixes) = &mut self.prefixes {
            prefixes.fade(self.now.since(&self.before));
        }
    }

    /// Counts the events of a watch, which it begins if there is none; never returns.
    async fn count_events(&mut self, events: &mut Option<Streaming<WatchResponse>>) {
        const PAUSE: Duration = Duration::from_secs(1);
        let Some(prefixes) = &mut self.prefixes else {
            return std::future::pending().await;
        };
        loop {
            let Some(stream) = events else {
                match begin(&self.endpoints).await {
                    Ok(stream) => *events = Some(stream),
                    Err(failure) => {
                        prefixes.interrupt(failure.what());
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                continue;
            };
            match stream.message().await {
                Ok(Some(response)) if !response.canceled => {
                    let pairs = response.events.iter().filter_map(|event| event.kv.as_ref());
                    pairs.for_each(|pair| prefixes.count(pair.key()));
                }
                ended => {
                    *events = None;
                    prefixes.interrupt(match ended {
                        Ok(Some(response)) => response.cancel_reason,
                        Ok(None) => "the server ended the watch".to_owned(),
                        Err(status) => status.message().to_owned(),
                    });
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// A watch of all keys, through the first endpoint that answers.
async fn begin(endpoints: &Endpoints) -> Result<Streaming<WatchResponse>, Failure> {
    let connection = endpoints.any().await?;
    let create = WatchCreateRequest {
        key: NO_END.into(),
        range_end: NO_END.into(),
        ..WatchCreateRequest::default()
    };
    watch::begin(&connection, create).await
}
