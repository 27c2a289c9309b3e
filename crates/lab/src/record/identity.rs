//! Who was measured.

use serde::{Deserialize, Serialize};

/// Enough to find the same target again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetIdentity {
    /// As it was named on the command line: `engine`, `server:target/release/inkstone`.
    pub name: String,
    /// What people call it: `inkstone`, `etcd`, `redb`.
    pub product: String,
    /// Of the product: as it says itself, or as its crate says.
    pub version: String,
    /// The programs that were measured: servers, or the worker itself for an
    /// embedded target.
    pub binary: Option<Binary>,
    /// The words that each server was started with, the first member's; empty
    /// for embedded targets and foreign endpoints.
    pub command: Vec<String>,
    /// Servers that answer together; 0 for embedded targets.
    pub members: u32,
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binary {
    /// Its name, without folders: a record is no place for anybody's paths.
    pub file_name: String,
    /// In bytes.
    pub bytes: u64,
    /// SHA-1 of its contents, in hexadecimal.
    pub sha1: String,
}
