//! Consensus: the Raft library `raft` (TiKV's raft-rs) on our own log, with our
//! own wire format. `docs/decisions/0006-raft-library.md` says why that library and how its
//! traps are avoided.

pub(crate) mod consensus;
pub(crate) mod entry;
mod log_lines;
pub(crate) mod log_writer;
mod lost_tail;
mod plausible;
pub(crate) mod restore;
mod room;
pub(crate) mod view;
pub(crate) mod wire;
