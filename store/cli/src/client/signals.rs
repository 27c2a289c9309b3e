//! Signals that ask a verb to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// SIGINT and SIGTERM, as they arrive.
pub(crate) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl EndSignals {
    /// Catches the signals from now on.
    pub(crate) fn catch() -> Result<EndSignals, Failure> {
        let catch = |kind| {
            signal(kind).map_err(|error| {
                Failure::failed(format_args!("cannot wait for signals: {error}"), "")
            })
        };
        Ok(EndSignals {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal; whether it is SIGTERM.
    pub(crate) async fn next_is_terminate(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => false,
            _ = self.terminate.recv() => true,
        }
    }
}
