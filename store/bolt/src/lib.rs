//! Reads and writes database files of etcd, which are bbolt's: B+ trees of pages in one file.
//!
//! ```text
//!   page 0, 1   meta: page size, root of the tree of buckets, number of pages
//!   others      branch: first keys and pages of children
//!               leaf:   keys and values; in the tree of buckets, a value is a bucket
//!               free list, and pages that belong to nothing
//!
//!   DatabaseFile ──► buckets ──► Entries: keys and values, ascending
//!        │                          └── each page is checked when it is read
//!        └── check: every page of the file belongs to exactly one thing
//!
//!   Measure ──► FilePlan ──► Writer: a file from its first byte to its last
//! ```
//!
//! A file may come from anywhere. Sizes, counts, positions, the order of keys and the references
//! between pages are checked before they are used, and memory has a bound that does not depend on
//! what the file says: [`format::LEAF_BYTES_MAX`] for a leaf, 64 branch pages of 1 MiB, and a bit for each
//! page.
//!
//! Source of the layout: go.etcd.io/bbolt 1.5.0, which writes version 2 of the format.
//!
//! ```no_run
//! let file = bolt::DatabaseFile::open("backup.db".as_ref())?;
//! file.check(|_| ())?;
//! for bucket in file.buckets()? {
//!     for entry in file.entries(&bucket) {
//!         let (key, value) = entry?;
//!         println!("{:?}: {} and {} bytes", bucket.name, key.len(), value.len());
//!     }
//! }
//! # Ok::<(), bolt::Error>(())
//! ```

mod bucket;
mod check;
mod checksum;
mod entries;
mod entry_reader;
mod error;
mod file;
pub mod format;
mod layout;
mod meta;
mod page;
mod page_set;
mod writer;

pub use bucket::Bucket;
pub use checksum::Checksum;
pub use entries::{Entries, Entry};
pub use entry_reader::EntryReader;
pub use error::Error;
pub use file::DatabaseFile;
pub use page::Place;
pub use writer::{FilePlan, Measure, Writer};
