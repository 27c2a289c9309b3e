//! A key in a block: the bytes that it does not share with the key before it.
//!
//! ```text
//!   0  1   high half: shared bytes, low half: further bytes; 15: as many, and a varint more
//!   1      varint of shared bytes beyond 15, varint of further bytes beyond 15, where there are
//!          the further bytes
//! ```

use super::super::format::{put_varint, take_varint};

/// The greatest number in half a byte: a varint goes on.
const HALF_MAX: usize = 15;
/// Bytes that are copied at once, because their number is known when this is compiled.
const COPIED_BYTES: usize = 16;

pub(super) fn put_key(bytes: &mut Vec<u8>, before: &[u8], key: &[u8]) {
    let shared = shared_bytes(before, key);
    let further = key.len() - shared;
    bytes.push((shared.min(HALF_MAX) << 4 | further.min(HALF_MAX)) as u8);
    for number in [shared, further] {
        if number >= HALF_MAX {
            put_varint(bytes, (number - HALF_MAX) as u64);
        }
    }
    bytes.extend(&key[shared..]);
}

fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

/// The key that was read last.
#[derive(Debug, Default)]
pub(super) struct LastKey {
    /// The key, and memory behind it.
    bytes: Vec<u8>,
    len: usize,
}

impl LastKey {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Reads the next key off the front of `rest`; `None` if it is cut off.
    #[inline]
    pub(super) fn take(&mut self, rest: &mut &[u8]) -> Option<()> {
        let (&halves, behind) = rest.split_first()?;
        *rest = behind;
        let shared = whole(usize::from(halves >> 4), rest)?;
        let further = whole(usize::from(halves & 15), rest)?;
        self.advance(shared, further, rest)
    }

    /// Makes it the key that has this many bytes of the present one, and these further bytes off
    /// the front of `rest`.
    #[inline]
    pub(super) fn advance(
        &mut self,
        shared: usize,
        further: usize,
        rest: &mut &[u8],
    ) -> Option<()> {
        if shared > self.len || further > rest.len() {
            return None;
        }
        let (own, behind) = rest.split_at(further);
        self.len = shared + further;
        let copied = self.bytes.get_mut(shared..);
        let room = copied.and_then(<[u8]>::first_chunk_mut::<COPIED_BYTES>);
        match (room, rest.first_chunk::<COPIED_BYTES>()) {
            (Some(room), Some(chunk)) if further <= COPIED_BYTES => *room = *chunk,
            _ => {
                self.bytes.resize(self.len.max(shared + COPIED_BYTES), 0);
                self.bytes[shared..self.len].copy_from_slice(own);
            }
        }
        *rest = behind;
        Some(())
    }
}

/// A number of which `half` is half a byte.
#[inline]
fn whole(half: usize, rest: &mut &[u8]) -> Option<usize> {
    match half {
        HALF_MAX => usize::try_from(take_varint(rest)?)
            .ok()?
            .checked_add(HALF_MAX),
        _ => Some(half),
    }
}
