//! Targets of measurements, behind one small trait.
//!
//! ```text
//!   null  file  append  log  engine  store  (peers of other crates)      server:PATH   endpoints:URL,URL
//!        └─ Embedded: sessions of one thread each ─┘               └─ Remote: etcd's API ─┘
//! ```
//!
//! An embedded target runs in the worker's own process, with one session for each client's
//! thread. Clients of a remote one are tasks that share connections.

mod append;
mod embedded;
mod engine;
mod file;
mod gathering;
mod identity;
mod index;
mod log;
mod null;
pub(crate) mod plain;
mod server;
mod spec;
mod store;

pub use embedded::{
    Embedded, Failure, Offer, Open, OpenOptions, Seen, Session, built_in, offer_also, offered,
};
pub use identity::Programs;
pub use server::{command_line, server_program, without_folder};
pub use spec::{HANDOFF, TargetKind, TargetSpec, UNDER_HANDOFF};
