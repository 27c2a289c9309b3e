//! The road of a command: propose, append, flush, apply, answer.
//!
//! ```text
//!  request tasks          replica thread                 flush thread (value log)
//!  ─────────────          ──────────────                 ────────────────────────
//!  propose ──► inbox ──►  evaluate into the open batch
//!                         device idle? seal, append ──►  one write, one flush
//!                         apply  ◄── persisted(n) ─────  notice
//!  future  ◄── answers ◄─ in the order of the log
//! ```
//!
//! [`Replica`] is the object in the middle without its threads: inputs and
//! outputs only, no clock, no lock, no I/O of its own, so that a simulation
//! can drive the very same code. [`Node`] puts it on a thread and gives
//! request tasks a handle.
//!
//! One node is a quorum of one: a batch is committed as soon as this node's
//! log has it on stable storage. Exactly one batch is under way on the device
//! while the next one is evaluated behind it, so a burst of `n` commands costs
//! about two flushes, whatever `n` is, and a lone command costs one.

mod error;
mod inbox;
mod node;
mod observer;
mod options;
mod outbox;
mod peer_message;
mod pump;
mod raft;
mod reads;
mod replica;
mod transport;

pub use error::Error;
pub use inbox::Pending;
pub use node::{Node, Status};
pub use observer::Observer;
pub use options::NodeOptions;
pub use outbox::Outbox;
pub use peer_message::PeerMessage;
pub use reads::ReadAsker;
pub use replica::{Answer, Asker, Output, Replica, ReplicaOptions};
pub use transport::Network;
