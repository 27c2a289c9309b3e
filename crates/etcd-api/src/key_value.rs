//! `mvccpb.KeyValue` as a typed message: what a put encodes, once.
//!
//! Written by hand because the generator leaves out a message whose uses it
//! maps to another type. Fields are written in ascending order and zeros are
//! left out, which is what etcd does: the bytes, and so HashKV, are the same.

use bytes::Bytes;

/// One version of one key.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct KeyValue {
    /// Never empty in a stored version.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Main revision of the put that brought the key to life.
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    /// Main revision of the put that wrote this version.
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// 1 for the first put of a life, one more for each later put.
    #[prost(int64, tag = "4")]
    pub version: i64,
    /// The value as the client gave it.
    #[prost(bytes = "bytes", tag = "5")]
    pub value: Bytes,
    /// 0: no lease holds the key.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}
