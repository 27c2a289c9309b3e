//! Tests of etcd's database files.
//!
//! One program: a crate's tests are compiled and linked once.

mod files;
mod support;
mod written;
