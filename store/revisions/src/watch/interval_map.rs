//! A map from intervals of keys to entries, which finds all intervals that contain a key.
//!
//! A treap ordered by (start, end) in which every node knows how far the
//! intervals below it reach:
//!
//! ```text
//!                [c, m)  reach ∞
//!               /              \
//!      [a, d)  reach k      [p, ∞)  reach ∞
//!             \
//!          [b, k)
//! ```
//!
//! A look-up leaves out subtrees that end before the key or start after it:
//! O(log n + matches). Equal intervals share a node, since thousands of
//! watchers often watch the same prefix.

use std::cmp::Ordering;

use bytes::Bytes;

/// The exclusive end of an interval; `None` if it has no end.
type Reach = Option<Bytes>;

#[derive(Debug)]
struct IntervalNode<T> {
    start: Bytes,
    end: Reach,
    /// The farthest end in this subtree.
    reach: Reach,
    /// Heap order: no child's is larger.
    priority: u64,
    entries: Vec<T>,
    left: Link<T>,
    right: Link<T>,
}

type Link<T> = Option<Box<IntervalNode<T>>>;

/// The intervals.
#[derive(Debug)]
pub(crate) struct IntervalMap<T> {
    root: Link<T>,
    /// Source of priorities: any well-mixed sequence keeps the tree shallow.
    mixer: u64,
}

impl<T> Default for IntervalMap<T> {
    fn default() -> Self {
        IntervalMap {
            root: None,
            mixer: 0,
        }
    }
}

impl<T> IntervalMap<T> {
    /// Adds an entry to `[start, end)`.
    pub fn insert(&mut self, start: Bytes, end: Reach, entry: T) {
        self.mixer = self.mixer.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let priority = mix(self.mixer);
        self.root = Some(insert(self.root.take(), start, end, priority, entry));
    }

    /// Removes the entries of `[start, end)` that match.
    pub fn remove(&mut self, start: &[u8], end: Option<&[u8]>, matches: impl Fn(&T) -> bool) {
        self.root = remove(self.root.take(), start, end, &matches);
    }

    /// Visits the entries of all intervals that contain the key.
    pub fn visit(&self, key: &[u8], visit: &mut impl FnMut(&T)) {
        look(&self.root, key, visit);
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An open end is the farthest.
fn compare_ends(a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.cmp(b),
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
    }
}

impl<T> IntervalNode<T> {
    fn order(&self, start: &[u8], end: Option<&[u8]>) -> Ordering {
        start
            .cmp(&self.start)
            .then_with(|| compare_ends(end, self.end.as_deref()))
    }

