//! Makes the locks of a forked child independent of the threads of its parent.

use crate::{hints, process, spinning};

/// Notes that this process is a forked child. It has to be called in the child before the child
/// uses a lock or starts a thread, for instance by `pthread_atfork`. Without the call a child
/// must not use locks for which threads of its parent were waiting.
pub fn forked() {
    process::begin_generation();
    spinning::forget_spinners();
    hints::forked();
}
