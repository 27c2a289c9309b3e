//! Versions of etcd that clients see: the release that this server behaves like.

/// etcd's version in `/version`, `Status` and `--version`.
pub const ETCD_VERSION: &str = "3.7.3";
/// The version that all members of the cluster agree on.
pub const CLUSTER_VERSION: &str = "3.7.0";
/// The version in `Status.storageVersion`.
pub const STORAGE_VERSION: &str = "3.7.0";
