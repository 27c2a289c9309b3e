//! The bucket `meta`.

use bolt::DatabaseFile;

use crate::Error;
use crate::row::RowKey;

const BUCKET: &str = "meta";

/// What the bucket says.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    /// The newest compaction that was begun; -1: none.
    pub compacted: i64,
    /// Version of the format, such as `3.7.0`; empty before etcd 3.6.
    pub version: String,
}

pub(crate) fn read(file: &DatabaseFile) -> Result<Meta, Error> {
    let bucket = file.bucket(BUCKET)?.ok_or(Error::NoBucket(BUCKET))?;
    let mut meta = Meta {
        compacted: -1,
        version: String::new(),
    };
    for entry in file.entries(&bucket) {
        let (key, value) = entry?;
        match &key[..] {
            // A compaction that was begun is finished by the next start.
            b"finishedCompactRev" | b"scheduledCompactRev" => {
                let revision = RowKey::decode(&value);
                let revision =
                    revision.map_err(|_| Error::entry(BUCKET, &key, "its value is no revision"))?;
                meta.compacted = meta.compacted.max(revision.main);
            }
            b"storageVersion" => {
                let version = String::from_utf8(value.to_vec());
                meta.version =
                    version.map_err(|_| Error::entry(BUCKET, &key, "its value is no text"))?;
            }
            _ => {}
        }
    }
    Ok(meta)
}
