//! `inkstone make-mirror`: copies keys to another cluster, and every change of them from then on.
//!
//! ```text
//!   source at revision R ──pages──► puts ──► destination
//!   watch from R + 1 ──the events of a revision──► one transaction ──► destination
//! ```
//!
//! A write is repeated if the destination does not answer: it has the same effect twice.

mod destination;

use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb::{RangeRequest, WatchCreateRequest, WatchResponse};
use tokio::time::{Instant, interval_at, sleep};

use self::destination::Destination;
use crate::client::other_cluster::other_cluster_flags;
use crate::client::signals::EndSignals;
use crate::client::{ConnectionArguments, Endpoints, NO_END, prefix_end};
use crate::failure::{self, Failure};
use crate::watch;

/// Pairs that are read at once.
const PAGE_PAIRS: i64 = 1000;
/// Time between two lines about the progress.
const REPORT_EVERY: Duration = Duration::from_secs(30);
/// Pause before another attempt to reach a server.
const PAUSE: Duration = Duration::from_millis(500);

other_cluster_flags!(DestinationFlags, prefix: "dest", cluster: "destination", heading: "Destination");

/// Copy keys to another cluster, and their changes from then on
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs until Ctrl-C, and prints the number of copied changes every 30 seconds. Leases and
histories are not copied, and keys that only the destination has stay there.

Examples:
  inkstone make-mirror 10.1.0.1:2379 --endpoints 10.0.0.1:2379
  inkstone make-mirror 10.1.0.1:2379 --prefix app/ --dest-prefix copy/app/
  inkstone make-mirror https://10.1.0.1:2379 --dest-cacert ca.pem --dest-user root
  inkstone make-mirror 10.1.0.1:2379 --rev 1000     only changes since revision 1000")]
pub(crate) struct Arguments {
    /// The client URL of the destination
    #[arg(value_name = "DESTINATION")]
    destination: String,
    /// Copy the keys that begin with this
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "",
        hide_default_value = true
    )]
    prefix: String,
    /// Copy only changes, from this revision on; 0 copies the keys first
    #[arg(
        long,
        value_name = "REVISION",
        default_value_t = 0,
        hide_default_value = true,
        value_parser = clap::value_parser!(i64).range(0..)
    )]
    rev: i64,
    /// The most operations in a transaction
    #[arg(long, value_name = "N", default_value_t = 128,
        value_parser = clap::value_parser!(u32).range(1..))]
    max_txn_ops: u32,
    /// Replace the prefix by this one
    #[arg(long, value_name = "PREFIX", conflicts_with = "no_dest_prefix")]
    dest_prefix: Option<String>,
    /// Leave the prefix out
    #[arg(long)]
    no_dest_prefix: bool,
    #[command(flatten)]
    flags: DestinationFlags,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let from = arguments.connection;
    let to = arguments.flags.endpoints(arguments.destination, &from)?;
    let from = Endpoints::new(from)?;
    // A first connection to each tells a wrong address or password at once.
    drop(from.any().await?);
    let prefix = Bytes::from(arguments.prefix);
    let replacement = match arguments.dest_prefix {
        _ if arguments.no_dest_prefix => Bytes::new(),
        Some(other) => Bytes::from(other),
        None => prefix.clone(),
    };
    let operations_max = arguments.max_txn_ops as usize;
    let mut mirror = Mirror {
        destination: Destination::open(to, operations_max).await?,
        from,
        replacement,
        prefix,
        next_revision: arguments.rev,
        reports: interval_at(Instant::now() + REPORT_EVERY, REPORT_EVERY),
    };
    let mut signals = EndSignals::catch()?;
    tokio::select! {
        result = mirror.run() => return result,
        _ = signals.next_is_terminate() => {}
    }
    mirror.print();
    if mirror.next_revision > 0 {
        failure::say(&format!("Continue with --rev {}", mirror.next_revision));
    }
    Ok(())
}

/// A source, a destination, and how far the one is copied to the other.
struct Mirror {
    from: Endpoints,
    destination: Destination,
    prefix: Bytes,
    replacement: Bytes,
    /// The first revision that is not copied.
    next_revision: i64,
    reports: tokio::time::Interval,
}

impl Mirror {
    async fn run(&mut self) -> Result<(), Failure> {
        if self.next_revision == 0 {
            self.copy_all().await?;
        }
        self.follow().await
    }

    /// First and last key of the source's range, in the form of etcd's API.
    fn range(&self) -> (Bytes, Bytes) {
        match self.prefix.is_empty() {
            true => (Bytes::from_static(NO_END), Bytes::from_static(NO_END)),
            false => (self.prefix.clone(), prefix_end(&self.prefix)),
        }
    }

