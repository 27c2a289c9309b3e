//! A version of a key: its value and metadata.

use bytes::Bytes;
use etcd_api::EncodedKeyValue;

/// One version of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// The value. It is a slice of a buffer that was read from the log. Values of a range share
    /// buffers of up to 64 KiB, and a longer value has one of its own. A buffer stays in memory
    /// as long as any slice of it: copy values that are kept for long.
    pub value: Bytes,
    /// Revision that created the key, or created it again after a deletion.
    pub create_revision: i64,
    /// Revision that wrote this version.
    pub mod_revision: i64,
    /// Number of this version since the creation of the key, from 1.
    pub version: i64,
    /// Id of the lease that deletes the key when it ends; 0 for none.
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
