//! The store: one directory, one process, any number of threads.

use std::ops::RangeBounds;
use std::path::Path;

use bytes::Bytes;
use cluster::Node;
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmRequest, CompactionRequest, DeleteRangeRequest, PutRequest};
use revisions::{Command, Response};

use crate::key_range::KeyRange;
use crate::query::{Query, View};
use crate::{Batch, Error, KeyValue, Options, Remedy, Watch};

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
        let put = PutRequest {
            key: key.into(),
            value: value.into(),
            ..Default::default()
        };
        self.write(Command::Put(put)).map(|(revision, _)| revision)
    }

    /// Deletes one key and says whether it existed.
    pub fn delete(&self, key: impl Into<Bytes>) -> Result<bool, Error> {
        let delete = DeleteRangeRequest {
            key: key.into(),
            ..Default::default()
        };
        self.write(Command::DeleteRange(delete))
            .map(|(_, deleted)| deleted > 0)
    }

    /// Deletes every key in `range` as one revision; returns how many.
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64, Error> {
        let range = KeyRange::new(range);
        if range.is_empty() {
            return Ok(0);
        }
        let delete = DeleteRangeRequest {
            key: range.key.into(),
            range_end: range.range_end.into(),
            ..Default::default()
        };
        self.write(Command::DeleteRange(delete))
            .map(|(_, deleted)| deleted)
    }

    /// Makes all of a batch's changes one revision, and returns it. An empty
    /// batch, or one that only deletes what does not exist, changes nothing
    /// and returns the current revision.
    pub fn write_batch(&self, batch: Batch) -> Result<i64, Error> {
        self.write(Command::Txn(batch.into_request()))
            .map(|(revision, _)| revision)
    }

    /// Forgets what happened before `revision`, except each key's newest
    /// version at it. Reads and watches below it fail from now on; what was
    /// forgotten takes no memory any more.
    pub fn compact(&self, revision: i64) -> Result<(), Error> {
        let compact = CompactionRequest {
            revision,
            physical: true,
        };
        self.write(Command::Compact(compact)).map(|_| ())
    }

    /// Lets writes go on after one was refused with [`Remedy::MakeRoom`] and
    /// room has been made. Until then only deletions and compactions pass.
    pub fn disarm(&self) -> Result<(), Error> {
        for member in self.node.reader().alarms() {
            let alarm = AlarmRequest {
                action: AlarmAction::Deactivate.into(),
                member_id: member.member_id,
                alarm: member.alarm,
            };
            self.node.propose(Command::Alarm(alarm))?.wait()?;
        }
        Ok(())
    }

    /// The newest version of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<KeyValue>, Error> {
        self.now().get(key)
    }

    /// Keys in a range, now: `store.range("a".."b")`, `store.range::<&str>(..)`.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Query<'_> {
        Query::new(self, KeyRange::new(range), 0)
    }

    /// Keys that begin with `prefix`, now.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Query<'_> {
        Query::new(self, KeyRange::prefix(prefix.as_ref()), 0)
    }

    /// The store as it was at `revision`, until that is compacted.
    pub fn at(&self, revision: i64) -> View<'_> {
        View::new(self, revision)
    }

    /// The store as it is at this moment; later writes do not show.
    pub fn snapshot(&self) -> View<'_> {
        self.at(self.revision())
    }

    fn now(&self) -> View<'_> {
        View::new(self, 0)
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
        Watch::open(&self.node, KeyRange::new(range), revision)
    }

    /// Every change to keys that begin with `prefix` from `revision` on.
    pub fn watch_prefix(&self, prefix: impl AsRef<[u8]>, revision: i64) -> Result<Watch, Error> {
        Watch::open(&self.node, KeyRange::prefix(prefix.as_ref()), revision)
    }

    /// The node underneath, for transactions, leases and everything else that
    /// etcd's messages express.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Runs a command; returns its revision and how many keys it deleted.
    fn write(&self, command: Command) -> Result<(i64, u64), Error> {
        revisions::validate::command(&command, usize::MAX).map_err(Error::refused)?;
        let response = self.node.propose(command)?.wait()?;
        let (header, deleted) = match response {
            Response::Put(put) => (put.header, 0),
            Response::DeleteRange(delete) => (delete.header, delete.deleted),
            Response::Txn(txn) => (txn.header, 0),
            Response::Compact(compact) => (compact.header, 0),
            other => {
                let message = format!("this command was answered with {other:?}; please report it");
                return Err(Error::new(Remedy::Repair, message));
            }
        };
        let revision = header.map_or(0, |header| header.revision);
        Ok((revision, u64::try_from(deleted).unwrap_or(0)))
    }
}
