//! Identity of a measured target.

use serde::{Deserialize, Serialize};

/// Names, version and program of a target, enough to find the same target again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetIdentity {
    /// The name on the command line: `engine`, `server:target/release/inkstone`.
    pub name: String,
    /// Name of the product: `inkstone`, `etcd`, `redb`.
    pub product: String,
    /// Version of the product, as it reports itself or as its crate declares.
    pub version: String,
    /// The program that was measured: the server's, or the worker itself for an embedded
    /// target.
    pub binary: Option<Binary>,
    /// The command line of the first member's server; empty for embedded targets and foreign
    /// endpoints.
    pub command: Vec<String>,
    /// Number of servers of the cluster; 0 for embedded targets.
    pub members: u32,
}

/// A program file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binary {
    /// Name without folders: records are published, and the user's paths are private.
    pub file_name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-1 of its contents, in hexadecimal.
    pub sha1: String,
}
