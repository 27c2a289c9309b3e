//! The server over its socket, with clients of its own API.
//!
//! Each test has a server in a directory of its own, on a port that the
//! system chooses. One file per service.

#![expect(clippy::unwrap_used, reason = "a test stops where something fails")]

mod auth;
mod connections;
mod gateway;
mod grpc;
mod http;
mod kv;
mod lease;
mod long_turns;
mod maintenance;
mod members;
mod page;
mod recipes;
mod serving;
mod small_messages;
mod snapshot;
mod unread_ranges;
mod view;
mod watch;
