//! Meta pages: where everything else is. There are two, and the newer valid one counts.

use crate::format::{
    MAGIC, META, META_BYTES, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PAGE_HEADER_BYTES, VERSION,
};

/// Contents of a meta page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub page_bytes: u32,
    /// Root page of the tree of buckets.
    pub root: u64,
    /// First page of the free list, or [`crate::format::NO_FREE_LIST`].
    pub free_list: u64,
    /// Number of pages, free ones included.
    pub pages: u64,
    /// Number of the transaction that wrote the page.
    pub transaction: u64,
}

/// Offsets behind the page's header.
const VERSION_AT: usize = 4;
const PAGE_BYTES_AT: usize = 8;
const ROOT_AT: usize = 16;
const FREE_LIST_AT: usize = 32;
const PAGES_AT: usize = 40;
const TRANSACTION_AT: usize = 48;
const SUM_AT: usize = 56;

/// Why bytes are no meta page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetaFault {
    #[error(
        "it is no database of etcd: {0}; name a file of `etcdctl snapshot save`, or member/snap/db \
         of an etcd that has stopped"
    )]
    Foreign(String),
    #[error("it has version {0} of bbolt's format, and version {VERSION} can be read")]
    Version(u32),
    #[error("its meta pages are damaged: {0}; take another copy")]
    Damaged(String),
}

impl Meta {
    /// Decodes a meta page with its header.
    pub fn decode(page: &[u8; PAGE_HEADER_BYTES + META_BYTES]) -> Result<Meta, MetaFault> {
        let body = &page[PAGE_HEADER_BYTES..];
        let (magic, version) = (u32_at(body, 0), u32_at(body, VERSION_AT));
        if magic != MAGIC {
            let found = format!("where {MAGIC:#010x} must stand is {magic:#010x}");
            return Err(MetaFault::Foreign(found));
        }
        if version != VERSION {
            return Err(MetaFault::Version(version));
        }
        let (stored, computed) = (u64_at(body, SUM_AT), fnv_1a(&body[..SUM_AT]));
        let flags = u16::from_le_bytes([page[8], page[9]]);
        let page_bytes = u32_at(body, PAGE_BYTES_AT);
        let allowed = PAGE_BYTES_MIN..=PAGE_BYTES_MAX;
        let problem = if stored != computed {
            format!("a checksum is {stored:#018x} and must be {computed:#018x}")
        } else if flags != META {
            format!("flags are {flags:#x} and must be {META:#x}")
        } else if !allowed.contains(&page_bytes) || !page_bytes.is_power_of_two() {
            format!("pages have {page_bytes} bytes")
        } else {
            return Ok(Meta {
                page_bytes,
                root: u64_at(body, ROOT_AT),
                free_list: u64_at(body, FREE_LIST_AT),
                pages: u64_at(body, PAGES_AT),
                transaction: u64_at(body, TRANSACTION_AT),
            });
        };
        Err(MetaFault::Damaged(problem))
    }
}

impl Meta {
    /// Encodes what follows the header of a meta page.
    pub fn encode(&self) -> [u8; META_BYTES] {
        let mut body = [0; META_BYTES];
        let words = [
            (0, MAGIC),
            (VERSION_AT, VERSION),
            (PAGE_BYTES_AT, self.page_bytes),
        ];
        for (at, word) in words {
            body[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let numbers = [
            (ROOT_AT, self.root),
            (FREE_LIST_AT, self.free_list),
            (PAGES_AT, self.pages),
            (TRANSACTION_AT, self.transaction),
        ];
        for (at, number) in numbers {
            body[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = fnv_1a(&body[..SUM_AT]);
        body[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        body
    }
}

/// FNV-1a with 64 bits (draft-eastlake-fnv).
fn fnv_1a(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(BASIS, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(PRIME)
    })
}

/// The number at an offset. The caller knows that its bytes are there.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_le_bytes(bytes)
}

/// The number at an offset. The caller knows that its bytes are there.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_draft() {
        assert_eq!(fnv_1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
