//! Random, damaged and slow clients against real servers.
//!
//! ```text
//!               operations      ┌──────────┐  answers, events, hashes
//!   kv, watch ────────────────► │ inkstone │ ─────────────┐
//!               the same        ├──────────┤              ├─► equal?
//!             ────────────────► │   etcd   │ ─────────────┘
//!                               └──────────┘
//!               bad bytes       ┌──────────┐
//!   http2, peer, slow ────────► │ inkstone │ ◄── a bystander puts and gets all the time
//!                               └──────────┘
//! ```
//!
//! [`tls_abuse`] does the same to the ports with TLS: thousands of handshakes that do not end.
//! [`rolling_users`] restarts members under clients with users.
//! [`beside_ranges`] measures a watch that shares its connection with large ranges.
//!
//! Each trial is a function that takes a [`Subject`] (the programs) and a
//! [`Length`] (how long, from which seed) and returns a [`Report`], or an error
//! that says what was wrong and how to reproduce it. `cargo trials fuzz` runs
//! them for any time; the tests of `cli` run each for a few seconds.
#![expect(
    clippy::disallowed_methods,
    reason = "trials start processes, open sockets and measure real time"
)]

pub mod attack;
pub mod beside_ranges;
mod bystander;
pub mod http2;
pub mod kv;
mod logins;
pub mod machine;
mod peaks;
pub mod peer;
pub mod peer_wire;
pub mod requests;
pub mod rolling_users;
pub mod secure;
pub mod servers;
pub mod slow;
pub mod tls_abuse;
pub mod users;
pub mod watch;
mod wire;
mod witness;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use chores::{Error, Outcome};

/// The programs that a trial runs.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Path of the Inkstone server.
    pub inkstone: PathBuf,
    /// Path of etcd, for comparison; the trials of [`http2`] and [`peer`] need none.
    pub etcd: Option<PathBuf>,
}

impl Subject {
    fn etcd(&self) -> Outcome<&std::path::Path> {
        let missing = "this trial compares with etcd, and there is none: run `cargo xtask etcd`";
        Ok(self.etcd.as_deref().ok_or(missing)?)
    }
}

/// Length and random seed of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// New rounds are begun until this time has passed; the last one is finished.
    pub lasting: Duration,
    /// Round `n` uses `seed + n`.
    pub seed: u64,
    /// For trials that count operations: run one round of this many instead, however long it
    /// takes.
    pub operations: Option<usize>,
}

impl Length {
    /// A length of `seconds` with a seed.
    pub fn seconds(seconds: u64, seed: u64) -> Length {
        Length {
            lasting: Duration::from_secs(seconds),
            seed,
            operations: None,
        }
    }
}

/// Results of a trial, by name.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Names with their values, in the order of the table.
    pub rows: Vec<(String, String)>,
}

impl Report {
    /// Adds a row.
    pub fn add(&mut self, name: &str, value: impl fmt::Display) {
        self.rows.push((name.to_owned(), value.to_string()));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.iter();
        let rows: Vec<String> = rows
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        formatter.write_str(&rows.join("; "))
    }
}
