//! The width of nodes.

/// Slots per node before it splits.
///
/// Wide nodes mean few levels, few cache misses and little overhead per key,
/// but more bytes to copy for the first change of a node in a batch. Narrow
/// ones are for tests, which reach deep trees with few keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fanout {
    /// Keys in a leaf; at least 4.
    pub leaf: usize,
    /// Children of an inner node; at least 4.
    pub inner: usize,
}

impl Default for Fanout {
    fn default() -> Fanout {
        Fanout {
            leaf: 128,
            inner: 128,
        }
    }
}

impl Fanout {
    /// Below this a node looks for a neighbour to merge with.
    pub(crate) fn underfull(slots_max: usize) -> usize {
        slots_max / 4
    }

    /// Slots up to which a merge may fill a node, so that the next inserts do not split it
    /// again.
    pub(crate) fn merged(slots_max: usize) -> usize {
        slots_max * 3 / 4
    }

    /// Slots that a bulk load fills.
    pub(crate) fn loaded(slots_max: usize) -> usize {
        slots_max * 95 / 100
    }
}
