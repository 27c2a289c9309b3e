//! etcd's state machine: revisions, transactions, leases, watches, compaction.
//!
//! ```text
//!              replica thread (one)                      request tasks (many)
//!  Command ──► Machine::evaluate ──► Response            Reader ──► range, count,
//!                 │ reads: applied state + overlay         │        leases, hash
//!                 ▼                                        │
//!              open batch ── seal ──► Batch ─► log         │
//!                                      │ durable           │
//!              Machine::apply ◄────────┘                   │
//!                 ├─► engine index   ◄─────────────────────┤  epoch-pinned snapshots
//!                 ├─► lessor         ◄─────────────────────┤  short mutex
//!                 └─► watch hub ──► matched streams only ──┘  cursors, not queues
//! ```
//!
//! Where to start: [`Command`] (what can be asked), `evaluate.rs` (what it
//! does), `apply.rs` (what becomes of it), [`watch`].
//!
//! Evaluation decides everything and touches nothing shared: its effects wait
//! in the overlay until the log has them. Apply decides nothing. Dropping the
//! overlay ([`Machine::abandon`]) is therefore always safe.
//!
//! Responses carry a header with the revision; cluster and member ids and the
//! term are the caller's to fill.

mod alarm;
mod apply;
mod command;
mod compaction;
mod compare;
mod delete_range;
mod duplicate_keys;
mod error;
mod evaluate;
mod hash;
mod key_range;
mod lease;
mod machine;
mod options;
mod overlay;
mod put;
mod quota;
mod range;
mod range_stream;
mod reader;
mod state;
mod transaction;
pub mod validate;
mod view;
mod warm;
pub mod watch;

pub use command::{Command, Response, is_read_only, is_serializable};
pub use error::Error;
pub use hash::KeyValueHash;
pub use machine::Machine;
pub use options::{Options, WatchOptions};
pub use range_stream::RangeStream;
pub use reader::Reader;
pub use watch::{WatchHub, WatchStream};
