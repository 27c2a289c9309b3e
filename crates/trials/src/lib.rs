//! Random, damaged and slow clients against real servers.
//!
//! ```text
//!               operations      ┌──────────┐  answers, events, hashes
//!   kv, watch ────────────────► │ inkstone │ ─────────────┐
//!               the same        ├──────────┤              ├─► equal?
//!             ────────────────► │   etcd   │ ─────────────┘
//!                               └──────────┘
//!               bad bytes       ┌──────────┐
//!   http2, peer, slow ────────► │ inkstone │ ◄── a bystander puts and gets meanwhile
//!                               └──────────┘
//! ```
//!
//! Each trial is a function that takes [`Subject`] (which programs) and
//! [`Length`] (how long, from which seed) and returns a [`Report`], or an error
//! that says what was wrong and how to see it again. `cargo xtask fuzz` runs
//! them for as long as one likes; the tests of `cli` run each for seconds.
#![expect(
    clippy::disallowed_methods,
    reason = "trials start processes, open sockets and measure real time"
)]

mod attack;
mod bystander;
pub mod http2;
pub mod kv;
mod peaks;
pub mod peer;
pub mod servers;
pub mod slow;
pub mod watch;
mod wire;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A failure says what was seen, and how to see it again.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The programs that a trial runs.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Our server.
    pub inkstone: PathBuf,
    /// What it is compared with; the trials of [`http2`] and [`peer`] need none.
    pub etcd: Option<PathBuf>,
}

impl Subject {
    fn etcd(&self) -> Outcome<&std::path::Path> {
        let missing = "this trial compares with etcd, and there is none: run `cargo xtask etcd`";
        Ok(self.etcd.as_deref().ok_or(missing)?)
    }
}

/// How long a trial lasts, and what its randomness begins with.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Rounds are begun until this has passed; the last one is finished.
    pub lasting: Duration,
    /// Round `n` uses `seed + n`.
    pub seed: u64,
    /// One round of so many operations instead, however long they take, of a trial that counts them.
    pub operations: Option<usize>,
}

impl Length {
    /// For so many seconds, from a seed.
    pub fn seconds(seconds: u64, seed: u64) -> Length {
        Length {
            lasting: Duration::from_secs(seconds),
            seed,
            operations: None,
        }
    }
}

/// What a trial did and saw, by name.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Names with their values, in the order of the table.
    pub rows: Vec<(String, String)>,
}

impl Report {
    fn add(&mut self, name: &str, value: impl fmt::Display) {
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
