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
//!                 └─► watch hub ──► matched streams only ──┘  bounded queues
//! ```
//!
//! Where to start: [`Command`] (what can be asked), `decide.rs` and `evaluate.rs` (what it
//! does), `apply.rs` (what becomes of it), [`watch`].
//!
//! Evaluation decides everything and touches nothing shared: its effects wait
//! in the overlay until the log has them. Apply decides nothing. Dropping the
//! overlay ([`Machine::abandon`]) is therefore always safe. Of several machines
//! one decides ([`Machine::promote`]) and all apply.
//!
//! Responses carry a header with the revision; cluster and member ids and the
//! term are the caller's to fill.

mod acting;
mod alarm;
mod apply;
mod auth_record;
mod bootstrap;
mod checkpoint;
mod children;
mod command;
mod compare;
mod decide;
mod downgrade;
mod duplicate_keys;
mod error;
mod evaluate;
mod fields;
mod follow;
mod forced_cluster;
mod foreign_log;
mod foreign_users;
mod hash;
mod header;
mod held_state;
pub mod identity;
mod key_range;
mod key_value;
mod leadership;
mod lease;
mod machine;
mod machine_state;
mod member;
mod membership;
mod open_batch;
mod options;
mod overlay;
mod peer_urls;
mod permit;
mod published_users;
mod put;
mod quota;
mod range;
mod range_stream;
mod read_budget;
mod reader;
mod repair;
mod restore;
mod source;
mod state;
mod trace_context;
mod transaction;
mod user_reader;
mod users;
pub mod validate;
mod view;
mod warm;
pub mod watch;
mod wire;

pub use engine::{
    Commitment, Export, Import, ImportNotice, ImportProgress, Installed, Piece, SnapshotInfo,
};

pub use acting::{Acting, Actor};
pub use children::ChildrenRange;
pub use command::{Command, Response, is_read_only, is_serializable};
pub use error::Error;
pub use follow::FOLLOW_BYTES_MAX;
pub use foreign_log::{Replayed, replay_etcd};
pub use hash::KeyValueHash;
pub use held_state::HeldState;
pub use lease::{LeaseRequest, LeaseResponse};
pub use machine::Machine;
pub use member::{Member, MemberChange, Members, quorum};
pub use membership::{
    MemberPublishRequest, MemberPublishResponse, membership_of, membership_of_body,
};
pub use options::{Options, WatchOptions};
pub use range::FoundRange;
pub use range_stream::RangeStream;
pub use read_budget::READ_BYTES_MAX;
pub use reader::Reader;
pub use repair::plan_repair;
pub use restore::{RestoreError, Restored, RevisionBump, restore};
pub use source::SourceCluster;
pub use state::check_records;
pub use trace_context::TraceContext;
pub use user_reader::UserReader;
pub use watch::{WatchHub, WatchStream};
