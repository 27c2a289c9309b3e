//! Where the rest of a key lies when its head has been cut off: a number of 32 bits.
//!
//! ```text
//!  bit 31                4 3    0
//!     +-------------------+------+
//!     |      payload      | kind |    kind 0..=8   the head holds all: that many bytes
//!     +-------------------+------+    kind 9       payload = offset of a length byte and the tail
//!                                     kind 10      payload = number of a tail kept elsewhere
//! ```
//!
//! A key of eight bytes or fewer (after the common prefix) so costs nothing
//! beyond its head. The limit of an inline tail keeps every offset in 28 bits.

const KIND_BITS: u32 = 4;
const KIND_MASK: u32 = (1 << KIND_BITS) - 1;
const KIND_INLINE: u32 = 9;
const KIND_LONG: u32 = 10;

/// The packed form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailPointer(u32);

/// The same, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing follows the head; this number of its bytes count.
    InHead(usize),
    /// A length byte and the tail begin at this offset of the block's bytes.
    Inline(usize),
    /// The tail is this element of the block's long tails.
    Long(usize),
}

impl TailPointer {
    pub(crate) fn new(rest: Rest) -> TailPointer {
        let (payload, kind) = match rest {
            Rest::InHead(bytes) => {
                assert!(bytes <= super::HEAD_BYTES, "a head of {bytes} bytes");
                (0, bytes as u32)
            }
            Rest::Inline(offset) => (offset, KIND_INLINE),
            Rest::Long(number) => (number, KIND_LONG),
        };
        assert!(
            payload < 1 << (32 - KIND_BITS),
            "pointer {payload} needs more than 28 bits"
        );
        TailPointer((payload as u32) << KIND_BITS | kind)
    }

    pub(crate) fn from_bits(bits: u64) -> TailPointer {
        TailPointer(bits as u32)
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0.into()
    }

    #[inline]
    pub(crate) fn rest(self) -> Rest {
        let payload = (self.0 >> KIND_BITS) as usize;
        match self.0 & KIND_MASK {
            KIND_INLINE => Rest::Inline(payload),
            KIND_LONG => Rest::Long(payload),
            bytes => Rest::InHead(bytes as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_as_it_was() {
        for rest in [
            Rest::InHead(0),
            Rest::InHead(8),
            Rest::Inline(0),
            Rest::Inline((1 << 28) - 1),
            Rest::Long(127),
        ] {
            assert_eq!(TailPointer::new(rest).rest(), rest);
        }
    }

    #[test]
    #[should_panic(expected = "28 bits")]
    fn an_offset_beyond_28_bits_is_refused() {
        TailPointer::new(Rest::Inline(1 << 28));
    }
}
