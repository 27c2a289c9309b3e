//! Options of a store.

use std::path::PathBuf;

use cluster::{Durability, Node, NodeOptions};

use crate::{Error, Remedy, Store};

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
        node.replica.machine.quota_bytes = None;
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
        self.node.replica.machine.engine.log.segment_bytes = bytes;
        self
    }

    /// Sets the memory that keys may use. Beyond it writes are refused; reads and deletions
    /// still work.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Options {
        self.node.replica.machine.engine.memory_bytes_max = bytes;
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
