//! The point at which a member acknowledges a write.

use std::time::Duration;

use crate::{Flushing, NodeOptions};

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
    /// Sets the options of a node that acknowledges at this point.
    pub fn apply_to(self, node: &mut NodeOptions) {
        let (durability, flushing) = match self {
            Durability::Durable => (engine::Durability::Durable, None),
            Durability::MajorityMemory {
                entries_max,
                interval,
            } => {
                let flushing = Flushing {
                    entries_max,
                    interval,
                };
                (engine::Durability::Os, Some(flushing))
            }
            Durability::Os => (engine::Durability::Os, None),
        };
        node.replica.machine.engine.log.set_durability(durability);
        node.flushing = flushing;
    }
}
