//! Replication of commands: propose, append, flush, apply, answer.
//!
//! ```text
//!  request tasks          replica thread                 flush thread (value log)
//!  ─────────────          ──────────────                 ────────────────────────
//!  propose ──► inbox ──►  evaluate into the open batch
//!                         nothing under way? seal ────►  one write, one flush
//!                         to the peers, at once ─ ─ ─ ─ ─► theirs
//!                         apply  ◄── a majority has it   notice
//!  future  ◄── answers ◄─ in the order of the log
//! ```
//!
//! [`Replica`] is the object in the middle, without threads: the state machine, the log and
//! the consensus, with the clock that it gets and without a network, so that a simulation
//! can drive the same code. [`Node`] puts it on a thread, gives request tasks a handle, and
//! connects it to the other members.
//!
//! A single node is a quorum of one: a batch is committed as soon as its log has the batch
//! on stable storage. One batch is under way at most, and commands that arrive are evaluated
//! into the next one. So a burst of `n` commands costs about two flushes, whatever `n` is,
//! and a lone command costs one.

mod awaited;
mod bootstrap;
mod command_limits;
mod credentials;
mod driver;
mod durability;
mod entry_id;
mod error;
mod fields;
mod figures_desk;
mod flushing;
mod forwarded_reads;
mod hash_desk;
mod heartbeat_sender;
mod identity_files;
mod inbox;
mod lock;
mod mutant;
mod node;
mod observer;
mod options;
mod outbox;
mod peer_message;
mod peer_table;
mod raft;
mod read_lease;
mod repair;
mod replica;
mod round_trips;
mod scrubbing;
mod snapshot;
mod snapshot_traffic;
mod status;
mod traced_commands;
mod transport;
mod wake_batcher;

pub use ::peers::{PeerListener, PeerSecret, PeerTls, SecretError};
pub use bootstrap::member_list::MemberList;
pub use bootstrap::{
    Bootstrap, BootstrapError, BootstrapFailure, Founding, Joining, Origin, Started,
    lease_ttl_min_seconds,
};
pub use command_limits::CommandLimits;
pub use credentials::Credentials;
pub use durability::Durability;
pub use entry_id::EntryId;
pub use error::Error;
pub use figures_desk::ToldFigures;
pub use flushing::{Flushing, Unflushed};
pub use identity_files::{MemberFile, MemberFileError, holds_data};
pub use mutant::Mutant;
pub use node::Node;
pub use observer::{Observer, Transfer};
pub use options::NodeOptions;
pub use outbox::Outbox;
pub use peer_message::{
    FiguresMessage, HashMessage, PeerMessage, RejoinAccepted, RejoinQuestion, RejoinReply,
};
pub use read_lease::{ReadLease, ReadMode};
pub use repair::Repair;
pub use replica::{
    Agreements, Installed, MemberProgress, Output, Replica, ReplicaOptions, Replies, Reply,
    ReplySender,
};
pub use scrubbing::{ScrubFindings, Scrubbing};
pub use snapshot::{ImportReport, Sender, Step};
pub use status::Status;
pub use transport::{Network, Traffic};
pub use wake_batcher::{Pending, batch_wakes};
