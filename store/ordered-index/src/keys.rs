//! The sorted keys of one node, without their common prefix.
//!
//! ```text
//!   /registry/pods/blue/web-1      prefix  "/registry/pods/"   once per node
//!   /registry/pods/blue/web-2      heads   "blue/web" "blue/web" "green/db"
//!   /registry/pods/green/db                8 bytes, big-endian: one integer compare
//!                                  tails   "-1" "-2" (none)    behind pointers
//! ```
//!
//! Heads and pointers are rows of numbers (`rows`), which store what they share once.
//! A search compares integers and looks at a tail only where heads are equal.
//! New tails are appended wherever there is room, so an insert moves a row of at most
//! 12 bytes per later key and no tail; a removal leaves a hole, which the next rebuild closes.
//!
//! Trade-off: a key that does not share the prefix forces a rebuild of the
//! node. It happens when a node's range widens, which is rare and costs about
//! what the copy of a node costs.
//!
//! Invariant: keys ascend strictly; every key begins with the prefix; a head
//! is the first eight bytes after the prefix, padded with zeros; order is
//! (head, tail, length), which equals byte order of the whole keys.

mod key_run;
mod tail_pointer;

use crate::capacity::{SLOTS_IN_CLASS, fits, refill};
use crate::node_vec::{NodeVec, Plain};
use crate::rows::Rows;
pub(crate) use key_run::KeyRun;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;
use tail_pointer::{Rest, TailPointer};

/// Bytes of a key that are compared as one integer.
pub(crate) const HEAD_BYTES: usize = 8;
/// Longer tails get an allocation of their own, shared by all copies of the node.
const INLINE_TAIL_BYTES_MAX: usize = 256;
/// Longest prefix: what keys share beyond it stays in their tails, so that a copy of a node
/// stays cheap.
const PREFIX_BYTES_MAX: usize = 4096;
/// Holes below this are not worth a rebuild.
const HOLE_BYTES_TOLERATED: usize = 512;
/// Room for a tail or two in a copy that expects another key.
const TAIL_ROOM_BYTES: usize = 24;
/// Capacities of copied bytes are multiples of this, so that copies can reuse each other's
/// memory.
const BYTES_STEP: usize = 16;
/// Two reference counts in front of a shared tail.
const SHARED_HEADER_BYTES: usize = 16;

/// The numbers of a key's row.
const HEAD: usize = 0;
const POINTER: usize = 1;
pub(crate) type Row = [u64; 2];

/// A run of one block's slots.
pub(crate) type Part<'a> = (&'a Keys, Range<usize>);

#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// For each key its head, the first eight bytes after the prefix, and where it goes on
    /// (the bits of a [`TailPointer`]). Heads ascend.
    rows: Rows<2>,
    /// The prefix, then length byte + tail of the keys that need one, in order of arrival.
    bytes: NodeVec<u8>,
    /// Leading part of `bytes` that all keys share.
    prefix_bytes: u32,
    /// The first bytes of the prefix as [`head_of`] gives them. Most searches see from these that
    /// a key has the prefix, and need not wait for `bytes`.
    prefix_head: u64,
    /// Bytes of removed tails; they stay in `bytes` until a rebuild.
    hole_bytes: u32,
    /// Tails too long for `bytes`, in no order.
    long: Vec<Arc<[u8]>>,
}

impl Keys {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    fn prefix(&self) -> &[u8] {
        &self.bytes[..self.prefix_bytes()]
    }

    fn prefix_bytes(&self) -> usize {
        self.prefix_bytes as usize
    }

    #[inline]
    fn head(&self, slot: usize) -> u64 {
        self.rows.number(slot, HEAD)
    }

    #[inline]
    fn pointer(&self, slot: usize) -> TailPointer {
        TailPointer::from_bits(self.rows.number(slot, POINTER))
    }

