//! Options of a store.

use std::path::PathBuf;
use std::time::Duration;

use cluster::{Node, NodeOptions};

use crate::{Error, Remedy, Store};

/// The point at which a write is acknowledged, and so the failures that it survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A write is acknowledged when it is on stable storage. It survives a loss of power.
    #[default]
    Durable,
    /// A write is acknowledged when the operating system has it, and is flushed to stable
    /// storage a little later. It survives the end of this process, also by kill -9. A loss
    /// of power loses the writes that are not flushed yet; in a cluster only if a majority
    /// loses power at once.
    MajorityMemory {
        /// Number of unflushed entries at which the log is flushed, at least 1; 1024 is a
        /// good value.
        entries_max: u64,
        /// Time after which the log is flushed, if `entries_max` is not reached earlier;
        /// 100 ms is a good value.
        interval: Duration,
    },
    /// A write is acknowledged when the operating system has it. It survives the end of this
    /// process, also by kill -9, but a loss of power loses up to the last half minute.
    Os,
}

impl Durability {
    pub(crate) fn apply_to(self, node: &mut NodeOptions) {
        let durability = &mut node.machine.engine.durability;
        (*durability, node.flushing) = match self {
            Durability::Durable => (engine::Durability::Durable, None),
            Durability::MajorityMemory {
                entries_max,
                interval,
            } => {
                let flushing = cluster::Flushing {
                    entries_max,
                    interval,
                };
                (engine::Durability::Os, Some(flushing))
            }
            Durability::Os => (engine::Durability::Os, None),
        };
    }
}

/// Options of a [`Store`].
///
/// ```no_run
/// let store = inkstone::Options::new("data").memory_bytes_max(1 << 30).open()?;
/// # Ok::<(), inkstone::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    node: NodeOptions,
}

impl Options {
    /// Default options for this directory: durable, segments of 64 MiB, no quota.
    pub fn new(directory: impl Into<PathBuf>) -> Options {
        let mut node = NodeOptions::new(directory);
        node.machine.quota_bytes = None;
        Options { node }
    }

    /// Sets the point at which a write is acknowledged.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        durability.apply_to(&mut self.node);
        self
    }

    /// Sets the size of a log segment: a power of two from 64 KiB to 128 MiB. The largest
    /// batch must fit into one segment. The option applies to new directories only.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Options {
        self.node.machine.engine.segment_bytes = bytes;
        self
    }

    /// Sets the memory that keys may use. Beyond it writes are refused; reads and deletions
    /// still work.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Options {
        self.node.machine.engine.memory_bytes_max = bytes;
        self
    }

    /// Opens the store. Fails for the directory of a member of a cluster, because a single
    /// member cannot commit writes.
    pub fn open(self) -> Result<Store, Error> {
        let directory = self.node.directory.clone();
        let node = Node::start(self.node)?;
        let members = node.reader().members().len();
        if members > 1 {
            node.stop();
            let what = format!(
                "{} belongs to one of {members} members of a cluster: start it as a Node",
                directory.display()
            );
            return Err(Error::new(Remedy::CorrectTheCall, what));
        }
        Ok(Store::with_node(node))
    }
}
