//! Buckets: trees with names.

use bytes::Bytes;

use crate::format::{BUCKET_BYTES, PAGE_BYTES_MAX};
use crate::meta::u64_at;
use crate::page::{Page, PageKind};

/// A bucket of a file.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Its name, such as `key` or `lease`.
    pub name: Bytes,
    pub(crate) tree: Tree,
}

/// Where the tree of a bucket is.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    /// Below this page.
    Root(u64),
    /// In the element of the bucket itself: a single leaf.
    Inline(Page),
}

impl Bucket {
    /// The bucket from the element that it is on a page, or what is wrong with it. It keeps nothing of
    /// that page in memory.
    pub(crate) fn decode(page: u64, name: &Bytes, value: &Bytes) -> Result<Bucket, String> {
        let (bytes, shown) = (value.len(), shown(name));
        if bytes < BUCKET_BYTES {
            return Err(format!(
                "bucket {shown} has {bytes} bytes, and {BUCKET_BYTES} at least"
            ));
        }
        if bytes > PAGE_BYTES_MAX as usize {
            return Err(format!(
                "bucket {shown} has {bytes} bytes, which are more than a page's"
            ));
        }
        let tree = match u64_at(value, 0) {
            0 => {
                let inline = Bytes::copy_from_slice(&value[BUCKET_BYTES..]);
                let inline = Page::new(page, inline)?;
                if inline.kind != PageKind::Leaf {
                    return Err(format!("bucket {shown} has a branch inside of it"));
                }
                Tree::Inline(inline)
            }
            root => Tree::Root(root),
        };
        Ok(Bucket {
            name: Bytes::copy_from_slice(name),
            tree,
        })
    }
}

/// The beginning of a name, for a message.
pub(crate) fn shown(name: &[u8]) -> String {
    const SHOWN_BYTES: usize = 32;
    match name.split_at_checked(SHOWN_BYTES) {
        Some((begin, [_, ..])) => format!("{}...", begin.escape_ascii()),
        _ => name.escape_ascii().to_string(),
    }
}
