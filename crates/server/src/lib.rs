//! etcd's v3 API over gRPC and HTTP on one port.
