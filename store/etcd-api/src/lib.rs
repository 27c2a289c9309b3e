//! etcd's wire contract: messages, services and the error table; no logic.
//!
//! ```text
//!   proto/*.proto ──protox + tonic──► mvccpb  authpb  etcdserverpb  v3lockpb  v3electionpb
//!   etcd 3.7.3's descriptors ──────► tests/contract.txt, compared line by line
//!   proto/follow.proto, snapshots.proto, view.proto ──► inkstonepb: services that etcd does not have
//! ```
//!
//! The proto files are our own writing to etcd 3.7's names, numbers and types,
//! which are facts that every client relies on. All `bytes` fields are
//! [`bytes::Bytes`], so that a value is never copied between the log and the
//! socket, and wherever a message carries a `KeyValue`, the Rust type is
//! [`EncodedKeyValue`]: the bytes exactly as the log stores them.

mod encoded_key_value;
mod error;
mod key_value;
mod version;

pub use encoded_key_value::{EncodedKeyValue, Fields};
pub use error::Error;
pub use version::{CLUSTER_VERSION, ETCD_VERSION, STORAGE_VERSION};

/// All our proto files as one encoded `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Key versions and events.
pub mod mvccpb {
    pub use crate::key_value::KeyValue;
    include!(concat!(env!("OUT_DIR"), "/mvccpb.rs"));
}

/// Users, roles and permissions.
pub mod authpb {
    include!(concat!(env!("OUT_DIR"), "/authpb.rs"));
}

/// The six services of the client port and their messages.
pub mod etcdserverpb {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
}

/// The lock service.
pub mod v3lockpb {
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.rs"));
}

/// The election service.
pub mod v3electionpb {
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.rs"));
}

/// Inkstone's own services: a store follows another cluster; compressed snapshots; calls of the
/// page at `/ui`.
pub mod inkstonepb {
    include!(concat!(env!("OUT_DIR"), "/inkstonepb.rs"));

    /// Shows no hash of a password.
    impl std::fmt::Debug for GivenUsers {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let (users, roles) = (self.users.len(), self.roles.len());
            write!(formatter, "GivenUsers({users} users, {roles} roles)")
        }
    }
}
