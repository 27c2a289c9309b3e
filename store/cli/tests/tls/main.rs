//! `inkstone serve` with TLS, and the client verbs that connect to it.
#![expect(clippy::unwrap_used, reason = "a test stops where something fails")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests read and write certificate files by themselves"
)]

mod clients;
mod connected;
mod crowds;
mod dates;
mod files;
mod members;
mod refusals;
mod restarts;
mod secure;
mod users;
