//! Options of all trials that put a load on a server, and how these trials run.

use std::{path::PathBuf, time::Duration};

use harness::Program;
use tokio::signal::unix::{SignalKind, signal};

use crate::process::{Outcome, inkstone_binary};

#[derive(clap::Args)]
pub struct Common {
    /// Decides the operations and the faults
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Clients at work at the same time [default: faults 12, soak 8, others 16]
    #[arg(long)]
    pub clients: Option<u32>,
    /// The server to test; etcd's own binary works too [default: ours, built now]
    #[arg(long, value_name = "BINARY", alias = "binary")]
    pub server: Option<PathBuf>,
    /// One more flag for the server. To test the trial itself, cut the power of etcd with
    /// `--server-flag=--unsafe-no-fsync`, which must fail
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub server_flag: Vec<String>,
}

impl Common {
    /// The server with its flags, built now unless there is one.
    pub fn program(&self) -> Outcome<Program> {
        let binary = inkstone_binary(self.server.as_deref())?;
        Ok(Program::new(binary).with(&self.server_flag))
    }
}

/// Runs a trial to its end, or until Ctrl-C or SIGTERM.
pub fn until_interrupted<T>(trial: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = tokio::runtime::Runtime::new()?;
    let ended = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            ended = trial => ended,
            _ = terminate.recv() => Err("terminated".into()),
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    ended
}
