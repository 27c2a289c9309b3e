//! The etcd release whose behaviour we promise, as clients ask for it.

/// What `/version`, `Status` and `--version` answer as etcd's version.
pub const ETCD_VERSION: &str = "3.7.3";
/// The version all members of the cluster agree on.
pub const CLUSTER_VERSION: &str = "3.7.0";
/// The oldest cluster version that etcd of this release joins.
pub const MINIMUM_CLUSTER_VERSION: &str = "3.0.0";
/// What `Status.storageVersion` answers.
pub const STORAGE_VERSION: &str = "3.7.0";
