//! Limits of memory, and numbers of bytes in text: `256MiB`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Memory of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// Greatest memory of the worker and the servers together, the page cache of their files
    /// included: the run gets a control group of its own. `None` sets no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<ByteCount>,
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteCount(pub u64);

/// Units, the largest first.
const UNITS: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// Less memory than this does not suffice for the lab's own part of a run.
pub const LIMIT_MIN: ByteCount = ByteCount(32 << 20);

impl FromStr for ByteCount {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteCount, String> {
        let mistake = || format!("`{text}` is no number of bytes: write `256MiB` or `4GiB`");
        let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
        let (unit, bytes) = unit.ok_or_else(mistake)?;
        let number: u64 = text
            .strip_suffix(unit)
            .and_then(|number| number.trim().replace('_', "").parse().ok())
            .ok_or_else(mistake)?;
        number
            .checked_mul(*bytes)
            .map(ByteCount)
            .ok_or_else(mistake)
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, bytes): &&(&str, u64)| self.0.is_multiple_of(*bytes);
        let (unit, bytes) = UNITS
            .iter()
            .find(whole)
            .expect("each number is whole bytes");
        write!(formatter, "{}{unit}", self.0 / bytes)
    }
}

as_text!(ByteCount);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_numbers_of_bytes_parse_again() {
        for (text, bytes) in [
            ("256MiB", 256 << 20),
            ("4GiB", 4 << 30),
            ("1KiB", 1024),
            ("1025B", 1025),
        ] {
            let count: ByteCount = text.parse().unwrap();
            assert_eq!(
                (count, count.to_string().as_str()),
                (ByteCount(bytes), text)
            );
        }
        assert_eq!("1024MiB".parse::<ByteCount>().unwrap().to_string(), "1GiB");
    }

    #[test]
    fn invalid_numbers_of_bytes_are_refused_with_valid_examples() {
        for text in [
            "",
            "256",
            "256MB",
            "MiB",
            "-1MiB",
            "1.5GiB",
            "99999999999GiB",
        ] {
            let error = text.parse::<ByteCount>().unwrap_err();
            assert!(error.contains("256MiB"), "{error}");
        }
    }
}
