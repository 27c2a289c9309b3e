//! Which page each entry of a file goes to, decided from lengths alone.
//!
//! ```text
//!   entries ──► leaf, until it is full ──► branch, until it is full ──► branch ──► root
//! ```
//!
//! Pages get their numbers in the order in which they are closed, so that the same lengths give
//! the same file each time: a first pass knows where everything will be, a second one writes it.

use bytes::Bytes;

use crate::format::{ELEMENT_BYTES, PAGE_BYTES_WRITTEN, PAGE_HEADER_BYTES};

/// First page that is not a meta page or the free list.
const FIRST_PAGE: u64 = 3;

/// A page that has all its elements.
#[derive(Debug)]
pub(crate) struct ClosedPage<'a> {
    pub id: u64,
    /// Pages that follow and belong to it.
    pub overflow: u32,
    pub contents: PageContents<'a>,
}

/// Elements of a closed page.
#[derive(Debug)]
pub(crate) enum PageContents<'a> {
    /// All entries since the last closed leaf.
    Leaf,
    /// First keys and pages of its children.
    Branch(&'a [(Bytes, u64)]),
}

/// A branch that is being filled.
#[derive(Debug, Default)]
struct OpenBranch {
    children: Vec<(Bytes, u64)>,
    bytes: usize,
}

/// One tree of a file that is being laid out.
#[derive(Debug)]
pub(crate) struct TreeLayout {
    next_page: u64,
    /// Bytes of the leaf that is being filled, without its header.
    leaf_bytes: usize,
    /// First key of that leaf; `None` if it is empty.
    leaf_first: Option<Bytes>,
    /// From the one above the leaves to the root.
    levels: Vec<OpenBranch>,
}

impl TreeLayout {
    /// The first tree of a file.
    pub fn first() -> TreeLayout {
        TreeLayout::from(FIRST_PAGE)
    }

    /// A tree with pages from this one on.
    fn from(next_page: u64) -> TreeLayout {
        TreeLayout {
            next_page,
            leaf_bytes: 0,
            leaf_first: None,
            levels: Vec::new(),
        }
    }

    /// Takes the next entry. Closes the leaf before if the entry has no room in it: then the closed
    /// leaf does not have the entry.
    pub fn entry<E>(
        &mut self,
        key: &[u8],
        value_bytes: usize,
        closed: &mut impl FnMut(ClosedPage<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let bytes = ELEMENT_BYTES + key.len() + value_bytes;
        if self.leaf_first.is_some() && !has_room(self.leaf_bytes, bytes) {
            self.close_leaf(closed)?;
        }
        if self.leaf_first.is_none() {
            self.leaf_first = Some(Bytes::copy_from_slice(key));
        }
        self.leaf_bytes += bytes;
        Ok(())
    }

    /// Closes all pages. Returns the root's number, and the next tree of the file.
    pub fn finish<E>(
        mut self,
        closed: &mut impl FnMut(ClosedPage<'_>) -> Result<(), E>,
    ) -> Result<(u64, TreeLayout), E> {
        if self.leaf_first.is_none() && self.levels.is_empty() {
            // An empty tree is an empty leaf.
            self.leaf_first = Some(Bytes::new());
        }
        if self.leaf_first.is_some() {
            self.close_leaf(closed)?;
        }
        let mut level = 0;
        loop {
            let is_top = level + 1 == self.levels.len();
            if is_top && let [(_, root)] = self.levels[level].children[..] {
                return Ok((root, TreeLayout::from(self.next_page)));
            }
            self.close_branch(level, closed)?;
            level += 1;
        }
    }

    /// Pages of the file so far.
    pub fn pages(&self) -> u64 {
        self.next_page
    }

    fn close_leaf<E>(
        &mut self,
        closed: &mut impl FnMut(ClosedPage<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let bytes = std::mem::take(&mut self.leaf_bytes);
        let first = self.leaf_first.take().unwrap_or_default();
        let (id, overflow) = self.number(bytes);
        closed(ClosedPage {
            id,
            overflow,
            contents: PageContents::Leaf,
        })?;
        self.add_child(0, first, id, closed)
    }

    fn close_branch<E>(
        &mut self,
        level: usize,
        closed: &mut impl FnMut(ClosedPage<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut branch = std::mem::take(&mut self.levels[level]);
        let (id, overflow) = self.number(branch.bytes);
        closed(ClosedPage {
            id,
            overflow,
            contents: PageContents::Branch(&branch.children),
        })?;
        let (first, _) = branch.children.swap_remove(0);
        self.add_child(level + 1, first, id, closed)
    }

    fn add_child<E>(
        &mut self,
        level: usize,
        first: Bytes,
        page: u64,
        closed: &mut impl FnMut(ClosedPage<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if level == self.levels.len() {
            self.levels.push(OpenBranch::default());
        }
        let bytes = ELEMENT_BYTES + first.len();
        let branch = &self.levels[level];
        // A branch has two children at least, however long their keys are.
        if branch.children.len() >= 2 && !has_room(branch.bytes, bytes) {
            self.close_branch(level, closed)?;
        }
        let branch = &mut self.levels[level];
        branch.children.push((first, page));
        branch.bytes += bytes;
        Ok(())
    }

    /// The next page's number and its overflow, for contents of this length.
    fn number(&mut self, bytes: usize) -> (u64, u32) {
        let pages = (PAGE_HEADER_BYTES + bytes).div_ceil(PAGE_BYTES_WRITTEN);
        let id = self.next_page;
        self.next_page += pages as u64;
        let overflow = u32::try_from(pages - 1).expect("a page has less than 16 TiB");
        (id, overflow)
    }
}

fn has_room(taken: usize, bytes: usize) -> bool {
    PAGE_HEADER_BYTES + taken + bytes <= PAGE_BYTES_WRITTEN
}
