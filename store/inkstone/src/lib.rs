//! An embedded, ordered key-value store that keeps its history, survives crashes and writes
//! every value once.
//!
//! ```
//! # fn main() -> Result<(), inkstone::Error> {
//! use inkstone::Store;
//!
//! let directory = "data";
//! # let directory = tempfile::tempdir().unwrap();
//! # let directory = directory.path().join("data");
//! let store = Store::open(&directory)?;
//! let first = store.put("fruit/apple", "green")?;
//! store.put("fruit/apple", "red")?;
//! store.put("fruit/pear", "yellow")?;
//!
//! // The newest version, and an older one.
//! assert_eq!(store.get("fruit/apple")?.unwrap().value, "red");
//! assert_eq!(store.at(first).get("fruit/apple")?.unwrap().value, "green");
//!
//! // Ranges in both directions, and a count without a scan.
//! let names = |entries: Vec<inkstone::KeyValue>| -> Vec<_> {
//!     entries.into_iter().map(|entry| entry.key).collect()
//! };
//! assert_eq!(names(store.prefix("fruit/").collect()?), ["fruit/apple", "fruit/pear"]);
//! assert_eq!(names(store.prefix("fruit/").reverse().limit(1).collect()?), ["fruit/pear"]);
//! assert_eq!(store.prefix("fruit/").count()?, 2);
//!
//! // All changes since a revision, then new ones.
//! let mut watch = store.watch_prefix("fruit/", first + 1)?;
//! assert_eq!(watch.next()?.value(), b"red");
//! # Ok(())
//! # }
//! ```
//!
//! # Alone or replicated
//!
//! A [`Store`] is one directory of one process. A [`Node`] is a member of a cluster of such
//! processes and has the same queries, batches and watches. It acknowledges a write when a
//! majority of the members has it, and works as long as a majority runs. Its calls return an
//! [`Answer`], which a thread waits for and a task awaits; the calls of a store return when
//! they are done.
//!
//! # Guarantees
//!
//! A call that writes returns when its effect is on stable storage (in the default mode) and
//! visible to every later read. A batch is atomic and has one revision. Reads take no lock
//! that a writer holds while it waits. After a failed write or flush of the log, every later
//! write is refused until the store is opened again.
//!
//! # Trade-offs
//!
//! Every key is in memory (10 to 16 bytes each, and of the key what it does not share with its
//! neighbours), values are on disk. Old revisions stay readable until [`Store::compact`] removes them; without compactions the
//! disk fills up.

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
pub use batch::WriteBatch;
pub use cluster::Durability;
pub use cluster::{PeerSecret, SecretError};
pub use error::{Error, Remedy};
pub use key_value::KeyValue;
pub use node::{Leadership, LeadershipChanges, Node, NodeOptions};
pub use options::Options;
pub use query::{Entries, Query, View};
pub use revisions::Member;
pub use store::Store;
pub use transaction::{Condition, Transacted, Transaction};
pub use watch::{Event, Watch};