    /// The slot of `key`, or the slot where it belongs.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let Some(suffix) = self.suffix_of(key) else {
            return Err(if key < self.prefix() { 0 } else { self.len() });
        };
        let head = head_of(suffix);
        let low = self.rows.first_not_below(head);
        let equal = (low..self.len()).take_while(|&slot| self.head(slot) == head);
        let (mut from, mut to) = (low, low + equal.count());
        while from < to {
            let middle = usize::midpoint(from, to);
            match self.compare_rest(self.pointer(middle), suffix) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    /// The key behind the prefix, if it has the prefix.
    #[inline]
    fn suffix_of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let differing = head_of(key) ^ self.prefix_head;
        let bytes = self.prefix_bytes();
        let in_head = bytes.min(HEAD_BYTES);
        // All bits are shifted out where there is no prefix.
        let is_other = differing.checked_shr(8 * (HEAD_BYTES - in_head) as u32);
        if is_other.unwrap_or(0) != 0 {
            return None;
        }
        match bytes > HEAD_BYTES {
            true => key.strip_prefix(self.prefix()),
            false => key.get(bytes..),
        }
    }

    fn compare_rest(&self, pointer: TailPointer, suffix: &[u8]) -> Ordering {
        let tail = self.tail(pointer);
        tail.cmp(tail_of(suffix))
            .then_with(|| self.suffix_bytes(pointer).cmp(&suffix.len()))
    }

    #[inline]
    fn tail(&self, pointer: TailPointer) -> &[u8] {
        match pointer.rest() {
            Rest::InHead(_) => &[],
            Rest::Inline(offset) => {
                let bytes = usize::from(self.bytes[offset]) + 1;
                &self.bytes[offset + 1..offset + 1 + bytes]
            }
            Rest::Long(number) => &self.long[number],
        }
    }

    fn suffix_bytes(&self, pointer: TailPointer) -> usize {
        match pointer.rest() {
            Rest::InHead(bytes) => bytes,
            _ => HEAD_BYTES + self.tail(pointer).len(),
        }
    }

    /// Replaces the content of `out` by the whole key of `slot`.
    #[inline]
    pub(crate) fn write_key(&self, slot: usize, out: &mut Vec<u8>) {
        out.clear();
        self.add_key(slot, out);
    }

    /// Adds the whole key of `slot`.
    #[inline]
    pub(crate) fn add_key(&self, slot: usize, out: &mut Vec<u8>) {
        let [head, pointer] = self.rows.row(slot);
        let (head, pointer) = (head.to_be_bytes(), TailPointer::from_bits(pointer));
        out.extend_from_slice(self.prefix());
        match pointer.rest() {
            Rest::InHead(bytes) => out.extend_from_slice(&head[..bytes]),
            _ => {
                out.extend_from_slice(&head);
                out.extend_from_slice(self.tail(pointer));
            }
        }
    }

    pub(crate) fn key(&self, slot: usize) -> Vec<u8> {
        let mut key = Vec::new();
        self.write_key(slot, &mut key);
        key
    }

    /// Puts `key` at `slot`, which `search` has named.
    pub(crate) fn insert(&mut self, slot: usize, key: &[u8]) {
        self.insert_under_prefix(slot, key);
        // A block that began with few keys may have a longer common prefix by now.
        if self.len().is_power_of_two() && self.shares_head() {
            *self = Keys::gather(&[(self, 0..self.len())]);
        }
    }

    /// Inserts without making the prefix longer.
    fn insert_under_prefix(&mut self, slot: usize, key: &[u8]) {
        if !key.starts_with(self.prefix()) {
            let prefix = common(self.prefix(), key).to_vec();
            *self = Keys::gather_under(&prefix, &[(self, 0..self.len())]);
        }
        assert!(
            key.starts_with(self.prefix()),
            "{key:?} does not begin with the prefix"
        );
        let row = self.store_key(key);
        self.rows.insert(slot, &row);
    }

    /// Stores the tail of a key with the prefix; returns the key's row. A call would return it in
    /// memory, in two halves, and a loop over keys would wait for both before it reads them as one.
    #[inline(always)]
    fn store_key(&mut self, key: &[u8]) -> Row {
        let suffix = &key[self.prefix_bytes()..];
        let rest = match tail_of(suffix) {
            [] => Rest::InHead(suffix.len()),
            tail => self.store_tail(tail),
        };
        [head_of(suffix), TailPointer::new(rest).to_bits()]
    }

    /// Whether all heads are equal, so that every search would look at tails.
    fn shares_head(&self) -> bool {
        let could_grow = self.prefix_bytes() + HEAD_BYTES <= PREFIX_BYTES_MAX;
        could_grow && self.len() > 1 && self.head(0) == self.head(self.len() - 1)
    }

    pub(crate) fn push(&mut self, key: &[u8]) {
        self.insert(self.len(), key);
    }

    /// Not inlined, so that loops over short keys stay small.
    #[inline(never)]
    fn store_tail(&mut self, tail: &[u8]) -> Rest {
        match tail.len() {
            1..=INLINE_TAIL_BYTES_MAX => self.store_inline(tail),
            _ => self.store_long(tail.into()),
        }
    }

    fn store_inline(&mut self, tail: &[u8]) -> Rest {
        let offset = self.bytes.len();
        let need = 1 + tail.len();
        if self.bytes.capacity() - offset < need {
            self.bytes.reserve_exact(need.max(offset / 16 + need));
        }
        self.bytes.push((tail.len() - 1) as u8);
        self.bytes.extend_from_slice(tail);
        Rest::Inline(offset)
    }

    fn store_long(&mut self, tail: Arc<[u8]>) -> Rest {
        self.long.reserve_exact(1);
        self.long.push(tail);
        Rest::Long(self.long.len() - 1)
    }

    pub(crate) fn remove(&mut self, slot: usize) {
        let [_, pointer] = self.rows.remove(slot);
        match TailPointer::from_bits(pointer).rest() {
            Rest::InHead(_) => {}
            Rest::Inline(offset) => self.hole_bytes += 2 + u32::from(self.bytes[offset]),
            Rest::Long(number) => self.remove_long(number),
        }
        if self.hole_bytes as usize > HOLE_BYTES_TOLERATED.max(self.bytes.len() / 2) {
            *self = Keys::gather_under(self.prefix(), &[(self, 0..self.len())]);
        }
    }

    /// The last long tail moves to the freed number; its one pointer must follow.
    fn remove_long(&mut self, number: usize) {
        self.long.swap_remove(number);
        let moved = Rest::Long(self.long.len());
        let slot = (0..self.len()).find(|&slot| self.pointer(slot).rest() == moved);
        if let Some(slot) = slot {
            let pointer = TailPointer::new(Rest::Long(number));
            self.rows.set(slot, &[self.head(slot), pointer.to_bits()]);
        }
    }

    /// A tight block of all keys of `parts`, in order, under their own common prefix.
    pub(crate) fn gather(parts: &[Part<'_>]) -> Keys {
        Keys::gather_under(&prefix_of(parts), parts)
    }

    fn gather_under(prefix: &[u8], parts: &[Part<'_>]) -> Keys {
        let slots = parts.iter().map(|(_, slots)| slots.len()).sum();
        let tails: usize = parts
            .iter()
            .map(|part| inline_bytes(part, prefix.len()))
            .sum();
        let mut gathered = Keys::with_room(prefix, tails);
        let (mut rows, mut key) = (Vec::with_capacity(slots), Vec::new());
        for (keys, slots) in parts {
            let of_part = slots.clone();
            rows.extend(of_part.map(|slot| gathered.store_from(keys, slot, &mut key)));
        }
        gathered.rows = Rows::of(rows.iter().copied(), slots);
        assert_eq!(gathered.len(), slots, "keys were lost in a rebuild");
        gathered
    }

    /// A block of the keys of a run, with room for `capacity` of them. The content of `rows` is
    /// replaced; its memory serves for one block after another.
    pub(crate) fn of_run(run: &KeyRun, capacity: usize, rows: &mut Vec<Row>) -> Keys {
        let prefix = run.prefix();
        let tail_bytes = |key: &[u8]| key.len().saturating_sub(prefix.len() + HEAD_BYTES);
        let tails: usize = run.long().map(|key| inline_room(tail_bytes(key))).sum();
        let room = bytes_for_growth(prefix.len() + tails, prefix.len());
        let mut packed = Keys::with_room(prefix, room - prefix.len());
        rows.clear();
        rows.extend(run.short().iter().map(|key| {
            let (head, bytes) = key.behind(prefix.len());
            [head, TailPointer::new(Rest::InHead(bytes)).to_bits()]
        }));
        rows.extend(run.long().map(|key| packed.store_key(key)));
        packed.rows = Rows::of(rows.iter().copied(), capacity);
        packed
    }

    /// An empty block with exactly the room for `tails` bytes of inline tails.
    fn with_room(prefix: &[u8], tails: usize) -> Keys {
        let mut bytes = NodeVec::with_capacity(prefix.len() + tails);
        bytes.extend_from_slice(prefix);
        Keys {
            bytes,
            prefix_bytes: prefix.len() as u32,
            prefix_head: head_of(prefix),
            ..Keys::default()
        }
    }

    /// Stores the tail of another block's key, which begins with this one's prefix; returns the
    /// key's row. Under an equal prefix a key keeps its head, and a long tail is shared, not
    /// copied.
    fn store_from(&mut self, other: &Keys, slot: usize, key: &mut Vec<u8>) -> Row {
        if other.prefix_bytes != self.prefix_bytes {
            other.write_key(slot, key);
            return self.store_key(key);
        }
        let pointer = other.pointer(slot);
        let rest = match pointer.rest() {
            Rest::InHead(bytes) => Rest::InHead(bytes),
            Rest::Inline(_) => self.store_inline(other.tail(pointer)),
            Rest::Long(number) => self.store_long(Arc::clone(&other.long[number])),
        };
        [other.head(slot), TailPointer::new(rest).to_bits()]
    }

    /// Replaces the content of `copy` by this one's, with room for about `capacity` keys.
    pub(crate) fn copy_to(&self, copy: &mut Keys, capacity: usize) {
        self.rows.copy_to(&mut copy.rows, capacity);
        refill(&mut copy.bytes, &self.bytes, self.bytes_wanted(capacity));
        copy.prefix_bytes = self.prefix_bytes;
        copy.prefix_head = self.prefix_head;
        copy.hole_bytes = self.hole_bytes;
        if self.has_long() || copy.has_long() {
            copy.long.clone_from(&self.long);
        }
    }

    /// Bytes that a copy with `capacity` slots reserves.
    fn bytes_wanted(&self, capacity: usize) -> usize {
        let bytes = self.bytes.len();
        match capacity > self.len() {
            true => bytes_for_growth(bytes, self.prefix_bytes()),
            false => bytes.next_multiple_of(BYTES_STEP),
        }
    }

    /// Whether a copy with room for about `capacity` keys fits into the memory of `old`.
    pub(crate) fn fits_into(&self, old: &Keys, capacity: usize) -> bool {
        let bytes = (old.bytes.capacity(), self.bytes_wanted(capacity));
        self.rows.fits_into(&old.rows, capacity) && fits(bytes.0, bytes.1, SLOTS_IN_CLASS)
    }

    /// Whether a tail has an allocation of its own.
    pub(crate) fn has_long(&self) -> bool {
        !self.long.is_empty()
    }

    /// The shortest key that separates `slot` from the slot before it.
    pub(crate) fn separator_before(&self, slot: usize) -> Vec<u8> {
        separator(&self.key(slot - 1), &self.key(slot))
    }

    /// Bytes on the heap, spare capacity and long tails included.
    pub(crate) fn heap_bytes(&self) -> usize {
        let long: usize = self
            .long
            .iter()
            .map(|tail| tail.len() + SHARED_HEADER_BYTES)
            .sum();
        self.rows.heap_bytes()
            + self.bytes.capacity()
            + self.long.capacity() * size_of::<Arc<[u8]>>()
            + long
    }
}

/// The shortest key greater than `left` and not greater than `right`.
pub(crate) fn separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    assert!(left < right, "no key separates {left:?} from {right:?}");
    right[..common(left, right).len() + 1].to_vec()
}

