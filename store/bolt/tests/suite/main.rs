//! Tests of etcd's database files.
//!
//! One program: a crate's tests are compiled and linked once.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::disallowed_methods, reason = "files of the tests' own")]

mod files;
mod support;
mod written;
