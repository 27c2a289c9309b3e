//! Snapshots on their way to members that are behind the log.
//!
//! ```text
//!   leader                                            member
//!     │ offer: id, what Raft is told when it is whole    │ judged; an import begins
//!     │ ───────────────────────────────────────────────► │
//!     │ ◄─────────────────────────────── go on from 0 ── │
//!     │ piece 0, 1, 2 ... as far as the window allows ─► │ checked, queued, written
//!     │ ◄──────────────── go on from 3, 2 are written ── │
//!     │ (silence: the offer again, and from there on)    │ whole: judged again, installed
//!     │ ◄───────────────────────────────────────── end ─ │
//! ```
//!
//! Every message may be lost, doubled, late and out of order, and connections
//! may break: the sender goes back to the piece that the member wants. Only the
//! leader's export and the member's import have state worth keeping, and the
//! import lives as long as the member runs.
//!
//! The sender's half is an object of its own ([`Sender`]), because it reads from
//! the disk, which the replica thread must not wait for: in production each has
//! a thread (`courier.rs`), in a simulation it has its turn like everybody else.
//! The member's half is part of the replica (`replica/incoming.rs`); the engine's
//! import has a thread.

pub(crate) mod courier;
mod exchange;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use courier::Couriers;
pub(crate) use exchange::Exchange;
pub(crate) use sender::{Pace, Parcel};
pub use sender::{Sender, Step};
