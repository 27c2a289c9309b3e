//! Buckets: trees with names.

use bytes::Bytes;

use crate::format::BUCKET_BYTES;
use crate::meta::u64_at;
use crate::page::Page;

/// A bucket of a file.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Its name, such as `key` or `lease`.
    pub name: Bytes,
    pub(crate) place: Place,
}

/// Where the tree of a bucket is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Below this page.
    Root(u64),
    /// In the element of the bucket itself: a single leaf.
    Inline(Page),
}

impl Bucket {
    /// The bucket from the element that it is on a page, or what is wrong with it.
    pub(crate) fn decode(page: u64, name: Bytes, value: &Bytes) -> Result<Bucket, String> {
        if value.len() < BUCKET_BYTES {
            let bytes = value.len();
            return Err(format!(
                "bucket {name:?} has {bytes} bytes, and {BUCKET_BYTES} at least"
            ));
        }
        let place = match u64_at(value, 0) {
            0 => Place::Inline(Page::new(page, value.slice(BUCKET_BYTES..))?),
            root => Place::Root(root),
        };
        Ok(Bucket { name, place })
    }
}
