//! Tests of connections between members.
//!
//! One program: a crate's tests are compiled and linked once.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod addresses;
mod golden;
#[path = "../half_frame/mod.rs"]
mod half_frame;
mod half_frames;
mod inquiries;
mod messages;
mod secret;
mod strangers;
mod streams;
#[path = "../support/mod.rs"]
mod support;
