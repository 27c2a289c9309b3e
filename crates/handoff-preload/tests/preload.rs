//! What POSIX promises of mutexes and condition variables, and how the library shows
//! itself.
//!
//! Each case of POSIX runs twice, in a process of its own: with the C library's locks,
//! which proves that the case asks for what POSIX promises, and with ours preloaded.

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
