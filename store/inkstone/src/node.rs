//! The replicated store: one member of a cluster, inside a program.
//!
//! ```text
//!   program a            program b            program c
//!   ┌───────────┐        ┌───────────┐        ┌───────────┐
//!   │ Node "a"  │◄──────►│ Node "b"  │◄──────►│ Node "c"  │
//!   │ directory │        │ directory │        │ directory │
//!   └───────────┘        └───────────┘        └───────────┘
//!     every member accepts writes and linearizable reads; one member leads
//! ```

mod begin;
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
use crate::{Answer, Condition, Error, KeyValue, Transacted, Transaction, Watch, WriteBatch};

pub use leadership::{Leadership, LeadershipChanges};
pub use options::NodeOptions;

/// A running member of a cluster. Clones share it; dropping the last one stops it.
///
/// A write is acknowledged when a majority of the members has it on stable storage and this
/// member has applied it. Every member accepts writes and linearizable reads, and forwards
/// them to the leader.
///
/// ```
/// # fn main() -> Result<(), inkstone::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let directory = directory.path().join("a");
/// use inkstone::{Condition, NodeOptions};
///
/// // A cluster of one; with more founders, each program starts its own member.
/// let node = NodeOptions::new("a", &directory)
///     .founder("a", "127.0.0.1:7400")
/// #     .listener(std::net::TcpListener::bind("127.0.0.1:0").unwrap())
/// #     .segment_bytes(1 << 20)
///     .start()?;
///
/// let first = node.put("fruit/apple", "green").wait()?;
/// node.put("fruit/pear", "yellow").wait()?;
///
/// // Includes every write that any member acknowledged before.
/// let view = node.linearizable().wait()?;
/// assert_eq!(view.prefix("fruit/").count()?, 2);
///
/// // The state of this member without confirmation, which may lack the newest writes.
/// let local = node.serializable();
/// assert_eq!(local.get("fruit/apple")?.unwrap().value, "green");
///
/// // Writes only if no other write has changed the key.
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
    shared: Arc<RunningMember>,
}

#[derive(Debug)]
struct RunningMember {
    node: cluster::Node,
    member: u64,
    name: String,
}

impl Drop for RunningMember {
    fn drop(&mut self) {
        // The thread that publishes the name may hold a handle, too.
        self.node.stop();
    }
}

impl NodeOptions {
    /// Starts the member: see [`Node::start`].
    pub fn start(self) -> Result<Node, Error> {
        Node::start(self)
    }
}

/// Start and stop.
impl Node {
    /// Recovers the data of the directory, listens for the other members and starts the
    /// threads. The members elect a leader after this call has returned, once a majority
    /// runs; writes and reads wait for it for some seconds.
    ///
    /// If the directory is empty, this call first asks the other members about this one: for
    /// up to a second if it founds the cluster, for up to five if it joins one.
    ///
    /// Errors name the file or the address, and the remedy.
    pub fn start(options: NodeOptions) -> Result<Node, Error> {
        let started = begin::begin(&options)?;
        let shared = RunningMember {
            node: started.node,
            member: started.member.member,
            name: options.name,
        };
        members::publish(&shared.node, shared.member, &shared.name)?;
        Ok(Node {
            shared: Arc::new(shared),
        })
    }

    /// Finishes requests under way, transfers the lead to another member if this one leads,
    /// and closes the directory; takes at most half a second. The other members continue
    /// without an election. From then on, calls of clones fail with
    /// [`Remedy::Reopen`](crate::Remedy::Reopen). The call blocks the thread: from a task, run
    /// it on a thread that may block.
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

    /// The underlying node, for leases and everything else that etcd's messages express.
    pub fn cluster_node(&self) -> &cluster::Node {
        &self.shared.node
    }
}

