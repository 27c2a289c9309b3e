//! The binary `handoff run`: what it passes on to the program, and what it refuses.

#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "run/called.rs"]
mod called;
#[path = "run/kernel.rs"]
mod kernel;
#[path = "run/passed_on.rs"]
mod passed_on;
#[path = "run/refused.rs"]
mod refused;
#[path = "run/scheduling.rs"]
mod scheduling;
#[path = "run/signals.rs"]
mod signals;
