//! Vectors and boxes of nodes, with their items in the heap of nodes (`heap.rs`).
//!
//! A vector has 32-bit lengths, which nodes never exceed, and takes 16 bytes itself where one of
//! the standard library takes 24. It copies items as bytes, so they must be plain data.

use crate::heap;
use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// Items that may be moved as bytes and need no drop.
///
/// # Safety
/// The type has no drop, and its size is not 0.
pub(crate) unsafe trait Plain: Sized {}
// SAFETY: an integer.
unsafe impl Plain for u8 {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}

/// A growable array.
///
/// Invariant: `items` points to a block of `capacity` items of the heap, of which the first `len`
/// are initialized; without capacity it points nowhere.
pub(crate) struct NodeVec<T: Plain> {
    items: NonNull<T>,
    len: u32,
    capacity: u32,
}

// SAFETY: it owns its items, as a vector of the standard library does.
unsafe impl<T: Plain + Send> Send for NodeVec<T> {}
// SAFETY: as above.
unsafe impl<T: Plain + Sync> Sync for NodeVec<T> {}

impl<T: Plain> NodeVec<T> {
    pub(crate) const fn new() -> NodeVec<T> {
        NodeVec {
            items: NonNull::dangling(),
            len: 0,
            capacity: 0,
        }
    }

    /// An empty one with room for exactly this number of items.
    pub(crate) fn with_capacity(capacity: usize) -> NodeVec<T> {
        let mut empty = NodeVec::new();
        empty.set_capacity(capacity);
        empty
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    fn layout(capacity: usize) -> Layout {
        let layout = Layout::array::<T>(capacity).expect("a node of gibibytes");
        assert!(u32::try_from(capacity).is_ok(), "a node of gibibytes");
        layout
    }

    /// Makes the block one of `capacity` items, not below `len`.
    fn set_capacity(&mut self, capacity: usize) {
        assert!(capacity >= self.len(), "room for the items");
        let (old, new) = (Self::layout(self.capacity()), Self::layout(capacity));
        self.items = match (self.capacity, capacity) {
            (0, 0) => return,
            // SAFETY: the layout has bytes, because an item and the number have some.
            (0, _) => unsafe { heap::allocate(new) }.cast(),
            (_, 0) => {
                // SAFETY: the invariant, and it points nowhere from now on.
                unsafe { heap::free(self.items.cast(), old) };
                NonNull::dangling()
            }
            // SAFETY: the invariant; the size is that of a layout.
            _ => unsafe { heap::resize(self.items.cast(), old, new.size()) }.cast(),
        };
        self.capacity = capacity as u32;
    }

    /// Room for at least `more` items behind those that there are, and no more than that.
    pub(crate) fn reserve_exact(&mut self, more: usize) {
        if self.capacity() - self.len() < more {
            self.set_capacity(self.len() + more);
        }
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        if self.capacity() > self.len() {
            self.set_capacity(self.len());
        }
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(u32::try_from(len).unwrap_or(u32::MAX));
    }

    pub(crate) fn push(&mut self, item: T) {
        self.insert(self.len(), item);
    }

    pub(crate) fn insert(&mut self, at: usize, item: T) {
        let len = self.len();
        assert!(at <= len, "item {at} of {len}");
        self.reserve_exact(1);
        // SAFETY: there is room for one more, and `at` is not behind the last item.
        unsafe {
            let place = self.items.add(at);
            place.copy_to(place.add(1), len - at);
            place.write(item);
        }
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, at: usize) -> T {
        let len = self.len();
        assert!(at < len, "item {at} of {len}");
        self.len -= 1;
        // SAFETY: the item is initialized, and the others close the gap, so it is there once.
        unsafe {
            let place = self.items.add(at);
            let removed = place.read();
            place.copy_from(place.add(1), len - at - 1);
            removed
        }
    }

    /// Adds bytewise copies of these items: of links, second ones to the same nodes.
    ///
    /// # Safety
    /// The items may be there twice, as `Copy` ones may.
    pub(crate) unsafe fn extend_with_copies(&mut self, items: &[T]) {
        self.reserve_exact(items.len());
        // SAFETY: there is room behind the last item, in a block that `items` is no part of.
        unsafe {
            let behind = self.items.add(self.len());
            behind.copy_from_nonoverlapping(NonNull::from(items).cast(), items.len());
        }
        self.len += items.len() as u32;
    }

    /// Moves all items of `other` behind those that there are.
    pub(crate) fn append(&mut self, mut other: NodeVec<T>) {
        // SAFETY: `other` forgets them.
        unsafe { self.extend_with_copies(&other) };
        other.clear();
    }

    /// Takes off the items from `at` on.
    pub(crate) fn split_off(&mut self, at: usize) -> NodeVec<T> {
        let mut upper = NodeVec::new();
        // SAFETY: this one forgets them.
        unsafe { upper.extend_with_copies(&self[at..]) };
        self.truncate(at);
        upper
    }
}

impl<T: Plain + Copy> NodeVec<T> {
    pub(crate) fn extend_from_slice(&mut self, items: &[T]) {
        // SAFETY: they are `Copy`.
        unsafe { self.extend_with_copies(items) };
    }
}

impl NodeVec<u8> {
    /// Adds zeros up to a length.
    pub(crate) fn fill_to(&mut self, len: usize) {
        let more = len.saturating_sub(self.len());
        self.reserve_exact(more);
        // SAFETY: there is room for them behind the last one.
        unsafe { self.items.add(self.len()).write_bytes(0, more) };
        self.len += more as u32;
    }
}

impl<T: Plain> Drop for NodeVec<T> {
    fn drop(&mut self) {
        self.clear();
        self.set_capacity(0);
    }
}

impl<T: Plain> Default for NodeVec<T> {
    fn default() -> Self {
        NodeVec::new()
    }
}

impl<T: Plain> Deref for NodeVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the invariant.
        unsafe { slice::from_raw_parts(self.items.as_ptr(), self.len as usize) }
    }
}

