//! Inkstone inside your program: an ordered key-value store that keeps its
//! history, survives crashes and writes every value once.
//!
//! ```
//! # fn main() -> Result<(), inkstone::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let directory = directory.path().join("data");
//! use inkstone::Store;
//!
//! let store = Store::open(&directory)?;
//! let first = store.put("fruit/apple", "green")?;
//! store.put("fruit/apple", "red")?;
//! store.put("fruit/pear", "yellow")?;
//!
//! // Now, and as it was.
//! assert_eq!(store.get("fruit/apple")?.unwrap().value, "red");
//! assert_eq!(store.at(first).get("fruit/apple")?.unwrap().value, "green");
//!
//! // Both directions, counted without walking.
//! let names = |entries: Vec<inkstone::KeyValue>| -> Vec<_> {
//!     entries.into_iter().map(|entry| entry.key).collect()
//! };
//! assert_eq!(names(store.prefix("fruit/").collect()?), ["fruit/apple", "fruit/pear"]);
//! assert_eq!(names(store.prefix("fruit/").reverse().limit(1).collect()?), ["fruit/pear"]);
//! assert_eq!(store.prefix("fruit/").count()?, 2);
//!
//! // Everything since a revision, then what comes.
//! let mut watch = store.watch_prefix("fruit/", first + 1)?;
//! assert_eq!(watch.next()?.value(), b"red");
//! # Ok(())
//! # }
//! ```
//!
//! # Alone or replicated
//!
//! A [`Store`] is one directory of one process. A [`Node`] is a member of a
//! cluster of such processes: the same queries, batches and watches, written to
//! a majority of the members before it is acknowledged, and there as long as a
//! majority is. Its calls return an [`Answer`], which a thread waits for and a
//! task awaits; a store's return when they are done.
//!
//! # What is promised
//!
//! A call that writes returns when its effect is on stable storage (in the
//! default mode) and visible to every later read. A batch happens whole or
//! not at all, and is one revision. Reads take no lock that a writer holds
//! while it waits. After a failed write or flush of the log every later write
//! is refused until the store is opened again.
//!
//! # Trade-offs
//!
//! Every key lives in memory (about 32 bytes beside the key itself), values
//! on the disk. Old revisions stay readable until [`Store::compact`] says
//! otherwise; without it the disk fills.

#![warn(missing_docs)]

mod answer;
mod batch;
mod error;
mod key_range;
mod key_value;
mod node;
mod options;
mod query;
mod requests;
mod store;
mod transaction;
mod waiting;
mod watch;

pub use answer::Answer;
pub use batch::Batch;
pub use cluster::{PeerSecret, SecretError};
pub use error::{Error, Remedy};
pub use key_value::KeyValue;
pub use node::{Leadership, LeadershipChanges, Node, NodeOptions};
pub use options::{Durability, Options};
pub use query::{Entries, Query, View};
pub use revisions::Member;
pub use store::Store;
pub use transaction::{Condition, Transacted, Transaction};
pub use watch::{Event, Watch};
