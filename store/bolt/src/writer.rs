//! Writes a file from its first byte to its last, for a receiver that cannot seek.
//!
//! ```text
//!   Measure: names, keys, lengths ──► FilePlan ──► Writer: the same with values ──► bytes
//! ```
//!
//! The first page names the root and the number of pages, so that lengths come first.

use bytes::Bytes;

use crate::format::{
    BRANCH, BUCKET_BYTES, ELEMENT_BYTES, FREE_LIST, IS_BUCKET, LEAF, META, PAGE_BYTES_WRITTEN,
    PAGE_HEADER_BYTES,
};
use crate::layout::{ClosedPage, PageContents, TreeLayout};
use crate::meta::Meta;

/// Where everything of a file will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlan {
    root: u64,
    pages: u64,
}

impl FilePlan {
    /// Bytes of the file, without a checksum behind its pages.
    pub fn file_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES_WRITTEN as u64
    }
}

/// Buckets that are complete, the current one, and what comes behind them.
#[derive(Debug)]
struct Buckets {
    tree: TreeLayout,
    current: Option<&'static str>,
    /// Names and root pages.
    complete: Vec<(&'static str, u64)>,
}

impl Buckets {
    fn new() -> Buckets {
        Buckets {
            tree: TreeLayout::first(),
            current: None,
            complete: Vec::new(),
        }
    }

    /// Begins a bucket, and closes the one before.
    fn begin<E>(
        &mut self,
        name: &'static str,
        closed: &mut impl FnMut(ClosedPage<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.end(closed)?;
        let last = self.complete.last();
        assert!(
            last.is_none_or(|(last, _)| *last < name),
            "buckets ascend: {last:?}, then {name}"
        );
        self.current = Some(name);
        Ok(())
    }

    fn end<E>(
        &mut self,
        closed: &mut impl FnMut(ClosedPage<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(name) = self.current.take() {
            let root = self.close_tree(closed)?;
            self.complete.push((name, root));
        }
        Ok(())
    }

    /// Closes the tree that is being laid out, and begins the next. Returns its root.
    fn close_tree<E>(
        &mut self,
        closed: &mut impl FnMut(ClosedPage<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let tree = std::mem::replace(&mut self.tree, TreeLayout::first());
        let root;
        (root, self.tree) = tree.finish(closed)?;
        Ok(root)
    }

    fn entry<E>(
        &mut self,
        key: &[u8],
        value_bytes: usize,
        closed: &mut impl FnMut(ClosedPage<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(self.current.is_some(), "an entry is in a bucket");
        assert!(!key.is_empty(), "bbolt has no empty keys");
        self.tree.entry(key, value_bytes, closed)
    }
}

/// The value of an element of the root's leaf: where the bucket's tree begins.
fn bucket_value(root: u64) -> [u8; BUCKET_BYTES] {
    let mut value = [0; BUCKET_BYTES];
    value[..8].copy_from_slice(&root.to_le_bytes());
    value
}

/// Lays a file out from lengths.
#[derive(Debug)]
pub struct Measure(Buckets);

impl Default for Measure {
    fn default() -> Measure {
        Measure(Buckets::new())
    }
}

/// A page of which only the place counts.
fn ignore(_: ClosedPage<'_>) -> Result<(), std::convert::Infallible> {
    Ok(())
}

impl Measure {
    /// The following entries belong to this bucket. Names ascend.
    pub fn bucket(&mut self, name: &'static str) {
        let Ok(()) = self.0.begin(name, &mut ignore);
    }

    /// The next entry of the bucket. Keys ascend.
    pub fn entry(&mut self, key: &[u8], value_bytes: usize) {
        let Ok(()) = self.0.entry(key, value_bytes, &mut ignore);
    }

    /// Ends the file.
    pub fn finish(mut self) -> FilePlan {
        let Ok(()) = self.0.end(&mut ignore);
        for (name, _) in std::mem::take(&mut self.0.complete) {
            let Ok(()) = self
                .0
                .tree
                .entry(name.as_bytes(), BUCKET_BYTES, &mut ignore);
        }
        let Ok(root) = self.0.close_tree(&mut ignore);
        FilePlan {
            root,
            pages: self.0.tree.pages(),
        }
    }
}

/// Takes the bytes of a file, one piece behind the other.
type Output<'o, E> = &'o mut dyn FnMut(&[u8]) -> Result<(), E>;

/// Writes a file that was measured before.
pub struct Writer<'o, E> {
    plan: FilePlan,
    buckets: Buckets,
    pages: Pages<'o, E>,
}

impl<E> std::fmt::Debug for Writer<'_, E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Writer");
        shown.field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl<'o, E> Writer<'o, E> {
    /// Begins the file.
    pub fn new(plan: FilePlan, output: Output<'o, E>) -> Result<Writer<'o, E>, E> {
        let mut writer = Writer {
            plan,
            buckets: Buckets::new(),
            pages: Pages {
                output,
                page: Vec::new(),
                elements: Vec::new(),
                data: Vec::new(),
                leaf_flags: 0,
            },
        };
        for transaction in [0, 1] {
            let meta = Meta {
                page_bytes: PAGE_BYTES_WRITTEN as u32,
                root: plan.root,
                free_list: 2,
                pages: plan.pages,
                transaction,
            };
            writer.pages.header(transaction, META, 0, 0);
            writer.pages.page.extend(meta.encode());
            writer.pages.flush(0)?;
        }
        writer.pages.header(2, FREE_LIST, 0, 0);
        writer.pages.flush(0)?;
        Ok(writer)
    }

    /// The following entries belong to this bucket.
    pub fn bucket(&mut self, name: &'static str) -> Result<(), E> {
        self.buckets
            .begin(name, &mut |page| self.pages.write(&page))
    }

    /// The next entry of the bucket.
    pub fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), E> {
        let closed = &mut |page: ClosedPage<'_>| self.pages.write(&page);
        self.buckets.entry(key, value.len(), closed)?;
        self.pages.add(key, value);
        Ok(())
    }

    /// Ends the file. False if names, keys or lengths were not those that were measured: the file
    /// is unusable.
    pub fn finish(mut self) -> Result<bool, E> {
        let pages = &mut self.pages;
        self.buckets.end(&mut |page| pages.write(&page))?;
        self.pages.leaf_flags = IS_BUCKET;
        for (name, root) in std::mem::take(&mut self.buckets.complete) {
            let closed = &mut |page: ClosedPage<'_>| self.pages.write(&page);
            let tree = &mut self.buckets.tree;
            tree.entry(name.as_bytes(), BUCKET_BYTES, closed)?;
            self.pages.add(name.as_bytes(), &bucket_value(root));
        }
        let pages = &mut self.pages;
        let root = self.buckets.close_tree(&mut |page| pages.write(&page))?;
        let written = FilePlan {
            root,
            pages: self.buckets.tree.pages(),
        };
        Ok(written == self.plan)
    }
}

/// Encodes pages.
struct Pages<'o, E> {
    output: Output<'o, E>,
    /// The page that is being encoded.
    page: Vec<u8>,
    /// Lengths of keys and values of the open leaf.
    elements: Vec<(u32, u32)>,
    /// Keys and values of the open leaf.
    data: Vec<u8>,
    /// Flags of the open leaf's elements.
    leaf_flags: u32,
}

impl<E> Pages<'_, E> {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("an entry below 4 GiB");
        self.elements.push((length(key), length(value)));
        self.data.extend_from_slice(key);
        self.data.extend_from_slice(value);
    }

