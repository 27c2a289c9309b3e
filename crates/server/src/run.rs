//! From a configuration to a process that serves until it is told to stop.

use std::sync::Arc;

use environment::real::RealClock;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::config::Config;
use crate::server::Server;
use crate::{Error, logging};

/// Serves until SIGTERM or SIGINT. Blocks.
pub fn run(config: Config) -> Result<(), Error> {
    logging::start(&config.log, Arc::new(RealClock)).map_err(Error::Log)?;
    announce(&config);
    raise_file_limit();
    let server = Server::start(config)?;
    info!("ready to serve client requests");
    let signal = wait_for_signal()?;
    info!(signal, "received signal; shutting down");
    server.stop();
    info!("stopped");
    Ok(())
}

fn announce(config: &Config) {
    info!(
        version = env!("CARGO_PKG_VERSION"),
        etcd_version = etcd_api::ETCD_VERSION,
        name = config.name,
        data_dir = %config.data_directory.display(),
        durability = ?config.durability,
        "starting inkstone"
    );
    for warning in &config.warnings {
        warn!("{warning}");
    }
}

/// Every connection is a file; what the administrator allows is used.
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

fn wait_for_signal() -> Result<&'static str, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(Error::Threads)?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(Error::Threads)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Threads)?;
        Ok(tokio::select! {
            _ = terminate.recv() => "terminated",
            _ = interrupt.recv() => "interrupt",
        })
    })
}
