//! The replicated store: one member of a cluster, inside a program.
//!
//! ```text
//!   program a            program b            program c
//!   ┌───────────┐        ┌───────────┐        ┌───────────┐
//!   │ Node "a"  │◄──────►│ Node "b"  │◄──────►│ Node "c"  │
//!   │ directory │        │ directory │        │ directory │
//!   └───────────┘        └───────────┘        └───────────┘
//!     any of them takes writes and linearizable reads; one leads
//! ```

mod begin;
mod founding;
mod introduction;
mod leadership;
mod members;
mod options;

use std::ops::RangeBounds;
use std::sync::Arc;

use bytes::Bytes;
use revisions::{Command, Response};

use crate::key_range::KeyRange;
use crate::query::View;
use crate::requests::{self, Written};
use crate::{Answer, Batch, Condition, Error, KeyValue, Transacted, Transaction, Watch};

pub use leadership::{Leadership, LeadershipChanges};
pub use options::NodeOptions;

/// A running member of a cluster. Clones share it; the last one stops it.
///
/// A write is acknowledged when a majority of the members has it on stable
/// storage and this one has applied it. Any member takes writes and
/// linearizable reads: it asks the leader.
///
/// ```
/// # fn main() -> Result<(), inkstone::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let directory = directory.path().join("a");
/// use inkstone::{Condition, NodeOptions};
///
/// // A cluster of one; with more founders each of them starts its own.
/// let node = NodeOptions::new("a", &directory)
///     .founder("a", "127.0.0.1:7400")
/// #     .listener(std::net::TcpListener::bind("127.0.0.1:0").unwrap())
/// #     .segment_bytes(1 << 20)
///     .start()?;
///
/// let first = node.put("fruit/apple", "green").wait()?;
/// node.put("fruit/pear", "yellow").wait()?;
///
/// // Sees every write that was acknowledged before, wherever it was written.
/// let view = node.linearizable().wait()?;
/// assert_eq!(view.prefix("fruit/").count()?, 2);
///
/// // Asks nobody: what this member has, perhaps not the newest.
/// let local = node.serializable();
/// assert_eq!(local.get("fruit/apple")?.unwrap().value, "green");
///
/// // Only if nobody has written it since.
/// let unchanged = Condition::written_by("fruit/apple", first);
/// assert!(node.put_if(unchanged, "fruit/apple", "red").wait()?.succeeded);
///
/// let mut watch = node.watch_prefix("fruit/", first);
/// assert_eq!(watch.next()?.value(), b"green");
/// node.stop();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    node: cluster::Node,
    member: u64,
    name: String,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The thread that tells the name may hold a handle, too.
        self.node.stop();
    }
}

/// Beginning and end.
impl Node {
    /// Recovers what the directory holds, listens for the other members and
    /// starts the threads. A leader is found after this returns, when most of
    /// the members are there: writes and reads wait for it, some seconds.
    ///
    /// While the directory is empty the other members are asked first, for a
    /// second when this one founds the cluster, for five when it joins one.
    ///
    /// Errors name the file or the address, and the remedy.
    pub fn start(options: NodeOptions) -> Result<Node, Error> {
        let begun = begin::begin(&options)?;
        let shared = Shared {
            node: begun.node,
            member: begun.member,
            name: options.name,
        };
        members::publish(&shared.node, shared.member, &shared.name)?;
        Ok(Node {
            shared: Arc::new(shared),
        })
    }

    /// Finishes what is under way, hands the lead to another member if this one
    /// has it, and closes the directory; half a second at most. The others go
    /// on without an election. Clones answer with [`Remedy::Reopen`](crate::Remedy::Reopen) from then
    /// on. Blocks the thread: in a task, leave it to one that may.
    pub fn stop(&self) {
        self.shared.node.stop();
    }

    /// This member's id in its cluster.
    pub fn id(&self) -> u64 {
        self.shared.member
    }

    /// This member's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The node underneath, for leases and everything else that etcd's messages
    /// express.
    pub fn cluster_node(&self) -> &cluster::Node {
        &self.shared.node
    }
}

/// Writes. Each may be asked of any member.
impl Node {
    /// Writes one key and answers with the revision that did.
    pub fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Answer<'_, i64> {
        let revision = |response| Ok(Written::of(response)?.revision);
        self.answer(requests::put(key, value), revision)
    }

    /// Writes one key if the condition holds at that moment: compare and swap.
    ///
    /// ```
    /// # fn main() -> Result<(), inkstone::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    /// # let node = inkstone::NodeOptions::new("a", directory.path().join("a"))
    /// #     .founder("a", "127.0.0.1:7400").listener(listener).segment_bytes(1 << 20).start()?;
    /// use inkstone::Condition;
    ///
    /// let missing = || Condition::missing("owner");
    /// assert!(node.put_if(missing(), "owner", "ada").wait()?.succeeded);
    /// assert!(!node.put_if(missing(), "owner", "grace").wait()?.succeeded);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "compare_and_swap")]
    pub fn put_if(
        &self,
        condition: Condition,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
    ) -> Answer<'_, Transacted> {
        let put = Batch::new().put(key, value);
        self.transact(Transaction::new().when(condition).then(put))
    }

    /// Deletes one key and says whether it existed.
    pub fn delete(&self, key: impl Into<Bytes>) -> Answer<'_, bool> {
        let existed = |response| Ok(Written::of(response)?.deleted > 0);
        self.answer(requests::delete(key), existed)
    }

    /// Deletes every key in `range` as one revision, and says how many.
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Answer<'_, u64> {
        let range = KeyRange::new(range);
        if range.is_empty() {
            return Answer::new(async { Ok(0) });
        }
        let deleted = |response| Ok(Written::of(response)?.deleted);
        self.answer(requests::delete_range(range), deleted)
    }

    /// Makes all of a batch's changes one revision, and answers with it.
    pub fn write_batch(&self, batch: Batch) -> Answer<'_, i64> {
        let revision = |response| Ok(Written::of(response)?.revision);
        self.answer(batch.into_command(), revision)
    }

    /// Decides and does a transaction.
    pub fn transact(&self, transaction: Transaction) -> Answer<'_, Transacted> {
        self.answer(transaction.into_command(), Transacted::of)
    }

    /// Forgets, on all members, what happened before `revision`, except each
    /// key's newest version at it. Reads and watches below it fail from now on.
    pub fn compact(&self, revision: i64) -> Answer<'_, ()> {
        self.answer(requests::compact(revision), |_| Ok(()))
    }

    /// Lets writes go on after one was refused with [`Remedy::MakeRoom`](crate::Remedy::MakeRoom) and
    /// room has been made. Until then only deletions and compactions pass.
    pub fn disarm(&self) -> Answer<'_, ()> {
        Answer::new(async {
            self.linearizable().await?;
            for command in requests::disarm(self.shared.node.reader()) {
                requests::propose(&self.shared.node, command)?.await?;
            }
            Ok(())
        })
    }

    /// Puts a command on its way at once; its answer is made of the response.
    fn answer<T: Send + 'static>(
        &self,
        command: Command,
        of: impl FnOnce(Response) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        let pending = requests::propose(&self.shared.node, command);
        Answer::new(async move { of(pending?.await?) })
    }
}