    fn header(&mut self, id: u64, flags: u16, count: usize, overflow: u32) {
        let count = u16::try_from(count).expect("a page has room for a few hundred elements");
        self.page.clear();
        self.page.extend(id.to_le_bytes());
        self.page.extend(flags.to_le_bytes());
        self.page.extend(count.to_le_bytes());
        self.page.extend(overflow.to_le_bytes());
    }

    fn write(&mut self, closed: &ClosedPage<'_>) -> Result<(), E> {
        let (id, overflow) = (closed.id, closed.overflow);
        match closed.contents {
            PageContents::Leaf => {
                self.header(id, LEAF, self.elements.len(), overflow);
                self.encode_leaf();
            }
            PageContents::Branch(children) => {
                self.header(id, BRANCH, children.len(), overflow);
                self.encode_branch(children);
            }
        }
        self.flush(overflow)
    }

    fn encode_leaf(&mut self) {
        let mut data_at = PAGE_HEADER_BYTES + self.elements.len() * ELEMENT_BYTES;
        for (key_bytes, value_bytes) in self.elements.drain(..) {
            let position = (data_at - self.page.len()) as u32;
            for field in [self.leaf_flags, position, key_bytes, value_bytes] {
                self.page.extend(field.to_le_bytes());
            }
            data_at += key_bytes as usize + value_bytes as usize;
        }
        self.page.append(&mut self.data);
    }

    fn encode_branch(&mut self, children: &[(Bytes, u64)]) {
        let mut data_at = PAGE_HEADER_BYTES + children.len() * ELEMENT_BYTES;
        for (key, child) in children {
            let position = (data_at - self.page.len()) as u32;
            self.page.extend(position.to_le_bytes());
            self.page.extend((key.len() as u32).to_le_bytes());
            self.page.extend(child.to_le_bytes());
            data_at += key.len();
        }
        for (key, _) in children {
            self.page.extend_from_slice(key);
        }
    }

    /// Fills the page up and gives it away.
    fn flush(&mut self, overflow: u32) -> Result<(), E> {
        let bytes = (overflow as usize + 1) * PAGE_BYTES_WRITTEN;
        assert!(self.page.len() <= bytes, "contents are within their page");
        self.page.resize(bytes, 0);
        (self.output)(&self.page)
    }
}