    /// Recomputes the reach after a change below.
    fn update_reach(mut self: Box<Self>) -> Box<Self> {
        let mut reach = self.end.clone();
        for child in [&self.left, &self.right].into_iter().flatten() {
            if compare_ends(child.reach.as_deref(), reach.as_deref()).is_gt() {
                reach = child.reach.clone();
            }
        }
        self.reach = reach;
        self
    }
}

fn insert<T>(
    link: Link<T>,
    start: Bytes,
    end: Reach,
    priority: u64,
    entry: T,
) -> Box<IntervalNode<T>> {
    let Some(mut node) = link else {
        let reach = end.clone();
        let entries = vec![entry];
        return Box::new(IntervalNode {
            start,
            end,
            reach,
            priority,
            entries,
            left: None,
            right: None,
        });
    };
    match node.order(&start, end.as_deref()) {
        Ordering::Equal => {
            node.entries.push(entry);
            node
        }
        Ordering::Less => {
            node.left = Some(insert(node.left.take(), start, end, priority, entry));
            lift_left(node)
        }
        Ordering::Greater => {
            node.right = Some(insert(node.right.take(), start, end, priority, entry));
            lift_right(node)
        }
    }
}

/// Rotates the left child up if heap order wants it.
fn lift_left<T>(mut node: Box<IntervalNode<T>>) -> Box<IntervalNode<T>> {
    let mut left = node.left.take().expect("just inserted there");
    if left.priority <= node.priority {
        node.left = Some(left);
        return node.update_reach();
    }
    node.left = left.right.take();
    left.right = Some(node.update_reach());
    left.update_reach()
}

/// Rotates the right child up if heap order wants it.
fn lift_right<T>(mut node: Box<IntervalNode<T>>) -> Box<IntervalNode<T>> {
    let mut right = node.right.take().expect("just inserted there");
    if right.priority <= node.priority {
        node.right = Some(right);
        return node.update_reach();
    }
    node.right = right.left.take();
    right.left = Some(node.update_reach());
    right.update_reach()
}

fn remove<T>(
    link: Link<T>,
    start: &[u8],
    end: Option<&[u8]>,
    matches: &impl Fn(&T) -> bool,
) -> Link<T> {
    let mut node = link?;
    match node.order(start, end) {
        Ordering::Less => node.left = remove(node.left.take(), start, end, matches),
        Ordering::Greater => node.right = remove(node.right.take(), start, end, matches),
        Ordering::Equal => {
            assert!(
                !node.entries.is_empty(),
                "an interval without entries is removed"
            );
            node.entries.retain(|entry| !matches(entry));
            if node.entries.is_empty() {
                return join(node.left.take(), node.right.take());
            }
        }
    }
    Some(node.update_reach())
}

/// One tree of two, everything in `left` before everything in `right`.
fn join<T>(left: Link<T>, right: Link<T>) -> Link<T> {
    match (left, right) {
        (None, only) | (only, None) => only,
        (Some(mut left), Some(right)) if left.priority >= right.priority => {
            left.right = join(left.right.take(), Some(right));
            Some(left.update_reach())
        }
        (left, Some(mut right)) => {
            right.left = join(left, right.left.take());
            Some(right.update_reach())
        }
    }
}

fn look<T>(link: &Link<T>, key: &[u8], visit: &mut impl FnMut(&T)) {
    let Some(node) = link else { return };
    if node.reach.as_deref().is_some_and(|reach| reach <= key) {
        return;
    }
    look(&node.left, key, visit);
    if &node.start[..] > key {
        return;
    }
    if node.end.as_deref().is_none_or(|end| key < end) {
        node.entries.iter().for_each(&mut *visit);
    }
    look(&node.right, key, visit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use environment::randomness::Random;

    type Interval = (Vec<u8>, Option<Vec<u8>>, u32);

    fn key(random: &mut Random) -> Vec<u8> {
        (0..1 + random.below(2))
            .map(|_| b'a' + random.below(5) as u8)
            .collect()
    }

    fn found(map: &IntervalMap<u32>, key: &[u8]) -> Vec<u32> {
        let mut found = Vec::new();
        map.visit(key, &mut |&entry| found.push(entry));
        found.sort_unstable();
        found
    }

    fn expected(intervals: &[Interval], key: &[u8]) -> Vec<u32> {
        let contains = |(start, end, _): &&Interval| {
            &start[..] <= key && end.as_ref().is_none_or(|end| key < &end[..])
        };
        let mut ids: Vec<u32> = intervals
            .iter()
            .filter(contains)
            .map(|each| each.2)
            .collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn it_finds_what_a_list_finds_while_intervals_come_and_go() {
        let mut random = Random::from_seed(5);
        let mut map = IntervalMap::default();
        let mut list: Vec<Interval> = Vec::new();
        for id in 0..3_000 {
            if list.len() > 60 || (random.chance(1, 3) && !list.is_empty()) {
                let (start, end, gone) = list.swap_remove(random.below(list.len() as u64) as usize);
                map.remove(&start, end.as_deref(), |&entry| entry == gone);
            } else {
                let (start, end) = (
                    key(&mut random),
                    random.chance(3, 4).then(|| key(&mut random)),
                );
                map.insert(start.clone().into(), end.clone().map(Bytes::from), id);
                list.push((start, end, id));
            }
            let probe = key(&mut random);
            assert_eq!(
                found(&map, &probe),
                expected(&list, &probe),
                "step {id}, key {probe:?}"
            );
        }
    }

    #[test]
    fn a_removed_interval_leaves_its_equals() {
        let mut map = IntervalMap::default();
        for id in 0..3 {
            map.insert(Bytes::from_static(b"a"), None, id);
        }
        map.remove(b"a", None, |&entry| entry == 1);
        assert_eq!(found(&map, b"z"), [0, 2]);
    }
}