/// Writes. Every member accepts them.
impl Node {
    /// Writes one key. The answer is the revision of the write.
    pub fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Answer<'_, i64> {
        let revision = |response| Ok(Written::of(response)?.revision);
        self.answer(requests::put(key, value), revision)
    }

    /// Writes one key if the condition holds, atomically: compare and swap.
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
        let put = WriteBatch::new().put(key, value);
        self.transact(Transaction::new().when(condition).then(put))
    }

    /// Deletes one key. The answer is whether it existed.
    pub fn delete(&self, key: impl Into<Bytes>) -> Answer<'_, bool> {
        let existed = |response| Ok(Written::of(response)?.deleted > 0);
        self.answer(requests::delete(key), existed)
    }

    /// Deletes all keys in `range` as one revision. The answer is their number.
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Answer<'_, u64> {
        let range = KeyRange::new(range);
        if range.is_empty() {
            return Answer::new(async { Ok(0) });
        }
        let deleted = |response| Ok(Written::of(response)?.deleted);
        self.answer(requests::delete_range(range), deleted)
    }

    /// Applies a batch as one revision. The answer is this revision.
    pub fn write_batch(&self, batch: WriteBatch) -> Answer<'_, i64> {
        let revision = |response| Ok(Written::of(response)?.revision);
        self.answer(batch.into_command(), revision)
    }

    /// Evaluates the conditions of a transaction and applies one of its batches.
    pub fn transact(&self, transaction: Transaction) -> Answer<'_, Transacted> {
        self.answer(transaction.into_command(), Transacted::of)
    }

    /// Removes the history before `revision` on all members; each key keeps its newest version
    /// at that revision. Reads and watches below `revision` fail from then on.
    pub fn compact(&self, revision: i64) -> Answer<'_, ()> {
        self.answer(requests::compact(revision), |_| Ok(()))
    }

    /// Permits writes again after one was refused with
    /// [`Remedy::MakeRoom`](crate::Remedy::MakeRoom) and the caller has made room. Until then
    /// only deletions and compactions are accepted.
    pub fn disarm(&self) -> Answer<'_, ()> {
        Answer::new(async {
            self.linearizable().await?;
            for command in requests::disarm(self.shared.node.reader()) {
                requests::propose(&self.shared.node, command)?.await?;
            }
            Ok(())
        })
    }

    /// Proposes a command at once; `of` converts the response into the answer.
    fn answer<T: Send + 'static>(
        &self,
        command: Command,
        of: impl FnOnce(Response) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        let pending = requests::propose(&self.shared.node, command);
        Answer::new(async move { of(pending?.await?) })
    }
}

/// Reads: linearizable ones of the cluster, and local ones of this member.
impl Node {
    /// The newest version of a key. The read is linearizable: it includes every write that any
    /// member acknowledged before the call.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Answer<'_, Option<KeyValue>> {
        let key = key.as_ref().to_vec();
        Answer::new(async move {
            self.confirm().await?;
            View::new(self.shared.node.reader(), 0).get(key)
        })
    }

    /// The state of the store at one revision that includes every write that any member
    /// acknowledged before the call. The leader confirms with a majority that it still leads,
    /// once for all waiting reads; the view itself reads this member's data.
    pub fn linearizable(&self) -> Answer<'_, View<'_>> {
        Answer::new(async {
            self.confirm().await?;
            Ok(self.serializable())
        })
    }

    /// The state of this member at its newest revision. The call needs no other member and
    /// never waits, even without a majority. Other members may have acknowledged writes that
    /// this one does not have yet.
    pub fn serializable(&self) -> View<'_> {
        self.at(self.revision())
    }

    /// The state of the store at `revision`; readable until that is compacted. Reads fail for
    /// a revision that this member has not reached: wait for [`Node::linearizable`] first.
    pub fn at(&self, revision: i64) -> View<'_> {
        View::new(self.shared.node.reader(), revision)
    }

    /// The newest revision of this member; 1 in a cluster that was never written.
    pub fn revision(&self) -> i64 {
        self.shared.node.reader().revision()
    }

    /// A cursor over all changes in `range` from `revision` on, in order, including future
    /// ones. It reads from this member, so it works when others stop, and ends with this one.
    /// To resume, open a watch at any member at the revision after the last event.
    pub fn watch<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>, revision: i64) -> Watch {
        Watch::open(self.shared.node.reader(), KeyRange::new(range), revision)
    }

    /// A cursor over all changes to keys that begin with `prefix`, from `revision` on.
    pub fn watch_prefix(&self, prefix: impl AsRef<[u8]>, revision: i64) -> Watch {
        let range = KeyRange::prefix(prefix.as_ref());
        Watch::open(self.shared.node.reader(), range, revision)
    }

    async fn confirm(&self) -> Result<(), Error> {
        let confirmed = self.shared.node.read_index().await;
        confirmed.map_err(Error::of_read)
    }
}

/// Leadership.
impl Node {
    /// Term and leader, as far as this member knows now.
    pub fn leadership(&self) -> Leadership {
        let node = &self.shared.node;
        let mut now = Leadership::from(*node.leadership().borrow());
        if node.refuses_writes().is_some() {
            now.leader = None;
        }
        now
    }

    /// Whether this member leads, as far as it knows.
    pub fn is_leader(&self) -> bool {
        self.leadership().leader == Some(self.id())
    }

    /// Waits until a member leads. Without a majority the answer never arrives.
    pub fn wait_for_leader(&self) -> Answer<'_, Leadership> {
        Answer::new(self.leadership_changes().led())
    }

    /// A cursor over the changes of leadership.
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
    /// // This member leads: begin work that only one member should do.
    /// # Ok(())
    /// # }
    /// ```
    pub fn leadership_changes(&self) -> LeadershipChanges {
        LeadershipChanges::new(self.shared.node.leadership())
    }

    /// Transfers the lead from this member to another. Must be called at the leader. The
    /// answer arrives when the other member leads; it is an error with
    /// [`Remedy::Retry`](crate::Remedy::Retry) if that member has not taken the lead.
    pub fn move_leader(&self, to: u64) -> Answer<'_, ()> {
        Answer::new(async move {
            let moved = self.shared.node.move_leader(to).await;
            moved.map_err(Error::of_read)
        })
    }
}
