//! Signals that ask a verb to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use environment::threads;
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

/// Exit code of a program that a second signal ends at once.
const INTERRUPTED: i32 = 130;

/// Whether a signal has asked a verb to end that does not wait for anything else.
pub(crate) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Catches the signals from now on. The first one asks the verb to end, which then removes what it
    /// has not finished; the second one ends the program.
    pub(crate) fn catch() -> Result<Interruption, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format_args!("cannot wait for signals: {error}"), "")
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        let asked = Arc::new(AtomicBool::new(false));
        let (noted, (caught, result)) = (Arc::clone(&asked), mpsc::channel());
        let wait = move || {
            runtime.block_on(async {
                let mut signals = match EndSignals::catch() {
                    Ok(signals) => signals,
                    Err(failure) => return drop(caught.send(Err(failure))),
                };
                let _ = caught.send(Ok(()));
                signals.next_is_terminate().await;
                noted.store(true, Ordering::Relaxed);
                signals.next_is_terminate().await;
                std::process::exit(INTERRUPTED);
            });
        };
        threads::spawn("signals", wait).map_err(|error| failed(&error))?;
        result.recv().map_err(|error| failed(&error))??;
        Ok(Interruption(asked))
    }

    /// An error if the verb may not go on.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.goes_on() {
            true => Ok(()),
            false => Err(io::ErrorKind::Interrupted.into()),
        }
    }

    /// Whether the verb may go on.
    pub(crate) fn goes_on(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}
