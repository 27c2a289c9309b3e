//! Clients that load a target and record how long each answer took.
//!
//! ```text
//!   Plan (shared; read-only except for four atomics)
//!     ├─ thread 1 ── session ── Client ── Recorder ─┐
//!     ├─ thread 2 ── ...                            ├─► merged once, at the end
//!     └─ thread n, or tasks over connections ───────┘
//!   coordinator: watches the rate, decides when the measured part begins and ends
//! ```
//!
//! The path of an operation shares only the counter for the next arrival of an open loop; it
//! has no lock and no channel. Keys and values are drawn before the operation's clock starts.

mod access;
mod arrivals;
pub mod batches;
mod client;
mod connection;
mod coordinator;
pub mod etcd_benchmark;
pub mod live;
mod plan;
mod recorder;
mod remote;
mod sessions;
mod threads;
mod timer;

pub use access::{Access, write_certificates};
pub use arrivals::Arrivals;
pub use client::{Client, Due};
pub use coordinator::{Edges, STEADY_CHANGE_MAX, Stage, coordinate};
pub use plan::{NEVER, Plan};
pub use recorder::{OperationResult, Recorded, Recorder};
pub use remote::{REMOTE_BATCH, Remote, read_back_remote, write_remote};
pub use sessions::{EMBEDDED_BATCH, read_back_embedded, run_embedded, write_embedded};
pub use threads::Measured;
