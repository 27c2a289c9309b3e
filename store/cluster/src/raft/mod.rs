//! Consensus: the Raft library `raft` (TiKV's raft-rs) on our own log, with our
//! own wire format. `docs/decisions/0006-raft-library.md` says why that library and how its
//! traps are avoided.

pub(crate) mod consensus;
pub(crate) mod doubt;
pub(crate) mod entry;
mod log_lines;
mod own_removal;
mod own_writes;
mod plausible;
pub(crate) mod restore;
mod room;
pub(crate) mod view;
pub(crate) mod wire;
mod write;
