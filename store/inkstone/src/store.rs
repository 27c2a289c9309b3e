//! The store: one directory of one process, for any number of threads.

use std::ops::RangeBounds;
use std::path::Path;

use bytes::Bytes;
use cluster::Node;
use revisions::{Command, Response};

use crate::key_range::KeyRange;
use crate::query::{Query, View};
use crate::requests::{self, Written};
use crate::{Error, KeyValue, Options, Transacted, Transaction, Watch, WriteBatch};

/// An open store. Clones share it; dropping the last one closes it.
#[derive(Clone, Debug)]
pub struct Store {
    node: Node,
}

impl Store {
    /// Opens the store in `directory` with the default [`Options`], and creates it where it
    /// is missing.
    ///
    /// Fails if another process has the directory open, if files are damaged or not
    /// Inkstone's, or if the disk is full. The error names the file and the remedy.
    pub fn open(directory: impl AsRef<Path>) -> Result<Store, Error> {
        Options::new(directory.as_ref()).open()
    }

    pub(crate) fn with_node(node: Node) -> Store {
        Store { node }
    }

    /// Writes one key and returns the revision of the write.
    pub fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<i64, Error> {
        Ok(self.write(requests::put(key, value))?.revision)
    }

    /// Deletes one key and returns whether it existed.
    pub fn delete(&self, key: impl Into<Bytes>) -> Result<bool, Error> {
        Ok(self.write(requests::delete(key))?.deleted > 0)
    }

    /// Deletes all keys in `range` as one revision and returns their number.
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64, Error> {
        let range = KeyRange::new(range);
        if range.is_empty() {
            return Ok(0);
        }
        Ok(self.write(requests::delete_range(range))?.deleted)
    }

    /// Applies a batch as one revision and returns it. An empty batch, or one that only
    /// deletes keys that do not exist, changes nothing and returns the current revision.
    pub fn write_batch(&self, batch: WriteBatch) -> Result<i64, Error> {
        Ok(self.write(batch.into_command())?.revision)
    }

    /// Evaluates the conditions of a transaction and applies one of its batches.
    pub fn transact(&self, transaction: Transaction) -> Result<Transacted, Error> {
        Transacted::of(self.execute(transaction.into_command())?)
    }

    /// Removes the history before `revision`; each key keeps its newest version at that
    /// revision. Reads and watches below `revision` fail from now on. Returns when the memory
    /// of the removed versions is free.
    pub fn compact(&self, revision: i64) -> Result<(), Error> {
        self.write(requests::compact(revision)).map(drop)
    }

    /// Permits writes again after one was refused with
    /// [`Remedy::MakeRoom`](crate::Remedy::MakeRoom) and the caller has made room. Until then
    /// only deletions and compactions are accepted.
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

    /// A query of the keys in a range at the current revision: `store.range("a".."b")`,
    /// `store.range::<&str>(..)`.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Query<'_> {
        Query::new(self.node.reader(), KeyRange::new(range), 0)
    }

    /// A query of the keys that begin with `prefix` at the current revision.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Query<'_> {
        Query::new(self.node.reader(), KeyRange::prefix(prefix.as_ref()), 0)
    }

    /// The state of the store at `revision`; readable until that is compacted.
    pub fn at(&self, revision: i64) -> View<'_> {
        View::new(self.node.reader(), revision)
    }

    /// The state of the store at the current revision; later writes do not show in it.
    pub fn snapshot(&self) -> View<'_> {
        self.at(self.revision())
    }

    fn now(&self) -> View<'_> {
        View::new(self.node.reader(), 0)
    }

    /// The newest revision; 1 in a store that was never written.
    pub fn revision(&self) -> i64 {
        self.node.reader().revision()
    }

    /// A cursor over all changes in `range` from `revision` on, in order, including future
    /// ones.
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

    /// A cursor over all changes to keys that begin with `prefix`, from `revision` on.
    pub fn watch_prefix(&self, prefix: impl AsRef<[u8]>, revision: i64) -> Result<Watch, Error> {
        let range = KeyRange::prefix(prefix.as_ref());
        Ok(Watch::open(self.node.reader(), range, revision))
    }

    /// The underlying node, for leases and everything else that etcd's messages express.
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
