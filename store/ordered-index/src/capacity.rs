//! How much room copies of vectors get, so that recycled ones serve again.

use crate::node_vec::{NodeVec, Plain};

/// Slots by which capacities of copied nodes are rounded up.
pub(crate) const SLOTS_IN_CLASS: usize = 8;

/// Capacity that a copy of `slots` slots allocates.
pub(crate) fn capacity_for(slots: usize) -> usize {
    slots.next_multiple_of(SLOTS_IN_CLASS)
}

/// Fills `copy` with `items`, in the memory that it has if this is about `capacity` wide.
pub(crate) fn refill<T: Copy + Plain>(copy: &mut NodeVec<T>, items: &[T], capacity: usize) {
    copy.clear();
    reserve_about(copy, capacity);
    copy.extend_from_slice(items);
}

/// Gives an empty vector room for `capacity` items and little more.
pub(crate) fn reserve_about<T: Plain>(empty: &mut NodeVec<T>, capacity: usize) {
    if !fits(empty.capacity(), capacity, SLOTS_IN_CLASS) {
        *empty = NodeVec::with_capacity(capacity);
    }
}

/// Whether a capacity of `has` serves for `wanted` and wastes little: an eighth and
/// `tolerated` more.
pub(crate) fn fits(has: usize, wanted: usize, tolerated: usize) -> bool {
    has >= wanted && has - wanted <= wanted / 8 + tolerated
}