/// Adds capacity in small steps: doubling would leave a third of all memory unused.
pub(crate) fn make_room<T: Plain>(items: &mut NodeVec<T>) {
    if items.len() == items.capacity() {
        items.reserve_exact((items.len() / 16).max(4));
    }
}

/// The first eight bytes as a number of the same order, with zeros behind a shorter suffix.
#[inline]
fn head_of(suffix: &[u8]) -> u64 {
    if let Some(chunk) = suffix.first_chunk::<HEAD_BYTES>() {
        return u64::from_be_bytes(*chunk);
    }
    // A copy of a length that the compiler does not know would be a call.
    let bytes = suffix.len();
    if let (Some(first), Some(last)) = (suffix.first_chunk::<4>(), suffix.last_chunk::<4>()) {
        // Where the two overlap, they have the same bits.
        let [first, last] = [first, last].map(|part| u64::from(u32::from_be_bytes(*part)));
        return first << 32 | last << (64 - 8 * bytes);
    }
    let at = |place: usize| u64::from(suffix[place]) << (56 - 8 * place);
    match bytes {
        0 => 0,
        _ => at(0) | at(bytes / 2) | at(bytes - 1),
    }
}

#[inline]
fn tail_of(suffix: &[u8]) -> &[u8] {
    suffix.get(HEAD_BYTES..).unwrap_or_default()
}

