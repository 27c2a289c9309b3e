//! Transfers of snapshots to members that are behind the leader's log.
//!
//! ```text
//!   leader                                            member
//!     │ offer: id, Raft's MsgSnapshot                    │ judged; an import begins
//!     │ ───────────────────────────────────────────────► │
//!     │ ◄──────────────────────────── wants piece 0 ──── │
//!     │ piece 0, 1, 2 ... as far as the window allows ─► │ checked, queued, written
//!     │ ◄───────────── wants piece 3, 2 are written ──── │
//!     │ (after silence the offer again, and from there)  │ whole: judged again, installed
//!     │ ◄───────────────────────────────────────── over  │
//! ```
//!
//! Every message may be lost, doubled, late and out of order, and connections may break:
//! the sender goes back to the piece that the member wants. Only the leader's export and
//! the member's import have state worth keeping. An import does not survive a restart of
//! its member.
//!
//! The sender's half is an object of its own ([`Sender`]), because it reads from the disk,
//! and the replica thread must not wait for that. In production each sender has a thread
//! (`sender_threads.rs`); in a simulation the scheduler runs it. The member's half is part of the
//! replica (`replica/snapshot_receive.rs`), and the engine's import has a thread.

mod exchange;
mod sender;
pub(crate) mod sender_threads;
#[cfg(test)]
mod tests;

pub(crate) use exchange::Exchange;
pub use exchange::ImportReport;
pub(crate) use sender::{Pace, Parcel};
pub use sender::{Sender, Step};
pub(crate) use sender_threads::SenderThreads;
