//! `mvccpb.KeyValue` as a typed message: a put encodes it once.
//!
//! Written by hand because the generator omits a message if its uses are mapped
//! to another type. As in etcd, fields are written in ascending order and zeros are
//! left out: the bytes, and so HashKV, are the same.

use bytes::Bytes;

/// One version of one key.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct KeyValue {
    /// Never empty in a stored version.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Main revision of the put that created the key.
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    /// Main revision of the put that wrote this version.
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// 1 after the put that created the key, one more after each later put.
    #[prost(int64, tag = "4")]
    pub version: i64,
    /// The value as the client gave it.
    #[prost(bytes = "bytes", tag = "5")]
    pub value: Bytes,
    /// The lease that the key is attached to; 0 for none.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}
