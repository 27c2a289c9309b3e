//! Keys of the history tree: every version of a key side by side, newest first.
//!
//! ```text
//!   user key, escaped           end      main revision, complemented
//!   61 62 00 FF 63              00 00    FF FF FF FF FF FF FF F8
//!   "ab\0c"                              7
//! ```
//!
//! A zero byte in the key becomes `00 FF`, and `00 00` ends it: so the order
//! of encoded keys is the order of keys first and of revisions, descending,
//! second, whatever bytes the keys hold. Two bytes a version is the price.

const END: [u8; 2] = [0, 0];
const ESCAPED_ZERO: [u8; 2] = [0, 0xff];
const REVISION_BYTES: usize = 8;

/// Everything that starts like this is a version of `key`, and all versions
/// of smaller keys come before it.
pub(crate) fn prefix(key: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(key.len() + END.len() + REVISION_BYTES);
    prefix_to(key, &mut encoded);
    encoded
}

fn prefix_to(key: &[u8], encoded: &mut Vec<u8>) {
    for (number, part) in key.split(|&byte| byte == 0).enumerate() {
        if number > 0 {
            encoded.extend(ESCAPED_ZERO);
        }
        encoded.extend_from_slice(part);
    }
    encoded.extend(END);
}

/// The version of `key` written at `main`.
pub(crate) fn encode(key: &[u8], main: u64) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(key.len() + END.len() + REVISION_BYTES);
    encode_to(key, main, &mut encoded);
    encoded
}

/// The same, behind what `encoded` holds.
pub(crate) fn encode_to(key: &[u8], main: u64, encoded: &mut Vec<u8>) {
    prefix_to(key, encoded);
    encoded.extend((!main).to_be_bytes());
}

/// Splits an encoded key, putting the user key into `key`; returns the revision.
pub(crate) fn decode(encoded: &[u8], key: &mut Vec<u8>) -> u64 {
    let (escaped, main) = split(encoded);
    key.clear();
    let mut bytes = escaped[..escaped.len() - END.len()].iter();
    while let Some(&byte) = bytes.next() {
        key.push(byte);
        if byte == 0 {
            let escape = bytes.next();
            assert_eq!(
                escape,
                Some(&ESCAPED_ZERO[1]),
                "a history key that this module did not make"
            );
        }
    }
    main
}

/// The prefix of an encoded key, and its revision.
pub(crate) fn split(encoded: &[u8]) -> (&[u8], u64) {
    let at = encoded
        .len()
        .checked_sub(REVISION_BYTES)
        .expect("a history key ends in a revision");
    let (prefix, revision) = encoded.split_at(at);
    assert!(prefix.ends_with(&END), "a history key without its end mark");
    (
        prefix,
        !u64::from_be_bytes(revision.try_into().expect("eight bytes")),
    )
}

/// Whether `encoded` is one of this module's, for keys that come from a file.
pub(crate) fn is_well_formed(encoded: &[u8]) -> bool {
    let Some(at) = encoded.len().checked_sub(REVISION_BYTES + END.len()) else {
        return false;
    };
    let mut bytes = encoded[..at].iter();
    while let Some(&byte) = bytes.next() {
        if byte == 0 && bytes.next() != Some(&ESCAPED_ZERO[1]) {
            return false;
        }
    }
    encoded[at..].starts_with(&END)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_first_and_revisions_descend_second() {
        let keys: [&[u8]; 9] = [
            b"",
            b"\0",
            b"\0\0",
            b"\0\xff",
            b"a",
            b"a\0",
            b"a\0\xff",
            b"ab",
            b"a\xff\xff\xff\xff\xff\xff\xff\xff",
        ];
        let mut sorted: Vec<&[u8]> = keys.to_vec();
        sorted.sort_unstable();
        let expected: Vec<Vec<u8>> = sorted
            .iter()
            .flat_map(|key| [9, 7, 1].map(|main| encode(key, main)))
            .collect();
        let mut encoded = expected.clone();
        encoded.sort_unstable();
        assert_eq!(encoded, expected);
    }

    #[test]
    fn keys_that_this_module_never_makes_are_seen() {
        for foreign in [
            &b""[..],
            b"12345678",
            b"a\0\x0112345678",
            b"a\x00b\x00\x0012345678",
            b"ab12345678",
        ] {
            assert!(!is_well_formed(foreign), "{foreign:?}");
        }
    }

    #[test]
    fn an_encoded_key_comes_back() {
        let mut key = vec![1, 2, 3];
        for original in [&b""[..], b"\0", b"plain", b"a\0b\0\0", b"\xff\0\xff"] {
            assert_eq!(decode(&encode(original, 77), &mut key), 77);
            assert_eq!(key, original);
            assert!(is_well_formed(&encode(original, 77)));
        }
    }
}
