//! The keys that a command works on.
//!
//! ```text
//!   KEY              that key                  [KEY, KEY]
//!   KEY RANGE_END    from KEY to RANGE_END     [KEY, RANGE_END)
//!   KEY --prefix     keys that begin with it   [KEY, KEY + 1)   "" is every key
//!   KEY --from-key   KEY and all after it      [KEY, ..)        "" is every key
//! ```

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use bytes::Bytes;

use crate::failure::Failure;

/// In etcd's API a range end of one zero byte means "no end".
pub(crate) const NO_END: &[u8] = b"\0";

/// Arguments that select keys.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyRangeArguments {
    /// The key, or the first key of a range
    #[arg(value_name = "KEY")]
    key: OsString,
    /// The end of the range: the first key that does not belong to it
    #[arg(value_name = "RANGE_END")]
    range_end: Option<OsString>,
    /// Select every key that begins with KEY
    #[arg(long, help_heading = "Keys", conflicts_with_all = ["range_end", "from_key"])]
    prefix: bool,
    /// Select KEY and every key after it
    #[arg(long, help_heading = "Keys", conflicts_with = "range_end")]
    from_key: bool,
}

/// A range in the form of etcd's API.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) key: Bytes,
    /// Empty if the range is `key` alone.
    pub(crate) range_end: Bytes,
}

impl KeyRangeArguments {
    /// KEY as it is written: the empty key of every key's range, too.
    pub(crate) fn key(&self) -> Bytes {
        bytes_of(self.key.clone())
    }

    /// The selected range.
    pub(crate) fn range(self) -> Result<KeyRange, Failure> {
        let key = bytes_of(self.key);
        let range_end = match self.range_end {
            Some(end) => bytes_of(end),
            None if self.prefix => prefix_end(&key),
            None if self.from_key => Bytes::from_static(NO_END),
            None => Bytes::new(),
        };
        if !key.is_empty() {
            return Ok(KeyRange { key, range_end });
        }
        if range_end.is_empty() {
            return Err(Failure::wrong_use(
                "the key is empty",
                "To mean every key, say: \"\" --prefix",
            ));
        }
        // The smallest possible key.
        Ok(KeyRange {
            key: Bytes::from_static(b"\0"),
            range_end,
        })
    }
}

/// The bytes of an argument; keys need not be UTF-8.
pub(crate) fn bytes_of(word: OsString) -> Bytes {
    Bytes::from(word.into_vec())
}

/// The smallest key greater than every key that begins with `prefix`.
pub(crate) fn prefix_end(prefix: &[u8]) -> Bytes {
    let last = prefix.iter().rposition(|&byte| byte != 0xff);
    let Some(last) = last else {
        return Bytes::from_static(NO_END);
    };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Bytes::from(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(key: &str) -> KeyRangeArguments {
        KeyRangeArguments {
            key: key.into(),
            range_end: None,
            prefix: false,
            from_key: false,
        }
    }

    #[test]
    fn a_prefix_ends_before_its_last_byte_plus_one() {
        assert_eq!(&prefix_end(b"ink")[..], b"inl");
        assert_eq!(&prefix_end(b"a\xff\xff")[..], b"b");
    }

    #[test]
    fn a_prefix_of_highest_bytes_has_no_end() {
        assert_eq!(&prefix_end(b"\xff\xff")[..], NO_END);
        assert_eq!(&prefix_end(b"")[..], NO_END);
    }

    #[test]
    fn an_empty_prefix_is_every_key() {
        let range = KeyRangeArguments {
            prefix: true,
            ..words("")
        };
        let range = range.range().unwrap();
        assert_eq!((&range.key[..], &range.range_end[..]), (NO_END, NO_END));
    }

    #[test]
    fn an_empty_key_alone_is_wrong_use() {
        assert!(words("").range().is_err());
    }

    #[test]
    fn a_range_end_is_taken_as_it_is() {
        let range = KeyRangeArguments {
            range_end: Some("c".into()),
            ..words("a")
        };
        let range = range.range().unwrap();
        assert_eq!(
            (&range.key[..], &range.range_end[..]),
            (&b"a"[..], &b"c"[..])
        );
    }
}