    fn renamed(&self, key: &[u8]) -> Bytes {
        let rest = key.strip_prefix(&self.prefix[..]).unwrap_or(key);
        Bytes::from([&self.replacement[..], rest].concat())
    }

    /// Copies the pairs of the newest revision, which the first page decides.
    async fn copy_all(&mut self) -> Result<(), Failure> {
        let connection = self.from.any().await?;
        let (mut key, range_end) = self.range();
        let mut revision = 0;
        loop {
            let page = RangeRequest {
                key: key.clone(),
                range_end: range_end.clone(),
                limit: PAGE_PAIRS,
                revision,
                ..RangeRequest::default()
            };
            let send = async |request| connection.kv().range(request).await;
            let found = connection.call(page, send).await?;
            if revision == 0 {
                revision = found.header.map_or(0, |header| header.revision);
            }
            for pair in &found.kvs {
                let fields = pair.fields();
                let value = Bytes::copy_from_slice(fields.value);
                let renamed = self.renamed(fields.key);
                self.destination.put(renamed, value).await?;
            }
            self.report();
            match found.kvs.last() {
                // The next key is the last one with a zero byte behind it.
                Some(last) if found.more => key = [last.key(), b"\0"].concat().into(),
                _ => break,
            }
        }
        self.destination.flush().await?;
        self.next_revision = revision + 1;
        Ok(())
    }

    /// Copies changes until the history that is needed is compacted, or a write fails.
    async fn follow(&mut self) -> Result<(), Failure> {
        let mut said = String::new();
        loop {
            let reason = self.follow_once().await?;
            if reason != said {
                failure::say(&format!("the watch of the source ended: {reason}"));
                said = reason;
            }
            sleep(PAUSE).await;
        }
    }

    /// Copies changes until the watch ends; the value says why.
    async fn follow_once(&mut self) -> Result<String, Failure> {
        let connection = match self.from.any().await {
            Ok(connection) => connection,
            Err(failure) => return Ok(failure.what()),
        };
        let (key, range_end) = self.range();
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: self.next_revision,
            ..WatchCreateRequest::default()
        };
        let mut responses = match watch::begin(&connection, create).await {
            Ok(responses) => responses,
            Err(failure) => return Ok(failure.what()),
        };
        loop {
            let response = tokio::select! {
                response = responses.message() => response,
                _ = self.reports.tick() => {
                    self.print();
                    continue;
                }
            };
            match response {
                Ok(Some(response)) if response.canceled => return Err(self.canceled(&response)),
                Ok(Some(response)) => {
                    let copied = self.copy(&response).await;
                    copied.map_err(|failure| self.resumable(failure))?;
                }
                Ok(None) => return Ok("the server has ended it".to_owned()),
                Err(status) => return Ok(connection.refused(&status).what()),
            }
        }
    }

    fn canceled(&self, response: &WatchResponse) -> Failure {
        match response.compact_revision {
            0 => watch::canceled(response),
            revision => Failure::failed(
                format_args!(
                    "the changes from revision {} to {revision} are compacted at the source",
                    self.next_revision
                ),
                "Copy all keys again: leave --rev out. Keys that were deleted meantime stay at \
                 the destination.",
            ),
        }
    }

    /// The failure of a write, with the revision to continue from.
    fn resumable(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Message { exit, what, .. } => Failure::Message {
                exit,
                what,
                remedy: format!("Continue with --rev {}", self.next_revision),
            },
            other => other,
        }
    }

    /// Copies the events of a response, those of a revision together.
    async fn copy(&mut self, response: &WatchResponse) -> Result<(), Failure> {
        use etcd_api::mvccpb::event::EventType;
        for event in &response.events {
            let Some(pair) = &event.kv else { continue };
            let fields = pair.fields();
            if fields.mod_revision > self.next_revision {
                self.destination.flush().await?;
                self.next_revision = fields.mod_revision;
            }
            let key = self.renamed(fields.key);
            match event.r#type() {
                EventType::Put => {
                    let value = Bytes::copy_from_slice(fields.value);
                    self.destination.put(key, value).await?;
                }
                EventType::Delete => self.destination.delete(key).await?,
            }
        }
        self.destination.flush().await?;
        if let Some(last) = response
            .events
            .iter()
            .rev()
            .find_map(|event| event.kv.as_ref())
        {
            self.next_revision = last.mod_revision() + 1;
        }
        Ok(())
    }

    /// Prints the number of copied changes if it is time.
    fn report(&mut self) {
        use futures_util::FutureExt;
        if self.reports.tick().now_or_never().is_some() {
            self.print();
        }
    }

    fn print(&self) {
        use std::io::Write;
        // A reader that has left does not end the mirror.
        let _ = writeln!(std::io::stdout(), "{}", self.destination.written());
    }
}
