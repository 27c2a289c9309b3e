//! Numbers and bounds of the format (docs/formats/bolt.md). All integers are little-endian.

/// Bytes of a page's header: id u64, flags u16, count u16, overflow u32 (pages that follow and
/// belong to it).
pub const PAGE_HEADER_BYTES: usize = 16;
/// Bytes of an element of a leaf or branch page.
pub const ELEMENT_BYTES: usize = 16;
/// Bytes of a meta page behind its header.
pub const META_BYTES: usize = 64;
/// Bytes of a bucket's header: root page u64, sequence u64. With root 0 a page follows inline.
pub const BUCKET_BYTES: usize = 16;

/// Flags of a page.
pub const BRANCH: u16 = 1;
/// Flags of a page.
pub const LEAF: u16 = 2;
/// Flags of a page.
pub const META: u16 = 4;
/// Flags of a page.
pub const FREE_LIST: u16 = 16;
/// Flag of a leaf's element that is a bucket.
pub const IS_BUCKET: u32 = 1;

/// First number of a meta page.
pub const MAGIC: u32 = 0xED0C_DAED;
/// Version of the format.
pub const VERSION: u32 = 2;
/// Free list of a file that has none.
pub const NO_FREE_LIST: u64 = u64::MAX;
/// A free list with this count, or more entries, has its length in its first entry.
pub const COUNT_IS_FIRST: u16 = 0xFFFF;

/// Bytes of a page of the files that are written.
pub const PAGE_BYTES_WRITTEN: usize = 4096;
/// Smallest size of a page, in bytes.
pub const PAGE_BYTES_MIN: u32 = 512;
/// Largest size of a page, in bytes.
pub const PAGE_BYTES_MAX: u32 = 64 << 10;
/// Largest leaf that is read, with the pages that belong to it. bbolt does not split a leaf of
/// four values, whatever their length.
pub const LEAF_BYTES_MAX: u64 = 512 << 20;
/// Largest branch page that is read: four keys of 32 KiB take less.
pub const BRANCH_BYTES_MAX: u64 = 1 << 20;
/// Longest key that bbolt takes, in bytes.
pub const KEY_BYTES_MAX: u64 = 32 << 10;
/// Most levels of a tree. A branch page has at least two children, so 64 levels are more than
/// any file has pages.
pub const LEVELS_MAX: usize = 64;
/// Most pages of a file: 1 TiB in pages of 4 KiB, for which a set of pages takes 32 MiB.
pub const PAGES_MAX: u64 = 1 << 28;
/// Most buckets of a file; etcd makes ten.
pub const BUCKETS_MAX: usize = 1_000;
