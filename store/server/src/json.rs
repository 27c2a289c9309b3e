//! etcd's JSON gateway: HTTP and WebSocket as calls of gRPC.
//!
//! ```text
//!   http.rs ──► gateway ──┬──────────────► call ──► body: JSON to messages
//!                         └─► websocket ──►   │
//!                                             └───► dispatch.rs ──► answer: messages to JSON
//! ```
//!
//! The crate `gateway` knows the meaning of JSON; here are sockets, memory and time.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod gateway;
mod websocket;
