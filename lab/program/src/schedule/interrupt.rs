//! Ctrl-C and SIGTERM: the signal sets a flag, which the lab polls, so that it can stop in an
//! orderly way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

/// A flag that a signal sets.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on, the first signal sets the flag instead of ending the process. A second one
    /// ends the process at once.
    pub fn on_signals() -> std::io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let set = interrupt.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        environment::threads::spawn("signals", move || {
            runtime.block_on(async {
                let interrupts = signal(SignalKind::interrupt());
                let terminations = signal(SignalKind::terminate());
                let (Ok(mut interrupts), Ok(mut terminations)) = (interrupts, terminations) else {
                    return;
                };
                loop {
                    tokio::select! {
                        _ = interrupts.recv() => {}
                        _ = terminations.recv() => {}
                    }
                    if set.0.swap(true, Ordering::Relaxed) {
                        std::process::exit(130);
                    }
                }
            });
        })?;
        Ok(interrupt)
    }

    /// Sets the flag, as a signal does.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
