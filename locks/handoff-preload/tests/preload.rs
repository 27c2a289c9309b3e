//! The contracts of POSIX for mutexes and condition variables, and the output of the library.
//!
//! Each case of POSIX runs twice, each time in a process of its own: with the C library's locks,
//! which shows that the case expects only what POSIX promises, and with the library preloaded.

#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "preload/cancellation.rs"]
mod cancellation;
#[path = "preload/conditions.rs"]
mod conditions;
#[path = "preload/forks.rs"]
mod forks;
#[path = "preload/library.rs"]
mod library;
#[path = "preload/mutexes.rs"]
mod mutexes;
#[path = "preload/other_kinds.rs"]
mod other_kinds;
#[path = "preload/timed.rs"]
mod timed;
#[path = "preload/under.rs"]
mod under;