impl<T: Plain> DerefMut for NodeVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the invariant.
        unsafe { slice::from_raw_parts_mut(self.items.as_ptr(), self.len as usize) }
    }
}

impl<T: Plain + fmt::Debug> fmt::Debug for NodeVec<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(out)
    }
}

impl<T: Plain> IntoIterator for NodeVec<T> {
    type Item = T;
    type IntoIter = IntoItems<T>;

    fn into_iter(self) -> IntoItems<T> {
        IntoItems {
            items: self,
            next: 0,
        }
    }
}

/// The items of a vector, one after the other.
pub(crate) struct IntoItems<T: Plain> {
    items: NodeVec<T>,
    next: usize,
}

impl<T: Plain> Iterator for IntoItems<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let item = self.items.get(self.next)?;
        self.next += 1;
        // SAFETY: each item is read once, and none is dropped.
        Some(unsafe { NonNull::from(item).read() })
    }
}

/// A value in the heap of nodes, owned.
pub(crate) struct NodeBox<T> {
    value: NonNull<T>,
    owns: PhantomData<T>,
}

// SAFETY: it owns its value.
unsafe impl<T: Send> Send for NodeBox<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for NodeBox<T> {}

impl<T> NodeBox<T> {
    pub(crate) fn new(value: T) -> NodeBox<T> {
        const { assert!(size_of::<T>() > 0) };
        // SAFETY: the layout has bytes, and the block is one for a value.
        unsafe {
            let block = heap::allocate(Layout::new::<T>()).cast();
            block.write(value);
            NodeBox::from_pointer(block)
        }
    }

    /// Gives the value up; [`NodeBox::from_pointer`] takes it back.
    pub(crate) fn into_pointer(self) -> NonNull<T> {
        ManuallyDrop::new(self).value
    }

    /// # Safety
    /// The pointer came from [`NodeBox::into_pointer`], and no other use of it follows.
    pub(crate) unsafe fn from_pointer(value: NonNull<T>) -> NodeBox<T> {
        NodeBox {
            value,
            owns: PhantomData,
        }
    }