fn common<'a>(left: &'a [u8], right: &[u8]) -> &'a [u8] {
    let bytes = left
        .iter()
        .zip(right)
        .take_while(|(left, right)| left == right)
        .count();
    &left[..bytes]
}

/// Room for `bytes`, of which some are the prefix, where another key is expected. If there are
/// tails, it has one, too.
fn bytes_for_growth(bytes: usize, prefix_bytes: usize) -> usize {
    let room = if bytes > prefix_bytes {
        TAIL_ROOM_BYTES
    } else {
        0
    };
    (bytes + room).next_multiple_of(BYTES_STEP)
}

/// Room that a part's inline tails need under a prefix of `prefix_bytes`.
fn inline_bytes((keys, slots): &Part<'_>, prefix_bytes: usize) -> usize {
    let tail_bytes = |slot| {
        let suffix_bytes = keys.suffix_bytes(keys.pointer(slot));
        (keys.prefix_bytes() + suffix_bytes).saturating_sub(prefix_bytes + HEAD_BYTES)
    };
    slots.clone().map(tail_bytes).map(inline_room).sum()
}

/// Room that a tail takes in the bytes of a block: a length byte and itself, if it is inline.
fn inline_room(tail_bytes: usize) -> usize {
    match tail_bytes {
        1..=INLINE_TAIL_BYTES_MAX => 1 + tail_bytes,
        _ => 0,
    }
}

/// The common prefix of all keys of `parts`. One key alone keeps the prefix it had: the
/// neighbours it will get rarely share more with it than its old ones.
fn prefix_of(parts: &[Part<'_>]) -> Vec<u8> {
    let mut filled = parts.iter().filter(|(_, slots)| !slots.is_empty());
    let Some(opening @ (first, first_slots)) = filled.next() else {
        return Vec::new();
    };
    let (last, last_slots) = filled.next_back().unwrap_or(opening);
    if parts.iter().map(|(_, slots)| slots.len()).sum::<usize>() == 1 {
        return first.prefix().to_vec();
    }
    let key = first.key(first_slots.start);
    let shared = common(&key, &last.key(last_slots.end - 1));
    shared[..shared.len().min(PREFIX_BYTES_MAX)].to_vec()
}

#[cfg(test)]
mod tests;
