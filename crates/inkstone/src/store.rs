//! The store: one directory, one process, any number of threads.

use std::ops::RangeBounds;
use std::path::Path;

use bytes::Bytes;
use cluster::Node;
use revisions::{Command, Response};

use crate::key_range::KeyRange;
use crate::query::{Query, View};
use crate::requests::{self, Written};
use crate::{Batch, Error, KeyValue, Options, Transacted, Transaction, Watch};

/// An open store. Clones share it; the last one closes it.
#[derive(Clone, Debug)]
pub struct Store {
    node: Node,
}

impl Store {
    /// Opens the store in `directory`, making it when missing, with the
    /// default [`Options`].
    ///
    /// Errors name the file and the remedy: another process has the
    /// directory, the files are damaged or not Inkstone's, the disk is full.
    pub fn open(directory: impl AsRef<Path>) -> Result<Store, Error> {
        Options::new(directory.as_ref()).open()
    }

    pub(crate) fn with_node(node: Node) -> Store {
        Store { node }
    }

    /// Writes one key and returns the revision that did.
    pub fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<i64, Error> {
        Ok(self.write(requests::put(key, value))?.revision)
    }

    /// Deletes one key and says whether it existed.
    pub fn delete(&self, key: impl Into<Bytes>) -> Result<bool, Error> {
        Ok(self.write(requests::delete(key))?.deleted > 0)
    }

    /// Deletes every key in `range` as one revision; returns how many.
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64, Error> {
        let range = KeyRange::new(range);
        if range.is_empty() {
            return Ok(0);
        }
        Ok(self.write(requests::delete_range(range))?.deleted)
    }

    /// Makes all of a batch's changes one revision, and returns it. An empty
    /// batch, or one that only deletes what does not exist, changes nothing
    /// and returns the current revision.
    pub fn write_batch(&self, batch: Batch) -> Result<i64, Error> {
        Ok(self.write(batch.into_command())?.revision)
    }

    /// Decides and does a transaction.
    pub fn transact(&self, transaction: Transaction) -> Result<Transacted, Error> {
        Transacted::of(self.execute(transaction.into_command())?)
    }

    /// Forgets what happened before `revision`, except each key's newest
    /// version at it. Reads and watches below it fail from now on; what was
    /// forgotten takes no memory any more.
    pub fn compact(&self, revision: i64) -> Result<(), Error> {
        self.write(requests::compact(revision)).map(drop)
    }

    /// Lets writes go on after one was refused with [`Remedy::MakeRoom`](crate::Remedy::MakeRoom) and
    /// room has been made. Until then only deletions and compactions pass.
    pub fn disarm(&self) -> Result<(), Error> {
        for command in requests::disarm(self.node.reader()) {
            self.execute(command)?;
        }
        Ok(())
    }

    /// The newest version of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<KeyValue>, Error> {
        self.now().get(key)
    }

    /// Keys in a range, now: `store.range("a".."b")`, `store.range::<&str>(..)`.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Query<'_> {
        Query::new(self.node.reader(), KeyRange::new(range), 0)
    }

    /// Keys that begin with `prefix`, now.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Query<'_> {
        Query::new(self.node.reader(), KeyRange::prefix(prefix.as_ref()), 0)
    }

    /// The store as it was at `revision`, until that is compacted.
    pub fn at(&self, revision: i64) -> View<'_> {
        View::new(self.node.reader(), revision)
    }

    /// The store as it is at this moment; later writes do not show.
    pub fn snapshot(&self) -> View<'_> {
        self.at(self.revision())
    }

    fn now(&self) -> View<'_> {
        View::new(self.node.reader(), 0)
    }

    /// The newest revision: 1 when nothing was ever written.
    pub fn revision(&self) -> i64 {
        self.node.reader().revision()
    }

    /// Every change in `range` from `revision` on, in order, then what comes.
    pub fn watch<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        revision: i64,
    ) -> Result<Watch, Error> {
        Ok(Watch::open(
            self.node.reader(),
            KeyRange::new(range),
            revision,
        ))
    }

    /// Every change to keys that begin with `prefix` from `revision` on.
    pub fn watch_prefix(&self, prefix: impl AsRef<[u8]>, revision: i64) -> Result<Watch, Error> {
        let range = KeyRange::prefix(prefix.as_ref());
        Ok(Watch::open(self.node.reader(), range, revision))
    }

    /// The node underneath, for leases and everything else that
    /// etcd's messages express.
    pub fn node(&self) -> &Node {
        &self.node
    }

    fn write(&self, command: Command) -> Result<Written, Error> {
        Written::of(self.execute(command)?)
    }

    fn execute(&self, command: Command) -> Result<Response, Error> {
        requests::carry_out(&self.node, command)
    }
}
