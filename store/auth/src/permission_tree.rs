//! The shape of the tree in which etcd keeps a user's permissions.
//!
//! A range that ends before it begins reads nothing. etcd permits it if a walk through a
//! red-black tree finds a permission that has its key, and the walk leaves out all that lies below a
//! permission which is behind the key's other side:
//!
//! ```text
//!   range     end ········ key
//!   node             [ )              begins at or behind the end, and ends at or before the key:
//!                                     nothing below it is looked at
//! ```
//!
//! So the answer depends on the tree's shape. Answers equal to etcd's need the same shape: the same
//! insertions in the same order, into the tree of Cormen, Leiserson, Rivest and Stein. It is built
//! only if such a range is asked for.

use std::cmp::Ordering;

use crate::interval::Interval;

/// No node.
const NONE: usize = usize::MAX;
const LEFT: usize = 0;
const RIGHT: usize = 1;

/// Permissions of one kind of access.
#[derive(Debug)]
pub(crate) struct PermissionTree {
    nodes: Vec<Node>,
    root: usize,
}

#[derive(Debug)]
struct Node {
    interval: Interval,
    is_red: bool,
    parent: usize,
    children: [usize; 2],
}

impl PermissionTree {
    /// Inserts the intervals in their order.
    pub fn of(intervals: impl Iterator<Item = Interval>) -> PermissionTree {
        let mut tree = PermissionTree {
            nodes: Vec::new(),
            root: NONE,
        };
        intervals.for_each(|interval| tree.insert(interval));
        tree
    }

    /// Whether etcd permits a range from a key to an end that is less.
    pub fn permits_reversed(&self, key: &[u8], end: &[u8]) -> bool {
        let mut places = vec![self.root];
        while let Some(place) = places.pop() {
            let Some(node) = self.nodes.get(place) else {
                continue;
            };
            let [left, right] = node.children;
            if node.interval.begins_after(key) {
                places.push(left);
            } else if node.interval.ends_after(key) {
                return true;
            } else if !node.interval.begins_from(end) {
                places.extend([left, right]);
            }
        }
        false
    }

    fn insert(&mut self, interval: Interval) {
        let (mut parent, mut side, mut place) = (NONE, LEFT, self.root);
        while let Some(node) = self.nodes.get(place) {
            side = match interval.compare(&node.interval) {
                Ordering::Less => LEFT,
                Ordering::Equal | Ordering::Greater => RIGHT,
            };
            (parent, place) = (place, node.children[side]);
        }
        let place = self.nodes.len();
        self.nodes.push(Node {
            interval,
            is_red: true,
            parent,
            children: [NONE; 2],
        });
        match self.nodes.get_mut(parent) {
            Some(parent) => parent.children[side] = place,
            None => self.root = place,
        }
        self.balance(place);
    }

    /// Restores the rule that a red node has a black parent.
    fn balance(&mut self, mut place: usize) {
        while self.is_red(self.parent(place)) {
            let parent = self.parent(place);
            // The root is black, so a red node has a parent.
            let grandparent = self.parent(parent);
            let side = self.side(parent);
            let uncle = self.nodes[grandparent].children[1 - side];
            if self.is_red(uncle) {
                for (place, is_red) in [(parent, false), (uncle, false), (grandparent, true)] {
                    self.nodes[place].is_red = is_red;
                }
                place = grandparent;
                continue;
            }
            if self.side(place) != side {
                place = parent;
                self.rotate(place, side);
            }
            let parent = self.parent(place);
            self.nodes[parent].is_red = false;
            self.nodes[grandparent].is_red = true;
            self.rotate(grandparent, 1 - side);
        }
        let root = self.root;
        self.nodes[root].is_red = false;
    }

    /// Moves a node down to `side`; the child of its other side takes its place.
    fn rotate(&mut self, down: usize, side: usize) {
        let up = self.nodes[down].children[1 - side];
        let middle = self.nodes[up].children[side];
        let above = self.parent(down);
        match above {
            NONE => self.root = up,
            above => {
                let side = self.side(down);
                self.nodes[above].children[side] = up;
            }
        }
        self.nodes[up].parent = above;
        self.nodes[up].children[side] = down;
        self.nodes[down].parent = up;
        self.nodes[down].children[1 - side] = middle;
        if let Some(middle) = self.nodes.get_mut(middle) {
            middle.parent = down;
        }
    }

    fn is_red(&self, place: usize) -> bool {
        self.nodes.get(place).is_some_and(|node| node.is_red)
    }

    fn parent(&self, place: usize) -> usize {
        self.nodes[place].parent
    }

    /// The side of its parent on which a node is.
    fn side(&self, place: usize) -> usize {
        let parent = self.parent(place);
        usize::from(self.nodes[parent].children[RIGHT] == place)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn tree(list: &[(&'static str, &'static str)]) -> PermissionTree {
        PermissionTree::of(list.iter().map(|(key, end)| {
            let (key, end) = (
                Bytes::from_static(key.as_bytes()),
                Bytes::from_static(end.as_bytes()),
            );
            Interval::of_permission(&key, &end)
        }))
    }

    fn permits(tree: &PermissionTree, key: &str, end: &str) -> bool {
        tree.permits_reversed(key.as_bytes(), end.as_bytes())
    }

    #[test]
    fn a_reversed_range_is_permitted_where_its_key_is_found() {
        let one = tree(&[("a", "m")]);
        assert!(permits(&one, "c", "b"));
        assert!(!permits(&one, "m", "b"));
        assert!(!permits(&tree(&[]), "c", "b"));
    }

    /// In the first tree `b` is the root, and `k` is below it.
    #[test]
    fn a_permission_below_one_between_end_and_key_is_not_found() {
        let list = [("b", ""), ("k", "")];
        assert!(!permits(&tree(&list), "k", "a"));
        assert!(!permits(&tree(&list), "k", "b"));
        assert!(permits(&tree(&list), "k", "ba"));
        let list = [("k", ""), ("b", "")];
        assert!(permits(&tree(&list), "k", "a"), "the order matters");
        let list = [("b", ""), ("k", ""), ("m", "")];
        assert!(permits(&tree(&list), "k", "a"), "k is the root now");
    }

    #[test]
    fn the_tree_keeps_its_rules() {
        let names: Vec<Bytes> = (0..500_u32)
            .map(|it| (it * 211 % 500).to_be_bytes().to_vec().into())
            .collect();
        let points = names
            .iter()
            .map(|key| Interval::of_permission(key, &Bytes::new()));
        let tree = PermissionTree::of(points);
        for key in &names {
            assert!(tree.permits_reversed(key, &[255]), "nothing is left out");
        }
        for (place, node) in tree.nodes.iter().enumerate() {
            let children = node.children.into_iter().filter(|child| *child != NONE);
            for child in children {
                assert_eq!(tree.parent(child), place);
                assert!(!node.is_red || !tree.is_red(child), "two red ones in a row");
            }
        }
        fn blacks(tree: &PermissionTree, place: usize) -> usize {
            let Some(node) = tree.nodes.get(place) else {
                return 0;
            };
            let [left, right] = node.children.map(|child| blacks(tree, child));
            assert_eq!(left, right, "each way down has as many black nodes");
            left + usize::from(!node.is_red)
        }
        assert!(blacks(&tree, tree.root) > 3);
    }
}
