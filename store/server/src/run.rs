//! Runs a configured server until a signal, or the member's removal, ends it.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use environment::real::RealClock;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::config::{Config, Url};
use crate::server::Server;
use crate::{Error, error, logging, supervisor};

/// Serves until SIGTERM or SIGINT, or until the cluster has removed this member, and then
/// stops in order, as etcd does. Blocks.
pub fn run(config: Config) -> Result<(), Error> {
    logging::start(&config.log, Arc::new(RealClock)).map_err(Error::Log)?;
    supervisor::end_on_broken_invariants();
    announce(&config);
    raise_file_limit();
    if config.locks_memory {
        lock_memory()?;
    }
    let server = Server::start(config)?;
    // Before the ready line is logged: its reader may send a signal at once.
    let signals = Signals::catch().map_err(Error::Threads)?;
    let member = server.identity().member;
    match signals.wait(server.ready.clone(), server.removed.clone()) {
        Some(signal) => info!(signal, "received signal; shutting down"),
        None => warn!("{}", error::removed(member)),
    }
    supervisor::notify_stopping();
    server.stop();
    info!("stopped");
    Ok(())
}

fn announce(config: &Config) {
    info!(
        version = env!("CARGO_PKG_VERSION"),
        etcd_version = etcd_api::ETCD_VERSION,
        name = config.name,
        data_dir = %config.node.directory.display(),
        durability = ?config.durability,
        read_mode = %config.node.replica.read_mode,
        "starting inkstone"
    );
    announce_settings(config);
    for warning in &config.warnings {
        warn!("{warning}");
    }
}

/// The settings under the names that they have in etcd's line of this text, as far as they
/// exist here.
fn announce_settings(config: &Config) {
    let texts = |urls: &[Url]| {
        let urls: Vec<&str> = urls.iter().map(Url::as_str).collect();
        urls.join(",")
    };
    let addresses = &config.addresses;
    let replica = &config.node.replica;
    info!(
        "etcd-version" = etcd_api::ETCD_VERSION,
        "name" = config.name,
        "data-dir" = %config.node.directory.display(),
        "heartbeat-interval" = ?replica.heartbeat_interval,
        "election-timeout" = ?replica.election_timeout,
        "snapshot-catchup-entries" = replica.entries_kept_max,
        "initial-advertise-peer-urls" = texts(&addresses.advertise_peer),
        "listen-peer-urls" = texts(&addresses.listen_peer),
        "advertise-client-urls" = texts(&addresses.advertise_client),
        "listen-client-urls" = texts(&addresses.listen_client),
        "listen-metrics-urls" = texts(&addresses.listen_metrics),
        "initial-cluster-token" = config.cluster.token,
        "max-request-bytes" = replica.command_limits.request_bytes_max,
        "max-concurrent-streams" = config.clients.concurrent_streams_max,
        "pre-vote" = true,
        "initial-corrupt-check" = config.corruption.at_the_start(),
        "corrupt-check-time-interval" = ?config.corruption.interval,
        "compact-check-time-interval" = ?config.corruption.compacted_interval,
        "v2-deprecation" = "write-only",
        "starting an etcd server"
    );
}

/// Raises the soft limit of open files to the hard limit: every connection takes one.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!(%error, "cannot raise the limit of open files");
    }
}

/// Keeps all memory of this process out of swap, now and later. A limit of locked memory is
/// refused at once: an allocation that exceeds it later would end the process.
fn lock_memory() -> Result<(), Error> {
    use rustix::mm::{MlockAllFlags, mlockall};
    use rustix::process::{Resource, geteuid, getrlimit};
    let limit = getrlimit(Resource::Memlock).current;
    if let Some(bytes) = limit.filter(|_| !geteuid().is_root()) {
        return Err(Error::LockedMemory(format!(
            "only {bytes} bytes may be locked"
        )));
    }
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        .map_err(|error| Error::LockedMemory(error.to_string()))
}

/// The signals that end the server, caught from its creation on.
struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> io::Result<Signals> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let inside = runtime.enter();
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        drop(inside);
        Ok(Signals {
            runtime,
            terminate,
            interrupt,
        })
    }

    /// Waits for the end: a signal, or `None` for the member's removal. Before that it reports that the server is ready; as in etcd, a
    /// member of several is ready once a leader has taken its name.
    fn wait(
        mut self,
        mut ready: watch::Receiver<bool>,
        mut removed: watch::Receiver<bool>,
    ) -> Option<&'static str> {
        let tell = async {
            if ready.wait_for(|ready| *ready).await.is_ok() {
                info!("ready to serve client requests");
                supervisor::notify_ready();
            }
            std::future::pending::<Infallible>().await
        };
        let removal = async {
            // A dropped sender means that this member cannot be removed.
            if removed.wait_for(|removed| *removed).await.is_err() {
                std::future::pending().await
            }
        };
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.terminate.recv() => Some("terminated"),
                _ = self.interrupt.recv() => Some("interrupt"),
                () = removal => None,
                never = tell => match never {},
            }
        })
    }
}
