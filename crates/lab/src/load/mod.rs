//! Clients that put a load on a target and note how long each answer took.
//!
//! ```text
//!   Plan (shared, read only but for three atomics)
//!     ├─ thread 1 ── session ── Client ── Recorder ─┐
//!     ├─ thread 2 ── ...                            ├─► merged once, at the end
//!     └─ thread n, or tasks over connections ───────┘
//!   coordinator: watches the rate, says when the measured part begins and ends
//! ```
//!
//! Nothing is shared on the way of an operation but a counter for the next
//! arrival of an open loop: no lock, no channel. Keys and values are drawn
//! before the clock starts.

mod arrivals;
mod client;
mod coarse;
mod coordinator;
mod plan;
mod recorder;
mod remote;
mod sessions;
mod timer;

pub use arrivals::Arrivals;
pub use client::{Client, Due};
pub use coordinator::{Edges, Phase, STEADY_CHANGE_MAX, coordinate};
pub use plan::{NEVER, Plan};
pub use recorder::{Answer, Recorded, Recorder};
pub use remote::{Remote, preload_remote, read_back_remote};
pub use sessions::{preload_embedded, read_back_embedded, run_embedded};
