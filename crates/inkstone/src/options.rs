//! How a store is opened.

use std::path::PathBuf;
use std::time::Duration;

use cluster::{Node, NodeOptions};

use crate::{Error, Remedy, Store};

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is on stable storage.
    #[default]
    Durable,
    /// When the operating system has it, and a little later it is on stable storage:
    /// survives this process, also by kill -9; a power loss takes what was
    /// acknowledged within the window. In a cluster only where a majority loses
    /// power at once.
    MajorityMemory {
        /// Flushed after so many entries, at least 1; 1024 is a good measure.
        entries_max: u64,
        /// Flushed after so long, whichever comes first; 100 ms is a good measure.
        interval: Duration,
    },
    /// When the operating system has it: survives this process, also by
    /// kill -9, but not a power loss, which takes up to the last half minute.
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
    /// The defaults, for this directory: durable, 64 MiB segments, no quota.
    pub fn new(directory: impl Into<PathBuf>) -> Options {
        let mut node = NodeOptions::new(directory);
        node.machine.quota_bytes = None;
        Options { node }
    }

    /// When a write is acknowledged.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        durability.apply_to(&mut self.node);
        self
    }

    /// Size of a log segment: a power of two from 64 KiB to 128 MiB. The
    /// largest batch must fit into one. Counts for new directories only.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Options {
        self.node.machine.engine.segment_bytes = bytes;
        self
    }

    /// Memory that keys may use; beyond it writes are refused, reads and
    /// deletions go on.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Options {
        self.node.machine.engine.memory_bytes_max = bytes;
        self
    }

    /// Opens the store. The directory of a member of a cluster is refused:
    /// nothing could be written there alone.
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
