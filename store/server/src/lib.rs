//! etcd's v3 API over gRPC and HTTP on one port.
//!
//! ```text
//!   client ─► listen ─► worker (one runtime per core) ─► dispatch ─┬─► kv watch lease … ─► backend ─► cluster::Node
//!                                                                  └─► http: health, version, metrics
//! ```
//!
//! Start reading at [`Server`]; the path of one request is `worker.rs`,
//! `dispatch.rs`, `calls.rs`, then the service's own file. Flags are defined
//! in [`config`]. This crate knows nothing of logs, indexes or effects: it
//! proposes commands and reads through the node's reader.

mod answer_body;
mod answers;
mod auth;
mod authentication;
mod backend;
mod begin;
mod callers;
mod calls;
mod certificates;
mod client;
mod cluster;
mod compactor;
pub mod config;
mod connection;
mod connections;
mod corruption;
mod counted;
mod descriptors;
mod discovery;
mod dispatch;
mod encoded;
mod error;
mod files;
mod follow;
mod foreign;
mod health;
mod http;
mod http2_debug;
mod json;
mod kv;
mod large_reads;
mod large_writes;
mod leader_check;
mod lease;
mod listen;
mod logging;
mod maintenance;
mod metered_disk;
mod methods;
mod metrics;
mod pings;
mod presence;
mod range_stream;
mod read_ahead;
mod recipes;
mod reconfiguration;
mod refusal;
mod repair;
mod request_body;
mod request_message;
mod resources;
mod restore;
mod run;
mod save;
mod scratch;
mod server;
mod snapshot;
mod spans;
mod supervisor;
mod tokens;
mod turn;
mod unfinished;
mod unsent;
mod unsupported;
mod view;
mod watch;
mod windows;
mod worker;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use ::cluster::Repair;
pub use begin::{MemberFileDamage, check_member_file};
pub use error::Error;
pub use files::read_text;
pub use repair::plan_repair;
pub use restore::{RestoreError, Restored, RevisionBump, restore};
pub use run::run;
pub use save::{
    Replayed, SaveError, Saved, SavedEtcd, directory_hash, directory_status, save_directory,
    save_etcd,
};
pub use server::Server;

/// Locks data that a panic of one request leaves as they are.
fn lock<T>(data: &Mutex<T>) -> MutexGuard<'_, T> {
    data.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The text of `--version`: etcd's line first, because tools parse it.
pub fn versions() -> String {
    format!(
        "etcd Version: {}\nInkstone Version: {}\nTarget: {}/{}\n",
        etcd_api::ETCD_VERSION,
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}
