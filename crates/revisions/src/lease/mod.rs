//! Leases: keys that live as long as somebody keeps them alive.
//!
//! ```text
//!   grant ──► alive ──keep-alive──► alive (full time again)
//!               │ time runs out
//!               ▼
//!            expired ──revoke, through the log──► gone, keys deleted
//!               │ keep-alive waits for the outcome
//! ```
//!
//! The log holds grants and revocations; deadlines are this process's own, so
//! a restart or a new leader gives every lease its full time again. A lease
//! never ends before its time, and ends as soon after it as revocations get
//! through: at most so many a second, so that a pile of them does not starve
//! other writes.

mod commands;
mod keep_alive;
mod lessor;
mod question;
mod revocation;

pub(crate) use lessor::Lessor;
pub use question::{LeaseAnswer, LeaseQuestion};
pub(crate) use revocation::Pace;
