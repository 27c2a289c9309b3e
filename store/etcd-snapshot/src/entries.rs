//! Walks over the entries of a bucket by its name.

use bolt::DatabaseFile;
use bytes::Bytes;

use crate::Error;

/// Visits the entries of a bucket, ascending, if the file has it.
pub(crate) fn each(
    file: &DatabaseFile,
    bucket: &str,
    visit: impl FnMut(Bytes, Bytes) -> Result<(), Error>,
) -> Result<(), Error> {
    find_and_visit(file, bucket, visit).map(drop)
}

/// False if the file does not have the bucket.
fn find_and_visit(
    file: &DatabaseFile,
    bucket: &str,
    mut visit: impl FnMut(Bytes, Bytes) -> Result<(), Error>,
) -> Result<bool, Error> {
    let Some(bucket) = file.bucket(bucket)? else {
        return Ok(false);
    };
    for entry in file.entries(&bucket) {
        let (key, value) = entry?;
        visit(key, value)?;
    }
    Ok(true)
}

/// Visits the entries of a bucket that etcd always makes.
pub(crate) fn each_of_required(
    file: &DatabaseFile,
    bucket: &'static str,
    visit: impl FnMut(Bytes, Bytes) -> Result<(), Error>,
) -> Result<(), Error> {
    match find_and_visit(file, bucket, visit)? {
        true => Ok(()),
        false => Err(Error::NoBucket(bucket)),
    }
}

/// A number of 8 bytes, big-endian.
pub(crate) fn number(bucket: &'static str, key: &[u8], value: &[u8]) -> Result<u64, Error> {
    let bytes = value.try_into();
    let bytes =
        bytes.map_err(|_| Error::entry(bucket, key, "its value is no number of 8 bytes"))?;
    Ok(u64::from_be_bytes(bytes))
}
