//! etcd's v3 API over gRPC and HTTP on one port.

pub mod config;
pub mod identity;
