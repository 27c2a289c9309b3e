//! Servers of Inkstone or etcd as child processes: alone, or as the members of a cluster.
//!
//! ```text
//!   Program ──────┐  binary, flags, environment
//!   MemberConfig ─┴─► Member ─► ServerProcess   signals, exit status, log
//!                     Cluster = members that begin together
//! ```
//!
//! A process is killed when its value is dropped. Its output goes to a log file, and each
//! error shows the last lines of it; so does a test that panics while the process runs.
//!
//! A member that is alone listens at port 0: the system chooses a port, and the member's log
//! says which. The members of a cluster must know each other's ports before they start, so
//! theirs are reserved ([`ports`]).
#![expect(
    clippy::disallowed_methods,
    reason = "starts processes, opens their logs and waits for them in real time"
)]

mod cluster;
mod member;
pub mod page;
pub mod ports;
mod process;
mod program;
pub mod readings;
mod waiting;

pub use cluster::Cluster;
pub use member::{Member, MemberConfig, SecureConfig, initial_cluster};
pub use process::ServerProcess;
pub use program::{Program, end_with_starter, etcd_binary};
pub use rustix::process::Signal;
pub use waiting::wait_for;

/// The error is a text that says which server failed, and why.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
