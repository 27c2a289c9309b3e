//! The bucket `meta`.

use bolt::DatabaseFile;

use crate::Error;
use crate::entries::{each_of_required, number};
use crate::row::RowKey;

const BUCKET: &str = "meta";

/// Contents of the bucket.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    /// The newest compaction that was begun; -1: none.
    pub compacted: i64,
    /// Index and term of Raft's newest entry that is in the file; 0 if they are missing.
    pub index: u64,
    pub term: u64,
    /// Version of the format, such as `3.7.0`; empty before etcd 3.6.
    pub version: String,
}

pub(crate) fn read(file: &DatabaseFile) -> Result<Meta, Error> {
    let mut meta = Meta {
        compacted: -1,
        ..Meta::default()
    };
    each_of_required(file, BUCKET, |key, value| {
        match &key[..] {
            // A compaction that was begun is finished by the next start.
            b"finishedCompactRev" | b"scheduledCompactRev" => {
                let revision = RowKey::decode(&value);
                let revision =
                    revision.map_err(|_| Error::entry(BUCKET, &key, "its value is no revision"))?;
                meta.compacted = meta.compacted.max(revision.main);
            }
            b"consistent_index" => meta.index = number(BUCKET, &key, &value)?,
            b"term" => meta.term = number(BUCKET, &key, &value)?,
            b"storageVersion" => meta.version = version_of(&value).to_owned(),
            _ => {}
        }
        Ok(())
    })?;
    Ok(meta)
}

/// The text of a version; empty if it is none, as etcdutl prints it.
fn version_of(value: &[u8]) -> &str {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let (numbers, rest) = text.split_at(text.find(['-', '+']).unwrap_or(text.len()));
    let mut parts = numbers.split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let has_three = parts.clone().count() == 3 && parts.all(is_number);
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b".-+".contains(&it);
    match has_three && rest.bytes().all(is_plain) {
        true => text,
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::version_of;

    #[test]
    fn other_text_is_no_version() {
        for version in ["3.7.0", "3.6.0-alpha.1"] {
            assert_eq!(version_of(version.as_bytes()), version);
        }
        for text in [
            &b"3.7"[..],
            b"3.7.0\x1b[2J",
            b"3.x.0",
            b"",
            b"3..0",
            b"\xff",
            b"3.7.0-a b",
        ] {
            assert_eq!(version_of(text), "");
        }
    }
}
