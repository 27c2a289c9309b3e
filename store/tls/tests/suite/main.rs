//! Tests of handshakes, certificates and streams.
//!
//! One program: a crate's tests are compiled and linked once.

mod crowds;
mod files;
mod handshakes;
mod streams;
mod support;
