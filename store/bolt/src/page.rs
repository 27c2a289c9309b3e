//! Branch and leaf pages.

use std::ops::Range;

use bytes::Bytes;

use crate::format::{BRANCH, ELEMENT_BYTES, IS_BUCKET, KEY_BYTES_MAX, LEAF, PAGE_HEADER_BYTES};
use crate::meta::{u32_at, u64_at};

/// Header of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub id: u64,
    pub flags: u16,
    pub count: u16,
    /// Pages that follow and belong to it.
    pub overflow: u32,
}

impl Header {
    /// Decodes the first [`PAGE_HEADER_BYTES`] of a page.
    pub fn decode(bytes: &[u8; PAGE_HEADER_BYTES]) -> Header {
        Header {
            id: u64_at(bytes, 0),
            flags: u16::from_le_bytes([bytes[8], bytes[9]]),
            count: u16::from_le_bytes([bytes[10], bytes[11]]),
            overflow: u32_at(bytes, 12),
        }
    }
}

/// PageKind of a page of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    Branch,
    Leaf,
}

/// Where an entry of a bucket is: its key, and its value right behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// In the file, or in the page of a bucket without pages of its own.
    pub(crate) offset: u64,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
}

/// A page of a tree with all its bytes. Elements are checked when they are taken.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// Its number, or that of the page that it lies in.
    pub id: u64,
    pub kind: PageKind,
    pub count: u16,
    bytes: Bytes,
}

/// An element of a branch page.
#[derive(Debug)]
pub(crate) struct Child {
    pub first_key: Bytes,
    pub page: u64,
}

/// An element of a leaf.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub key: Bytes,
    pub value: Bytes,
    pub is_bucket: bool,
}

impl Page {
    /// A page from its bytes, header included, or what is wrong with it.
    pub fn new(id: u64, bytes: Bytes) -> Result<Page, String> {
        let Some(header) = bytes.first_chunk() else {
            return Err("it ends within its header".to_owned());
        };
        let header = Header::decode(header);
        let kind = match header.flags {
            BRANCH => PageKind::Branch,
            LEAF => PageKind::Leaf,
            flags => {
                return Err(format!(
                    "its flags are {flags:#x}, and it must be part of a tree"
                ));
            }
        };
        let needed = PAGE_HEADER_BYTES + usize::from(header.count) * ELEMENT_BYTES;
        if needed > bytes.len() {
            let (count, length) = (header.count, bytes.len());
            return Err(format!(
                "its {count} elements are more than its {length} bytes hold"
            ));
        }
        if kind == PageKind::Branch && header.count == 0 {
            return Err("it is a branch without children".to_owned());
        }
        Ok(Page {
            id,
            kind,
            count: header.count,
            bytes,
        })
    }

    /// A part of its bytes.
    pub fn slice(&self, range: Range<usize>) -> Bytes {
        self.bytes.slice(range)
    }

    /// Where the bytes of an element begin in the page, and how many its key and its value have. The element
    /// was taken before, so that its place is sound.
    pub fn entry_place(&self, number: u16) -> Place {
        let [begin, key_end, end] = self.extent(number);
        Place {
            offset: begin,
            key_bytes: (key_end - begin) as u32,
            value_bytes: (end - key_end) as u32,
        }
    }

    /// The child of this number.
    pub fn child(&self, number: u16) -> Result<Child, String> {
        let place = self.place(number)?;
        Ok(Child {
            first_key: self.bytes.slice(place.key),
            page: u64_at(&self.bytes, element_at(number) + 8),
        })
    }

    /// The key and value of this number.
    pub fn leaf(&self, number: u16) -> Result<Leaf, String> {
        let place = self.place(number)?;
        let flags = u32_at(&self.bytes, element_at(number));
        if place.key.is_empty() {
            return Err(format!("element {number} has no key"));
        }
        if flags & !IS_BUCKET != 0 {
            return Err(format!("element {number} has flags {flags:#x}"));
        }
        Ok(Leaf {
            key: self.bytes.slice(place.key),
            value: self.bytes.slice(place.value),
            is_bucket: flags == IS_BUCKET,
        })
    }

    /// Where the bytes of an element are: behind all elements, and behind the bytes of the one before.
    /// So no byte belongs to two of them.
    fn place(&self, number: u16) -> Result<ElementPlace, String> {
        let [begin, key_end, end] = self.extent(number);
        let floor = match number.checked_sub(1) {
            None => element_at(self.count) as u64,
            Some(before) => self.extent(before)[2],
        };
        let length = self.bytes.len() as u64;
        if begin < floor || end > length {
            return Err(format!(
                "element {number} lies at {begin} to {end}, and its place is {floor} to {length}"
            ));
        }
        if key_end - begin > KEY_BYTES_MAX {
            let bytes = key_end - begin;
            return Err(format!(
                "the key of element {number} has {bytes} bytes, and {KEY_BYTES_MAX} are the most"
            ));
        }
        // All are at most the length of the page, which is in memory.
        let (begin, key_end, end) = (begin as usize, key_end as usize, end as usize);
        Ok(ElementPlace {
            key: begin..key_end,
            value: key_end..end,
        })
    }

    /// Where an element says that its key begins and ends, and its value ends.
    fn extent(&self, number: u16) -> [u64; 3] {
        let at = element_at(number);
        let field = |place: usize| u64::from(u32_at(&self.bytes, at + place));
        let (position, key_bytes, value_bytes) = match self.kind {
            PageKind::Branch => (field(0), field(4), 0),
            PageKind::Leaf => (field(4), field(8), field(12)),
        };
        let begin = at as u64 + position;
        [begin, begin + key_bytes, begin + key_bytes + value_bytes]
    }
}

/// Bytes of an element in its page.
struct ElementPlace {
    key: Range<usize>,
    value: Range<usize>,
}

fn element_at(number: u16) -> usize {
    PAGE_HEADER_BYTES + usize::from(number) * ELEMENT_BYTES
}
