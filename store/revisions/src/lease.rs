//! Leases: keys that are deleted when their client stops sending keep-alives.
//!
//! ```text
//!   grant ──► alive ──keep-alive──► alive (full time again)
//!               │ time runs out
//!               ▼
//!            expired ──revoke, through the log──► gone, keys deleted
//!               │ keep-alive waits for the outcome
//! ```
//!
//! The log holds grants and revocations. Deadlines exist only in the leader's memory, so a
//! restart or a new leader gives every lease its full time again. A lease never ends before its
//! deadline. After the deadline it ends when its revocation is applied; the number of revocations
//! in a second is limited, so that many of them do not delay other writes.

mod keep_alive;
mod leader_request;
mod lessor;
mod revocation;

pub use leader_request::{LeaseRequest, LeaseResponse};
pub(crate) use lessor::Lessor;
pub(crate) use revocation::Pace;
