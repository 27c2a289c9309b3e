//! Rows of the bucket `key`: a version of a key, or its deletion.

use bolt::DatabaseFile;
use bytes::Bytes;
use etcd_api::mvccpb::KeyValue;
use prost::Message;

use crate::Error;

/// Name of the bucket.
pub(crate) const BUCKET: &str = "key";
/// Bytes of a row's key: main u64, `_`, sub u64, both big-endian; a deletion has `t` behind them.
const ROW_BYTES: usize = 17;
const SEPARATOR_AT: usize = 8;

/// A row's key: the revision of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowKey {
    /// Number of the transaction.
    pub main: i64,
    /// Number of the change within the transaction, from 0.
    pub sub: i64,
    /// Whether the version is the deletion of its key.
    pub is_deletion: bool,
}

impl RowKey {
    /// As it is in the file.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut key = Vec::with_capacity(ROW_BYTES + 1);
        key.extend(self.main.to_be_bytes());
        key.push(b'_');
        key.extend(self.sub.to_be_bytes());
        if self.is_deletion {
            key.push(b't');
        }
        key
    }

    pub(crate) fn decode(key: &[u8]) -> Result<RowKey, Error> {
        let foreign = || Error::entry(BUCKET, key, "it is no revision of 17 or 18 bytes");
        let (row, mark) = key.split_at_checked(ROW_BYTES).ok_or_else(foreign)?;
        let is_deletion = match mark {
            b"" => false,
            b"t" => true,
            _ => return Err(foreign()),
        };
        if row[SEPARATOR_AT] != b'_' {
            return Err(foreign());
        }
        let number = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().expect("eight bytes"));
        let main = number(&row[..SEPARATOR_AT]);
        let sub = number(&row[SEPARATOR_AT + 1..]);
        if main < 0 || sub < 0 {
            return Err(Error::entry(BUCKET, key, "its revision is negative"));
        }
        Ok(RowKey {
            main,
            sub,
            is_deletion,
        })
    }
}

/// All rows of a file, ascending, with the encoded `mvccpb.KeyValue` of each. It ends after its first error.
pub fn rows(
    file: &DatabaseFile,
) -> Result<impl Iterator<Item = Result<(RowKey, Bytes), Error>>, Error> {
    let bucket = file.bucket(BUCKET)?.ok_or(Error::NoBucket(BUCKET))?;
    let rows = file.entries(&bucket).map(|entry| {
        let (key, value) = entry?;
        Ok((RowKey::decode(&key)?, value))
    });
    Ok(rows)
}

/// The key that a row is about.
pub(crate) fn key_of(row: &[u8], value: Bytes) -> Result<Bytes, Error> {
    let decoded = KeyValue::decode(value);
    let decoded = decoded.map_err(|error| Error::entry(BUCKET, row, error.to_string()))?;
    Ok(decoded.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_revision_and_says_whether_it_deletes() {
        let row = [&7_u64.to_be_bytes()[..], b"_", &1_u64.to_be_bytes()].concat();
        let revision = RowKey::decode(&row).unwrap();
        assert_eq!((revision.main, revision.sub), (7, 1));
        assert!(!revision.is_deletion);
        assert_eq!(revision.encode(), row);
        assert!(
            RowKey::decode(&[&row[..], b"t"].concat())
                .unwrap()
                .is_deletion
        );
    }

    #[test]
    fn other_bytes_are_no_row() {
        let row = [&7_u64.to_be_bytes()[..], b"_", &1_u64.to_be_bytes()].concat();
        let (mut other, mut negative) = (row.clone(), row.clone());
        other[8] = b'-';
        negative[0] = 0xff;
        for row in [
            &row[..16],
            &[&row[..], b"x"].concat(),
            &other,
            &negative,
            b"",
        ] {
            assert!(RowKey::decode(row).is_err(), "{row:?}");
        }
    }
}
