//! The encoded `KeyValue` of a version, and what versions take in the log.

use bytes::Bytes;
use engine::KeyChange;
use etcd_api::{EncodedKeyValue, Fields};

/// Encodes a version once for the log, ranges, watches and hashes. The key
/// comes back as a slice of the same bytes.
pub(crate) fn encode(version: &Fields<'_>) -> (Bytes, Bytes) {
    assert!(
        !version.key.is_empty(),
        "requests without a key are refused before"
    );
    let EncodedKeyValue(kv) = version.encode();
    // Field 1 comes first: tag, length, key.
    let start = 1 + prost::length_delimiter_len(version.key.len());
    let key = kv.slice(start..start + version.key.len());
    assert_eq!(key, version.key, "the key is the first field");
    (key, kv)
}

/// Log bytes of the deletion of a key.
pub(crate) fn deletion_bytes(key: &[u8]) -> u64 {
    // Its `KeyValue` has one field: tag, length, key.
    KeyChange::log_bytes_of(1 + prost::length_delimiter_len(key.len()) + key.len())
}

/// Log bytes of key changes.
pub(crate) fn log_bytes<'c>(changes: impl IntoIterator<Item = &'c KeyChange>) -> u64 {
    changes.into_iter().map(KeyChange::log_bytes).sum()
}