    /// The value, out of the heap.
    pub(crate) fn into_value(self) -> T {
        let block = self.into_pointer();
        // SAFETY: the value is read once, and its block is of this layout.
        unsafe {
            let value = block.read();
            heap::free(block.cast(), Layout::new::<T>());
            value
        }
    }
}

impl<T> Drop for NodeBox<T> {
    fn drop(&mut self) {
        // SAFETY: it owns the value, and the block is of this layout.
        unsafe {
            self.value.drop_in_place();
            heap::free(self.value.cast(), Layout::new::<T>());
        }
    }
}

impl<T> Deref for NodeBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: it owns the value.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for NodeBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: it owns the value.
        unsafe { self.value.as_mut() }
    }
}

impl<T: fmt::Debug> fmt::Debug for NodeBox<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use environment::randomness::Random;

    #[test]
    fn a_vector_under_random_changes_equals_one_of_the_standard_library() {
        let (seeds, steps) = if cfg!(miri) { (3, 60) } else { (200, 300) };
        for seed in 0..seeds {
            let mut random = Random::from_seed(seed);
            let (mut vector, mut model) = (NodeVec::<u64>::new(), Vec::new());
            for item in 0..steps {
                let at = random.below(model.len() as u64 + 1) as usize;
                match random.below(10) {
                    0 if at < model.len() => assert_eq!(vector.remove(at), model.remove(at)),
                    1 => {
                        let (upper, other) = (vector.split_off(at), model.split_off(at));
                        assert_eq!(upper[..], other[..]);
                        vector = appended(upper, vector);
                        model = [other, model].concat();
                    }
                    2 => vector.shrink_to_fit(),
                    3 => {
                        vector.reserve_exact(at);
                        assert!(vector.capacity() >= model.len() + at);
                    }
                    4 if random.chance(1, 9) => {
                        vector.truncate(at);
                        model.truncate(at);
                    }
                    5 => {
                        vector.extend_from_slice(&[item, item + 1]);
                        model.extend([item, item + 1]);
                    }
                    6 => {
                        let all: Vec<u64> = vector_of(&vector).into_iter().collect();
                        assert_eq!(all, model);
                    }
                    _ => {
                        vector.insert(at, item);
                        model.insert(at, item);
                    }
                }
                assert_eq!(vector[..], model[..]);
            }
        }
    }

    fn vector_of<T: Plain + Copy>(items: &[T]) -> NodeVec<T> {
        let mut vector = NodeVec::new();
        vector.extend_from_slice(items);
        vector
    }

    fn appended(mut lower: NodeVec<u64>, upper: NodeVec<u64>) -> NodeVec<u64> {
        lower.append(upper);
        lower
    }

    #[test]
    fn zeros_fill_a_vector_up_to_a_length() {
        let mut bytes = vector_of(&[1_u8, 2]);
        bytes.fill_to(5);
        assert_eq!(bytes[..], [1, 2, 0, 0, 0]);
        bytes.fill_to(1);
        assert_eq!(bytes.len(), 5);
    }

    #[test]
    fn a_box_drops_its_value_once() {
        let value = std::sync::Arc::new(7);
        let boxed = NodeBox::new(value.clone());
        drop(boxed);
        let pointer = NodeBox::new(value.clone()).into_pointer();
        // SAFETY: it came from there.
        drop(unsafe { NodeBox::from_pointer(pointer) });
        assert_eq!(*NodeBox::new(value.clone()).into_value(), 7);
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
    }

    #[test]
    #[should_panic(expected = "item 1 of 1")]
    fn an_item_behind_the_last_is_refused() {
        vector_of(&[1_u64]).remove(1);
    }

    #[test]
    #[should_panic(expected = "a node of gibibytes")]
    fn more_items_than_a_node_has_are_refused() {
        NodeVec::<u8>::with_capacity(1 << 33);
    }
}
