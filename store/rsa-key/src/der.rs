//! As much of DER as a private key takes.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const SEQUENCE: u8 = 0x30;

/// The elements that follow.
#[derive(Clone, Copy)]
pub(crate) struct Elements<'a>(pub(crate) &'a [u8]);

impl<'a> Elements<'a> {
    /// Takes the content of the next element, which must have this tag.
    pub(crate) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let [found, first, rest @ ..] = self.0 else {
            return None;
        };
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            // Keys are shorter than 64 KiB.
            0x81 | 0x82 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 3))?;
                let add = |sum: usize, byte: &u8| (sum << 8) | usize::from(*byte);
                (bytes.iter().fold(0, add), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (*found == tag).then_some(content)
    }
}

/// Appends an element.
pub(crate) fn element(tag: u8, content: &[u8], to: &mut Vec<u8>) {
    to.push(tag);
    let length = u16::try_from(content.len()).expect("numbers of a key that was read in DER");
    match length {
        0..=0x7f => to.push(length.to_be_bytes()[1]),
        0x80..=0xff => to.extend([0x81, length.to_be_bytes()[1]]),
        _ => {
            to.push(0x82);
            to.extend(length.to_be_bytes());
        }
    }
    to.extend_from_slice(content);
}
