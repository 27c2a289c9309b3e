//! Any bytes as an encoded `KeyValue`: no panic, and the fields that are read
//! without decoding are those that decoding gives.
#![no_main]

use bytes::Bytes;
use etcd_api::EncodedKeyValue;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let foreign = EncodedKeyValue(Bytes::copy_from_slice(data));
    let _ = foreign.fields();
    let Ok(decoded) = foreign.decode() else {
        return;
    };
    let ours = EncodedKeyValue::from(&decoded);
    let fields = ours.fields();
    assert_eq!(fields.key, decoded.key);
    assert_eq!(fields.value, decoded.value);
    assert_eq!(fields.create_revision, decoded.create_revision);
    assert_eq!(fields.mod_revision, decoded.mod_revision);
    assert_eq!(fields.version, decoded.version);
    assert_eq!(fields.lease, decoded.lease);
});