/// Reads: of what the cluster has, or of what this member has.
impl Node {
    /// The newest version of a key, linearizable: no older than any write that
    /// was acknowledged before the call, by whichever member.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Answer<'_, Option<KeyValue>> {
        let key = key.as_ref().to_vec();
        Answer::new(async move {
            self.confirm().await?;
            View::new(self.shared.node.reader(), 0).get(key)
        })
    }

    /// The store as it is after every write that was acknowledged before the
    /// call, by whichever member; at one revision, whatever is written
    /// afterwards. The members confirm to each other who leads, once for all
    /// reads that wait; the reads themselves happen here.
    pub fn linearizable(&self) -> Answer<'_, View<'_>> {
        Answer::new(async {
            self.confirm().await?;
            Ok(self.serializable())
        })
    }

    /// The store as this member has it at this moment, at one revision. Asks
    /// nobody and never waits, also when most of the members are gone; others
    /// may have acknowledged writes that are not here yet.
    pub fn serializable(&self) -> View<'_> {
        self.at(self.revision())
    }

    /// The store as it was at `revision`, until that is compacted. A revision
    /// that this member has not reached is refused: wait for
    /// [`Node::linearizable`] first.
    pub fn at(&self, revision: i64) -> View<'_> {
        View::new(self.shared.node.reader(), revision)
    }

    /// The newest revision that this member has: 1 when nothing was ever
    /// written.
    pub fn revision(&self) -> i64 {
        self.shared.node.reader().revision()
    }

    /// Every change in `range` from `revision` on, in order, then what comes. It
    /// is fed by this member, so it goes on when another one stops, and ends
    /// with this one; a later one, here or at another member, goes on at the
    /// revision after the last it told.
    pub fn watch<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>, revision: i64) -> Watch {
        Watch::open(self.shared.node.reader(), KeyRange::new(range), revision)
    }

    /// Every change to keys that begin with `prefix` from `revision` on.
    pub fn watch_prefix(&self, prefix: impl AsRef<[u8]>, revision: i64) -> Watch {
        let range = KeyRange::prefix(prefix.as_ref());
        Watch::open(self.shared.node.reader(), range, revision)
    }

    async fn confirm(&self) -> Result<(), Error> {
        let confirmed = self.shared.node.read_index().await;
        confirmed.map_err(Error::of_read)
    }
}

/// Who leads.
impl Node {
    /// Who leads, as far as this member knows now.
    pub fn leadership(&self) -> Leadership {
        let node = &self.shared.node;
        let mut now = Leadership::from(*node.leadership().borrow());
        if node.refuses_writes().is_some() {
            now.leader = None;
        }
        now
    }

    /// This member leads, as far as it knows.
    pub fn is_leader(&self) -> bool {
        self.leadership().leader == Some(self.id())
    }

    /// Waits until somebody leads; without end while most of the members are
    /// missing.
    pub fn wait_for_leader(&self) -> Answer<'_, Leadership> {
        Answer::new(self.leadership_changes().led())
    }

    /// Word of each change of who leads.
    ///
    /// ```
    /// # fn main() -> Result<(), inkstone::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    /// # let node = inkstone::NodeOptions::new("a", directory.path().join("a"))
    /// #     .founder("a", "127.0.0.1:7400").listener(listener).segment_bytes(1 << 20).start()?;
    /// let mut changes = node.leadership_changes();
    /// let mut now = changes.next()?;
    /// while now.leader != Some(node.id()) {
    ///     now = changes.next()?;
    /// }
    /// // This member leads: what the program does at one place only, begins.
    /// # Ok(())
    /// # }
    /// ```
    pub fn leadership_changes(&self) -> LeadershipChanges {
        LeadershipChanges::new(self.shared.node.leadership())
    }

    /// Hands the lead from this member, which has it, to another, and answers
    /// when that leads. [`Remedy::Retry`](crate::Remedy::Retry): that one has not
    /// taken it.
    pub fn move_leader(&self, to: u64) -> Answer<'_, ()> {
        Answer::new(async move {
            let moved = self.shared.node.move_leader(to).await;
            moved.map_err(Error::of_read)
        })
    }
}
