//! A key's value with its four numbers.

use bytes::Bytes;
use etcd_api::EncodedKeyValue;

/// One version of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// The value, a slice of the bytes that were read from the log: for a range
    /// up to 64 KiB, which stay in memory as long as one value of them. Copy the
    /// few that are kept for long.
    pub value: Bytes,
    /// Revision at which the key came to be (again, after a deletion).
    pub create_revision: i64,
    /// Revision that wrote this version.
    pub mod_revision: i64,
    /// 1 for the first version since creation, 2 for the next, ...
    pub version: i64,
    /// The lease that will delete the key; 0 for none.
    pub lease: i64,
}

impl From<&EncodedKeyValue> for KeyValue {
    fn from(encoded: &EncodedKeyValue) -> KeyValue {
        let fields = encoded.fields();
        KeyValue {
            key: encoded.0.slice_ref(fields.key),
            value: encoded.0.slice_ref(fields.value),
            create_revision: fields.create_revision,
            mod_revision: fields.mod_revision,
            version: fields.version,
            lease: fields.lease,
        }
    }
}
